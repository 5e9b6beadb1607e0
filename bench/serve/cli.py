"""tools/bench_serve: quire's server, and others that run already, under the same loads in turns."""

import argparse
import json
import sys
from datetime import datetime, timezone
from pathlib import Path

from serve.server import Quire, Running
from serve.works import WORKS, measure, summary

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "models/SmolLM2-135M-Instruct.Q4_1.gguf"
COLUMNS = {"throughput": ["tokens_per_s", "ttft_p50_ms", "ttft_p99_ms", "gap_p50_ms", "gap_p99_ms"],
           "first": ["ttft_p50_ms", "ttft_p99_ms"], "gaps": ["gap_p50_ms", "gap_p99_ms", "seconds"]}


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tools/bench_serve", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--work", nargs="*", choices=[work.name for work in WORKS], default=None)
    parser.add_argument("--model", type=Path, default=MODEL)
    parser.add_argument("--flags", default="", help="of quire serve in every work, in one argument")
    parser.add_argument("--url", nargs="*", default=[], metavar="NAME=URL",
                        help="servers that run already and speak OpenAI's completions")
    parser.add_argument("--json", type=Path, help="write all samples there")
    return parser.parse_args(arguments)


def contestants(work, options):
    for name, flags in work.variants.items():
        yield name, lambda flags=flags: Quire(options.model, [*options.flags.split(), *flags])
    for entry in options.url if work.foreign else []:
        name, url = entry.split("=", 1)
        yield name, lambda url=url: Running(url)


def row(name: str, samples: list[dict], columns: list[str]) -> str:
    cells = []
    for column in columns:
        low, median, high = summary(samples, column)
        cells.append(f"{median:,.1f} ({low:,.1f}-{high:,.1f})")
    extra = max(sample.get("most_running", 0) for sample in samples)
    return f"| {name} | {' | '.join(cells)} | {extra or ''} |"


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    results = {"at": datetime.now(timezone.utc).isoformat(), "flags": options.flags, "works": {}}
    for work in WORKS:
        if options.work is not None and work.name not in options.work:
            continue
        samples: dict[str, list[dict]] = {}
        for _ in range(options.rounds):  # in turns, so that a noisy neighbour meets all
            for name, start in contestants(work, options):
                with start() as server:
                    samples.setdefault(name, []).append(measure(server, work))
        columns = COLUMNS[work.figures]
        print(f"\n| {work.name} | {' | '.join(columns)} | most running |")
        print("|---" * (len(columns) + 2) + "|")
        for name, of_one in samples.items():
            print(row(name, of_one, columns), flush=True)
        results["works"][work.name] = samples
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
