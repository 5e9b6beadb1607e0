"""What the machine could do at best: what `quire bench --dry-run` says about a job."""

import json
import statistics
from pathlib import Path

from .engines import KV_TYPE, Task
from .process import run_process
from .works import Work

FIGURES = ("memory_bytes_per_s", "cache_bytes_per_s", "int8_macs_per_s", "f32_macs_per_s",
           "bf16_macs_per_s")


def measure_limits(quire: Path, task: Task, turn: int) -> tuple[list[dict], dict[str, dict], str]:
    """Of each work of the job the machine's limits now, and what the work needs; else an error.

    Limits are measured in every round beside the engines: neighbours take bandwidth from all.
    """
    job = task.job
    done = run_process([quire, "bench", task.model, "--dry-run", "--json", "--prompt",
                        str(job.prompt_tokens), "--depth", str(job.prompt_tokens), "--batch",
                        str(job.batch), "--generate", str(max(1, job.decode_steps)), "--threads",
                        str(task.threads), "--kv-type", KV_TYPE])
    if done.status:
        return [], {}, done.refusal()
    out = json.loads(done.output)
    cases = {case["work"]: case for case in out["results"]}
    peaks = {name: out["roofline"].get(name) for name in FIGURES}
    limits, needs = [], {}
    for work in job.works:
        case = cases[work.measures]
        limits.append({"work": work.name, "round": turn, **peaks,
                       "bound": case["roofline"]["bound"],
                       "tokens_per_s": case["roofline"]["tokens_per_s"]})
        needs[work.name] = {
            "bytes_per_token": case["per_token"]["bytes"],
            "int8_macs_per_token": case["per_token"]["int8_macs"],
            "f32_macs_per_token": case["per_token"]["f32_macs"],
            "weight_bytes": out["model"]["weight_bytes"],
            "kv_bytes": job.cached_tokens * out["model"]["kv_bytes_per_token"]}
    return limits, needs, ""


def limit_of(work: str, limits: list[dict]) -> dict | None:
    """The median limit of the rounds, and what it is bound by in most of them."""
    mine = [limit for limit in limits if limit["work"] == work]
    if not mine:
        return None
    return {"tokens_per_s": statistics.median(limit["tokens_per_s"] for limit in mine),
            "bound": statistics.mode(limit["bound"] for limit in mine)}


def describe_work(work: Work, context: int, needs: dict | None) -> dict:
    return {"name": work.name, "model": work.model, "measures": work.measures,
            "prompt_tokens": work.prompt_tokens, "decode_steps": work.decode_steps,
            "batch": work.batch, "context": context, "needs": needs}
