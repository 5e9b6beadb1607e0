"""The program behind tools/bench: options, the rounds, what is printed and what is written."""

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from datetime import datetime, timezone
from pathlib import Path

from .engines import KV_TYPE, ROOT, Peer, Quire, Task, measure
from .figures import OTHER, summarize, table, turns
from .machine import describe_commit, describe_machine, file_name
from .plot import depth_plot
from .prompts import cut_prompt
from .result import FORMAT
from .works import MODELS, Work, select_works

PEERS = ("llama_cpp", "openvino")
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
    parser.add_argument("--rounds", type=positive, default=5, metavar="N",
                        help="samples of every engine at every work (default 5)")
    parser.add_argument("--work", action="append", default=[], metavar="NAME",
                        help="only this one; repeatable, patterns like 'smollm2-*' (default: all)")
    parser.add_argument("--engines", metavar="A,B",
                        help=f"of quire, quire_avx2, {OTHER}, {', '.join(PEERS)} (default: quire "
                             f"and the peers; with --compare quire and {OTHER})")
    parser.add_argument("--compare", type=Path, metavar="QUIRE",
                        help=f"measure this build of quire, too; its name is {OTHER}")
    parser.add_argument("--quire", type=Path, default=QUIRE, metavar="QUIRE",
                        help="the build to measure (default build/release/bin/quire)")
    parser.add_argument("--quire-args", default="", metavar="'...'",
                        help="more options for `quire run`, of every build")
    parser.add_argument("--threads", type=positive, default=os.cpu_count(), metavar="N",
                        help="of every engine (default: every CPU)")
    parser.add_argument("--json", action="store_true",
                        help="print the result as JSON instead of the table")
    parser.add_argument("--output", type=Path, default=ROOT / "bench/results", metavar="FOLDER",
                        help="where the result and the plot go (default bench/results)")
    parser.add_argument("--list", action="store_true", help="list the works and end")
    return parser.parse_args(arguments)


def chosen_engines(options: argparse.Namespace) -> list[str]:
    known = ["quire", "quire_avx2", OTHER, *PEERS]
    if options.engines:
        names = options.engines.split(",")
    else:
        names = ["quire", OTHER] if options.compare else ["quire", *PEERS]
    for name in names:
        if name not in known:
            raise BenchError(f"there is no engine '{name}', only {', '.join(known)}")
    if OTHER in names and not options.compare:
        raise BenchError(f"the engine '{OTHER}' is the build that --compare names")
    if options.compare and OTHER not in names:
        names.append(OTHER)
    return list(dict.fromkeys(names))


def prepare(options: argparse.Namespace, names: list[str],
            folder: Path) -> dict[str, Quire | Peer]:
    """The engines, ready to run; a sentence about the first thing that is missing otherwise.

    Builds of quire are copied into the folder: a build that goes on meanwhile changes nothing.
    """
    copies = {}
    for name, binary in (("quire", options.quire), (OTHER, options.compare)):
        if binary is None:
            continue
        if not binary.is_file() or not os.access(binary, os.X_OK):
            raise BenchError(f"{binary} is no program; `make build` builds quire")
        copies[name] = shutil.copy2(binary, folder / name)
    peers = [name for name in names if name in PEERS]
    if peers and subprocess.run([ROOT / "bench/peers/install", *peers], cwd=ROOT).returncode:
        raise BenchError("without its peers quire can be measured by --engines quire")
    extra = shlex.split(options.quire_args)
    builds = {"quire": Quire(copies["quire"], extra),
              "quire_avx2": Quire(copies["quire"], extra, isa="avx2")}
    if OTHER in copies:
        builds[OTHER] = Quire(copies[OTHER], extra)
    return {name: builds[name] if name in builds else Peer(name) for name in names}


def run_quire(quire: Path, stdin: bytes, *arguments) -> bytes:
    done = subprocess.run([quire, *arguments], input=stdin, capture_output=True, cwd=ROOT)
    if done.returncode:
        raise BenchError(done.stderr.decode(errors="replace").strip())
    return done.stdout


