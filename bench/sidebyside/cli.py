"""The program behind tools/bench: options, the rounds, what is printed and what is written."""

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

from .engines import KV_TYPE, PEERS, VARIANTS, Peer, Quire, Task, make_engine, measure
from .figures import OTHER, SUBJECT, base_name, summarize, table, turns
from .limits import describe_work, measure_limits
from .machine import describe_commit, describe_machine, file_name
from .process import ROOT
from .prompts import cut_prompt
from .result import FORMAT
from .works import MODELS, Job, jobs_of, select_works

DEFAULT_ENGINES = ("quire", "quire-bf16", "quire-avx2", *PEERS)
QUIRE = ROOT / "build/release/bin/quire"
TEXT = ROOT / "build/kjv.txt"
INTERRUPTED = 130
BUSY = 0.05  # the share of the CPUs that others may use before figures are doubted


class BenchError(Exception):
    """Why nothing can be measured, in one sentence."""


def say(words: str) -> None:
    print(f"bench: {words}", file=sys.stderr, flush=True)


def parse(arguments: list[str]) -> argparse.Namespace:
    def positive(word: str) -> int:
        if (n := int(word)) < 1:
            raise ValueError
        return n
    parser = argparse.ArgumentParser(
        prog="tools/bench", description="Measures quire beside other engines on real models.")
    parser.add_argument("--rounds", type=positive, default=4, metavar="N",
                        help="samples of every engine at every work (default 4)")
    parser.add_argument("--work", action="append", default=[], metavar="NAME",
                        help="only this one; repeatable, patterns like 'smollm2-*' (default: "
                             "those that --list marks)")
    parser.add_argument("--engines", metavar="A,B",
                        help=f"of quire, {OTHER}, {', '.join(PEERS)}, each also with -bf16 behind "
                             "its name for a bf16 cache, quire with -avx2 for what CPUs without "
                             f"AVX-512 get (default: {','.join(DEFAULT_ENGINES)}; with --compare "
                             f"quire,{OTHER})")
    parser.add_argument("--compare", type=Path, metavar="QUIRE",
                        help=f"measure this build of quire, too; its name is {OTHER}")
    parser.add_argument("--quire", type=Path, default=QUIRE, metavar="QUIRE",
                        help="the build to measure (default build/release/bin/quire)")
    parser.add_argument("--quire-args", default="", metavar="'...'",
                        help="more options for `quire run` and `quire bench`, of every build")
    parser.add_argument("--threads", type=positive, default=os.cpu_count(), metavar="N",
                        help="of every engine (default: every CPU)")
    parser.add_argument("--json", action="store_true",
                        help="print the result as JSON instead of the table")
    parser.add_argument("--output", type=Path, default=ROOT / "bench/results", metavar="FOLDER",
                        help="where the result goes (default bench/results)")
    parser.add_argument("--list", action="store_true", help="list the works and end")
    return parser.parse_args(arguments)


def chosen_engines(options: argparse.Namespace) -> list[str]:
    known = (SUBJECT, OTHER, *PEERS)
    if options.engines:
        names = options.engines.split(",")
    else:
        names = [SUBJECT, OTHER] if options.compare else list(DEFAULT_ENGINES)
    for name in names:
        base, _, variant = name.partition("-")
        if base not in known:
            raise BenchError(f"there is no engine '{name}', only {', '.join(known)}")
        if variant not in VARIANTS or (variant == "avx2" and base in PEERS):
            raise BenchError(f"there is no variant '{name}': -bf16 of every engine, -avx2 of quire")
    if any(base_name(name) == OTHER for name in names) and not options.compare:
        raise BenchError(f"the engine '{OTHER}' is the build that --compare names")
    if options.compare and not any(base_name(name) == OTHER for name in names):
        names.append(OTHER)
    return list(dict.fromkeys(names))


def prepare(options: argparse.Namespace, names: list[str],
            folder: Path) -> dict[str, Quire | Peer]:
    """The engines, ready to run; a sentence about the first thing that is missing otherwise.

    Builds of quire are copied into the folder: a build that goes on meanwhile changes nothing.
    """
    copies = {}
    for name, binary in ((SUBJECT, options.quire), (OTHER, options.compare)):
        if binary is None:
            continue
        if not binary.is_file() or not os.access(binary, os.X_OK):
            raise BenchError(f"{binary} is no program; `make build` builds quire")
        copies[name] = shutil.copy2(binary, folder / name)
    peers = sorted({base_name(name) for name in names} & set(PEERS))
    if peers and subprocess.run([ROOT / "bench/peers/install", *peers], cwd=ROOT).returncode:
        raise BenchError("without its peers quire can be measured by --engines quire")
    extra = shlex.split(options.quire_args)
    return {name: make_engine(name, copies, extra) for name in names}


def run_quire(quire: Path, stdin: bytes, *arguments) -> bytes:
    done = subprocess.run([quire, *arguments], input=stdin, capture_output=True, cwd=ROOT)
    if done.returncode:
        raise BenchError(done.stderr.decode(errors="replace").strip())
    return done.stdout


