"""One run of one engine: a process of its own, from its start to its end."""

import json
import os
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from .machine import busy_now
from .works import MODELS, Work

ROOT = Path(__file__).resolve().parents[2]
TIME_LIMIT_S = 1800
KV_TYPE = "f16"
FIRST_TOKENS = 8  # as many of the generated ones are kept


@dataclass(frozen=True)
class Task:
    work: Work
    prompt: str
    prompt_file: Path
    ids: list[int] = field(repr=False)
    threads: int = 1

    @property
    def model(self) -> Path:
        return ROOT / MODELS[self.work.model]


@dataclass(frozen=True)
class Finished:
    """What a process left: its output, and what it cost."""
    status: int
    output: str
    errors: str
    wall_s: float
    cpu_s: float
    peak_rss_bytes: int
    others_cpu: float | None


def run_process(command: list, stdin: str = "", env: dict | None = None) -> Finished:
    with tempfile.TemporaryFile("w+") as given, tempfile.TemporaryFile("w+") as out, \
            tempfile.TemporaryFile("w+") as err:
        given.write(stdin)
        given.seek(0)
        busy, started = busy_now(), time.monotonic()
        child = subprocess.Popen(command, stdin=given, stdout=out, stderr=err, cwd=ROOT,
                                 env={**os.environ, **(env or {})})
        guard = threading.Timer(TIME_LIMIT_S, child.kill)
        guard.start()
        try:
            # Not wait(): only wait4 tells what this child used. A child's peak starts at what
            # its parent has, which is less than any engine needs.
            _, status, usage = os.wait4(child.pid, 0)
        except BaseException:
            child.kill()
            child.wait()
            raise
        finally:
            guard.cancel()
        child.returncode = os.waitstatus_to_exitcode(status)
        wall = time.monotonic() - started
        cpu = usage.ru_utime + usage.ru_stime
        others = max(0.0, busy_now() - busy - cpu) / (wall * (os.cpu_count() or 1))
        out.seek(0)
        err.seek(0)
        return Finished(child.returncode, out.read(), err.read(), wall, cpu,
                        usage.ru_maxrss * 1024, min(1.0, others))


def last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


class Quire:
    """A build of quire, measured by its own figures of `quire run --json`."""

    def __init__(self, binary: Path, arguments: list[str], isa: str | None = None):
        self.binary, self.arguments = binary, arguments
        self.env = {"QUIRE_ISA": isa} if isa else {}

    def run(self, task: Task) -> tuple[Finished, dict]:
        work = task.work
        done = run_process(
            [self.binary, "run", task.model, "--raw", "-f", task.prompt_file,
             "-n", str(work.new_tokens), "--ignore-eos", "--temp", "0", "--json",
             "--threads", str(task.threads), "--ctx", str(work.context), "--kv-type", KV_TYPE,
             *self.arguments], env=self.env)
        if done.status:
            return done, {"error": last_line(done.errors) or f"exit status {done.status}"}
        reply = json.loads(done.output)
        return done, {"error": reply["error"], "load_s": reply["timings"]["load_s"],
                      "tokens_per_s": reply["timings"][f"{work.measures}_tokens_per_s"],
                      "prompt_tokens": reply["prompt_tokens"], "tokens": reply["tokens"]}


class Peer:
    """Another engine, measured by a driver that runs in the environment where it is installed."""

    def __init__(self, name: str):
        self.python = ROOT / f".cache/peers/{name}/bin/python"
        self.driver = ROOT / f"bench/peers/{name}_driver.py"

    def run(self, task: Task) -> tuple[Finished, dict]:
        work = task.work
        request = {"model": str(task.model), "ids": task.ids, "decode_steps": work.decode_steps,
                   "threads": task.threads, "context": work.context, "kv_type": KV_TYPE}
        done = run_process([self.python, self.driver], json.dumps(request))
        try:
            reply = json.loads(done.output)
        except json.JSONDecodeError:
            return done, {"error": last_line(done.errors) or f"exit status {done.status}"}
        if reply.get("error"):
            return done, {"error": reply["error"]}
        speed = (work.decode_steps / reply["decode_s"] if work.decode_steps
                 else len(task.ids) / reply["prefill_s"])
        return done, {"error": None, "load_s": reply["load_s"], "tokens_per_s": speed,
                      "prompt_tokens": reply["prompt_tokens"], "tokens": reply["tokens"]}


def checked(task: Task, reply: dict) -> str | None:
    """Why the reply cannot be counted, None if it can."""
    if reply["error"] is not None:
        return reply["error"]
    if reply["prompt_tokens"] != task.work.prompt_tokens:
        return f"{reply['prompt_tokens']} prompt tokens instead of {task.work.prompt_tokens}"
    if len(reply["tokens"]) != task.work.new_tokens:
        return f"{len(reply['tokens'])} tokens generated instead of {task.work.new_tokens}"
    if not reply["tokens_per_s"] > 0:
        return "it reported no speed"
    return None


def measure(engine: Quire | Peer, name: str, task: Task, turn: int) -> dict:
    """One sample, of the form that result.py states."""
    done, reply = engine.run(task)
    error = checked(task, reply)
    if error is not None:
        reply = {}
    return {"engine": name, "work": task.work.name, "round": turn, "error": error,
            "tokens_per_s": reply.get("tokens_per_s"), "prompt_tokens": reply.get("prompt_tokens"),
            "load_s": reply.get("load_s"), "first_tokens": reply.get("tokens", [])[:FIRST_TOKENS],
            "peak_rss_bytes": done.peak_rss_bytes, "cpu_s": done.cpu_s, "wall_s": done.wall_s,
            "others_cpu": done.others_cpu}