def make_tasks(works: list[Work], quire: Path, threads: int, folder: Path) -> dict[str, Task]:
    """Each work with its prompt, as a file for quire and as ids for the others."""
    if not TEXT.exists():
        done = subprocess.run([ROOT / "tools/kjv_text", TEXT], capture_output=True, text=True)
        if done.returncode:
            raise BenchError(f"{done.stderr.strip()} (`make setup` installs it)")
    tasks, prompts = {}, {}
    for work in works:
        model = ROOT / MODELS[work.model]
        if not model.exists():
            raise BenchError(f"{MODELS[work.model]} is missing; `make models` fetches it")
        key = (work.model, work.prompt_tokens)
        if key not in prompts:
            def tokenize(text: str, *options) -> list[int]:
                return json.loads(run_quire(quire, text.encode(), "tokenize", model, "--json",
                                            *options))

            def detokenize(ids: list[int]) -> str:
                text = run_quire(quire, json.dumps(ids).encode(), "detokenize", model)
                return text.decode(errors="replace")
            prompts[key] = cut_prompt(tokenize(TEXT.read_text()), work.prompt_tokens, detokenize,
                                      lambda text: tokenize(text, "--bos"))
        text, ids = prompts[key]
        file = folder / f"{work.model}-{work.prompt_tokens}.txt"
        file.write_bytes(text.encode())
        tasks[work.name] = Task(work, text, file, ids, threads)
    return tasks


def take_turns(engines: dict, tasks: dict[str, Task], rounds: int) -> tuple[list[dict], bool]:
    """Every sample, and whether that is all: what was measured before Ctrl-C is kept."""
    samples: list[dict] = []
    refused = set()
    try:
        for turn, work, name in turns(list(tasks), list(engines), rounds):
            if (name, work) in refused:
                continue
            sample = measure(engines[name], name, tasks[work], turn)
            samples.append(sample)
            if sample["error"] is None:
                words = f"{sample['tokens_per_s']:9.1f} tokens/s"
            else:
                words = f"failed: {sample['error']}"
                refused.add((name, work))  # it would fail again
            say(f"round {turn + 1} of {rounds}  {work:20} {name:10} {words}")
    except KeyboardInterrupt:
        say("interrupted; these are the rounds until now")
        return samples, False
    return samples, True


def peer_versions(names: list[str]) -> dict[str, str]:
    out = {}
    for name in names:
        lines = (ROOT / f"bench/peers/{name}.txt").read_text().splitlines()
        out[name] = next(line for line in lines if "==" in line)
    return out


def write(result: dict, folder: Path) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    stem = folder / file_name(result["date"], result["machine"])
    paths = [stem.with_name(stem.name + ".json")]
    paths[0].write_text(json.dumps(result, indent=1) + "\n")
    for model in MODELS:
        if (svg := depth_plot(result, model)) is not None:
            paths.append(stem.with_name(f"{stem.name}-{model}-depth.svg"))
            paths[-1].write_text(svg)
    return paths


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
        tasks = make_tasks(works, folder / "quire", options.threads, folder)
        samples, complete = take_turns(engines, tasks, options.rounds)
    peers = [name for name in names if name in PEERS]
    result = {
        "format": FORMAT, "date": date, "quire": describe_commit(ROOT, options.quire.absolute()),
        "machine": machine,
        "settings": {"threads": options.threads, "rounds": options.rounds, "kv_type": KV_TYPE,
                     "flash_attention": True, "quire_arguments": shlex.split(options.quire_args),
                     "environment": {k: v for k, v in os.environ.items()
                                     if k.startswith(("QUIRE_", "OMP_", "GOMP_"))}},
        "peers": peer_versions(peers),
        "works": [{"name": w.name, "model": w.model, "measures": w.measures,
                   "prompt_tokens": w.prompt_tokens, "decode_steps": w.decode_steps,
                   "context": w.context} for w in works],
        "samples": samples,
        "summary": summarize(samples, [w.name for w in works], names, peers)}
    print(json.dumps(result) if options.json else table(result["summary"]))
    others = [s["others_cpu"] for s in samples]
    if others and (share := sum(others) / len(others)) > BUSY:
        say(f"other programs used {share:.0%} of the CPUs meanwhile: take no figure for the truth")
    for path in write(result, options.output):
        say(f"wrote {os.path.relpath(path)}")
    if not complete:
        return INTERRUPTED
    failed = any(s["error"] is not None and s["engine"] not in PEERS for s in samples)
    return 1 if failed else 0


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    if options.list:
        for work in select_works([]):
            print(f"{work.name:22} {work.prompt_tokens} prompt tokens, " + (
                f"then {work.decode_steps} timed steps" if work.decode_steps else "timed"))
        return 0
    try:
        return run(options)
    except BenchError as error:
        say(str(error))
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