def make_tasks(jobs: list[Job], quire: Path, threads: int, folder: Path) -> list[Task]:
    """Each job with its prompts: the first as a file for quire, all as ids for the others."""
    if not TEXT.exists():
        done = subprocess.run([ROOT / "tools/kjv_text", TEXT], capture_output=True, text=True)
        if done.returncode:
            raise BenchError(f"{done.stderr.strip()} (`make setup` installs it)")
    tasks = []
    sources: dict[str, list[int]] = {}
    for job in jobs:
        model = ROOT / MODELS[job.model]
        if not model.exists():
            raise BenchError(f"{MODELS[job.model]} is missing; `make models` fetches it")

        def tokenize(text: str, *options, model=model) -> list[int]:
            return json.loads(run_quire(quire, text.encode(), "tokenize", model, "--json",
                                        *options))

        def detokenize(ids: list[int], model=model) -> str:
            text = run_quire(quire, json.dumps(ids).encode(), "detokenize", model)
            return text.decode(errors="replace")
        if job.model not in sources:
            sources[job.model] = tokenize(TEXT.read_text())
        source, n = sources[job.model], job.prompt_tokens
        text, ids = cut_prompt(source, n, detokenize, lambda text: tokenize(text, "--bos"))
        file = folder / f"{job.model}-{n}.txt"
        file.write_bytes(text.encode())
        # Sequences of a batch differ; whether the others begin as a text does makes no difference.
        others = [source[n * i:n * (i + 1)] for i in range(1, job.batch)]
        tasks.append(Task(job, file, [ids, *others], threads))
    return tasks


@dataclass
class Measured:
    """What the rounds gave; what was measured before Ctrl-C is kept."""
    samples: list[dict] = field(default_factory=list)
    limits: list[dict] = field(default_factory=list)
    needs: dict[str, dict] = field(default_factory=dict)
    complete: bool = False


def take_turns(engines: dict, quire: Path, tasks: list[Task], rounds: int) -> Measured:
    out = Measured()
    refused = set()
    no_limits = False

    def shown(turn: int, work: str, name: str, speed: float | None, error: str | None) -> None:
        words = f"{speed:9.1f} tokens/s" if error is None else f"failed: {error}"
        say(f"round {turn + 1} of {rounds}  {work:20} {name:10} {words}")
    try:
        for turn, task, names in turns(tasks, list(engines), rounds):
            if not no_limits:
                limits, needs, error = measure_limits(quire, task, turn)
                out.limits += limits
                out.needs |= needs
                if no_limits := bool(error):
                    say(f"no limits of the machine: {error}")
            for name in names:
                if (name, task.job) in refused:
                    continue
                for sample in measure(engines[name], name, task, turn):
                    out.samples.append(sample)
                    shown(turn, sample["work"], name, sample["tokens_per_s"], sample["error"])
                    if sample["error"] is not None:
                        refused.add((name, task.job))  # it would fail again
    except KeyboardInterrupt:
        say("interrupted; these are the rounds until now")
        return out
    out.complete = True
    return out


def peer_versions(names: list[str]) -> dict[str, str]:
    out = {}
    for name in names:
        lines = (ROOT / f"bench/peers/{name}.txt").read_text().splitlines()
        out[name] = next(line for line in lines if "==" in line)
    return out


def write(result: dict, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    stem = folder / file_name(result["date"], result["machine"])
    path = stem.with_name(stem.name + ".json")
    path.write_text(json.dumps(result, indent=1) + "\n")
    return path


def run(options: argparse.Namespace) -> int:
    try:
        works = select_works(options.work)
    except ValueError as error:
        raise BenchError(str(error)) from None
    names = chosen_engines(options)
    machine = describe_machine()
    date = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    with tempfile.TemporaryDirectory(prefix="quire-bench-") as name:
        folder = Path(name)
        engines = prepare(options, names, folder)
        tasks = make_tasks(jobs_of(works), folder / SUBJECT, options.threads, folder)
        measured = take_turns(engines, folder / SUBJECT, tasks, options.rounds)
    peers = [name for name in names if base_name(name) in PEERS]
    contexts = {work.name: task.job.context for task in tasks for work in task.job.works}
    described = [describe_work(w, contexts[w.name], measured.needs.get(w.name)) for w in works]
    samples = measured.samples
    result = {
        "format": FORMAT, "date": date, "quire": describe_commit(ROOT, options.quire.absolute()),
        "machine": machine,
        "settings": {"threads": options.threads, "rounds": options.rounds, "kv_type": KV_TYPE,
                     "engines": {name: {"kv_type": engine.kv_type, "isa": engine.isa}
                                 for name, engine in engines.items()},
                     "flash_attention": True, "quire_arguments": shlex.split(options.quire_args),
                     "environment": {k: v for k, v in os.environ.items()
                                     if k.startswith(("QUIRE_", "OMP_", "GOMP_"))}},
        "peers": peer_versions(sorted({base_name(name) for name in peers})),
        "works": described, "samples": samples, "limits": measured.limits,
        "summary": summarize(samples, described, names, peers, measured.limits)}
    print(json.dumps(result) if options.json else table(result["summary"]))
    others = [s["others_cpu"] for s in samples]
    if others and (share := sum(others) / len(others)) > BUSY:
        say(f"other programs used {share:.0%} of the CPUs meanwhile: take no figure for the truth")
    say(f"wrote {os.path.relpath(write(result, options.output))}")
    if not measured.complete:
        return INTERRUPTED
    failed = any(s["error"] is not None and s["engine"] not in peers for s in samples)
    return 1 if failed else 0


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    if options.list:
        for work in select_works(["*"]):
            print(f"{work.name:22} {'*' if work.by_default else ' '} {work.prompt_tokens} prompt "
                  "tokens" + (f" in each of {work.batch} sequences" if work.batch > 1 else "")
                  + (f", then {work.decode_steps} timed steps" if work.decode_steps else ", timed"))
        return 0
    try:
        return run(options)
    except BenchError as error:
        say(str(error))
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
