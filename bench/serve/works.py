"""The works of `make bench-serve`: which server under which load, and what is taken from it."""

import asyncio
import statistics
import time
from dataclasses import dataclass, field
from typing import Callable

from serve import client, loads
from serve.client import Answer, Ask


@dataclass(frozen=True)
class Work:
    """`variants` are flags of `quire serve` by name; a foreign server takes part without flags."""
    name: str
    load: Callable[[], list[Ask]]
    concurrency: int
    variants: dict[str, list[str]] = field(default_factory=lambda: {"quire": []})
    figures: str = "throughput"  # or "first" or "gaps": what the table is about
    foreign: bool = True


def percentile(values: list[float], p: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(p / 100 * len(ordered)))]


def figures_of(answers: list[Answer], seconds: float) -> dict[str, float]:
    gaps = [gap for answer in answers for gap in answer.gaps] or [0.0]
    first = [answer.ttft for answer in answers if answer.parts] or [0.0]
    n_tokens = sum(answer.usage.get("completion_tokens", len(answer.parts)) for answer in answers)
    return {"tokens_per_s": n_tokens / seconds, "seconds": seconds,
            "ttft_p50_ms": 1e3 * percentile(first, 50), "ttft_p99_ms": 1e3 * percentile(first, 99),
            "gap_p50_ms": 1e3 * percentile(gaps, 50), "gap_p99_ms": 1e3 * percentile(gaps, 99)}


class Watch:
    """The most sequences that ran at once, and pages in use beside tokens in them."""

    def __init__(self, server):
        self.server, self.most_running = server, 0

    async def run(self):
        while True:
            state = await asyncio.to_thread(self.server.state)
            if not state:
                return
            self.most_running = max(self.most_running, state["sequences"]["running"])
            await asyncio.sleep(0.05)


async def put_to(server, asks: list[Ask], concurrency: int) -> dict[str, float]:
    watch = Watch(server)
    watching = asyncio.create_task(watch.run())
    begun = time.perf_counter()
    answers = await client.run(server.url, asks, concurrency)
    seconds = time.perf_counter() - begun
    watching.cancel()
    errors = [answer.error for answer in answers if answer.error]
    if errors:
        raise RuntimeError(f"{len(errors)} requests failed; the first: {errors[0]}")
    out = figures_of(answers, seconds)
    if watch.most_running:
        out["most_running"] = watch.most_running
    out["answers"] = [{"ttft_ms": 1e3 * a.ttft if a.parts else None,
                       "cached": a.usage.get("prompt_tokens_details", {}).get("cached_tokens")}
                      for a in answers]
    return out


def measure(server, work: Work) -> dict[str, float]:
    return asyncio.run(put_to(server, work.load(), work.concurrency))


# 30 layers x 12 KiB a page of 16 tokens: what 16 sequences of 128 + 300 tokens can need at most.
POOL = 16 * (428 // 16 + 1) * 30 * 12288

WORKS = [
    Work("streams-16", lambda: loads.streams(32, 128, 64), 16),
    Work("burst-64", lambda: loads.long_tail(64, 128, 100, 400), 64),
    Work("batching", lambda: loads.long_tail(64, 128, 200, 1000), 64,
         {"continuous": ["--max-running", "16"],
          "static": ["--max-running", "16", "--scheduler", "static"]}, foreign=False),
    Work("allocation", lambda: loads.long_tail(64, 128, 60, 1000), 64,
         {"paged": ["--kv-memory", str(POOL)],
          "reserve": ["--kv-memory", str(POOL), "--kv-allocation", "reserve"]}, foreign=False),
    Work("crowded", lambda: loads.streams(32, 128, 300), 32,
         {f"1/{n} of the pages": ["--kv-memory", str(2 * POOL // n), "--max-running", "32"]
          for n in (1, 2, 4)}, foreign=False),
    Work("warm-2000", lambda: loads.repeated(12, 2000), 1,
         figures="first"),
    Work("beside-long-prompts", lambda: loads.beside_long_prompts(300, 3000, 4, 1.0), 8,
         {"chunked": [], "unchunked": ["--no-chunked-prefill"]}, "gaps", foreign=False),
]


def summary(samples: list[dict[str, float]], key: str) -> tuple[float, float, float]:
    values = [sample[key] for sample in samples]
    return min(values), statistics.median(values), max(values)
