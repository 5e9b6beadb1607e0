"""The engines: each runs a job in a process of its own and says how long its parts took."""

import json
from dataclasses import dataclass, field
from pathlib import Path

from .process import ROOT, Finished, run_process
from .works import MODELS, Job

PEERS = ("llama_cpp", "openvino")
KV_TYPE = "f16"  # unless the engine's name says otherwise
FIRST_TOKENS = 8  # as many of the generated ones are kept
# What may stand behind a name and a hyphen: the cache in bf16, or quire held to AVX2.
VARIANTS = {"": (KV_TYPE, None), "bf16": ("bf16", None), "avx2": (KV_TYPE, "avx2")}


@dataclass(frozen=True)
class Task:
    job: Job
    prompt_file: Path  # the first prompt as text
    prompts: list[list[int]] = field(repr=False)  # as many as the job's batch
    threads: int = 1

    @property
    def model(self) -> Path:
        return ROOT / MODELS[self.job.model]


@dataclass(frozen=True)
class Reply:
    """What an engine says about a job: an error or the rest."""
    error: str | None
    load_s: float = 0
    prefill_tokens_per_s: float | None = None
    decode_tokens_per_s: float | None = None
    prompt_tokens: int = 0  # of each sequence, as the engine counted them
    decode_steps: int = 0   # that it did
    first_tokens: tuple[int, ...] = ()


class Quire:
    """A build of quire, measured by its own figures."""

    def __init__(self, binary: Path, arguments: list[str], kv_type: str = KV_TYPE,
                 isa: str | None = None):
        self.binary, self.arguments, self.kv_type, self.isa = binary, arguments, kv_type, isa
        self.env = {"QUIRE_ISA": isa} if isa else {}

    def run(self, task: Task) -> tuple[Finished, Reply]:
        several = task.job.batch > 1
        command, read = (self.bench(task), self.read_bench) if several else (
            self.generate(task), self.read_run)
        done = run_process([self.binary, *command, "--json", "--threads", str(task.threads),
                            "--kv-type", self.kv_type, *self.arguments], env=self.env)
        if done.status:
            return done, Reply(done.refusal())
        return done, read(json.loads(done.output))

    @staticmethod
    def generate(task: Task) -> list:
        return ["run", task.model, "--raw", "-f", task.prompt_file, "-n",
                str(task.job.new_tokens), "--ignore-eos", "--temp", "0", "--ctx",
                str(task.job.context)]

    @staticmethod
    def read_run(out: dict) -> Reply:
        if out["error"] is not None:
            return Reply(out["error"])
        times, tokens = out["timings"], out["tokens"]
        return Reply(None, times["load_s"], times["prefill_tokens_per_s"],
                     times["decode_tokens_per_s"], out["prompt_tokens"], len(tokens) - 1,
                     tuple(tokens[:FIRST_TOKENS]))

    @staticmethod
    def bench(task: Task) -> list:
        """Several sequences in one step; which tokens their prompts have does not matter."""
        return ["bench", task.model, "--prompt", "none", "--depth", str(task.job.prompt_tokens),
                "--batch", str(task.job.batch), "--generate", str(task.job.decode_steps),
                "--repeat", "1", "--greedy", "--no-limits"]

    @staticmethod
    def read_bench(out: dict) -> Reply:
        case, = out["results"]
        return Reply(None, out["model"]["load_s"], None, case["tokens_per_s"]["median"],
                     case["depth"], case["generate"])


class Peer:
    """Another engine, measured by a driver that runs in the environment where it is installed."""

    def __init__(self, name: str, kv_type: str = KV_TYPE):
        self.python = ROOT / f".cache/peers/{name}/bin/python"
        self.driver = ROOT / f"bench/peers/{name}_driver.py"
        self.kv_type, self.isa = kv_type, None

    def run(self, task: Task) -> tuple[Finished, Reply]:
        job = task.job
        request = {"model": str(task.model), "prompts": task.prompts,
                   "decode_steps": job.decode_steps, "context": job.context,
                   "threads": task.threads, "kv_type": self.kv_type}
        done = run_process([self.python, self.driver], json.dumps(request))
        try:
            reply = json.loads(done.output)
        except ValueError:
            return done, Reply(done.refusal())
        if reply.get("error"):
            return done, Reply(reply["error"])
        counts = {len(tokens) for tokens in reply["tokens"]}
        if len(reply["tokens"]) != job.batch or len(counts) != 1:
            return done, Reply(f"sequences with {sorted(counts)} tokens, {len(reply['tokens'])} "
                               f"of {job.batch}")
        prompt_tokens = reply["prompt_tokens"]
        return done, Reply(
            None, reply["load_s"], job.batch * prompt_tokens / reply["prefill_s"],
            job.batch * job.decode_steps / reply["decode_s"] if job.decode_steps else None,
            prompt_tokens, counts.pop() - 1, tuple(reply["tokens"][0][:FIRST_TOKENS]))


def make_engine(name: str, builds: dict[str, Path], arguments: list[str]) -> Quire | Peer:
    base, _, variant = name.partition("-")
    kv_type, isa = VARIANTS[variant]
    if base in builds:
        return Quire(builds[base], arguments, kv_type, isa)
    return Peer(base, kv_type)


def checked(job: Job, reply: Reply) -> str | None:
    """Why the reply cannot be counted, None if it can."""
    if reply.error is not None:
        return reply.error
    if reply.prompt_tokens != job.prompt_tokens:
        return f"{reply.prompt_tokens} prompt tokens instead of {job.prompt_tokens}"
    if reply.decode_steps != job.decode_steps:
        return f"{reply.decode_steps} steps done instead of {job.decode_steps}"
    return None


def measure(engine: Quire | Peer, name: str, task: Task, turn: int) -> list[dict]:
    """A sample of each work of the job, of the form that result.py states."""
    done, reply = engine.run(task)
    refused = checked(task.job, reply)
    samples = []
    for work in task.job.works:
        speed = (reply.decode_tokens_per_s if work.decode_steps else reply.prefill_tokens_per_s)
        error = refused or (None if speed and speed > 0 else "it reported no speed")
        good = error is None
        samples.append({
            "engine": name, "work": work.name, "round": turn, "error": error,
            "tokens_per_s": speed if good else None,
            "prompt_tokens": reply.prompt_tokens if good else None,
            "load_s": reply.load_s if good else None,
            "first_tokens": list(reply.first_tokens) if good else [],
            "peak_rss_bytes": done.peak_rss_bytes, "cpu_s": done.cpu_s, "wall_s": done.wall_s,
            "others_cpu": done.others_cpu})
    return samples
