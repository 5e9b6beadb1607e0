"""From samples to figures. A sample is what one process reported; nothing here measures."""

import statistics

from .limits import limit_of

Sample = dict  # one run of one engine: see result.py for its fields
SUBJECT = "quire"  # whose ratios are printed, with those of its variants
OTHER = "other"  # a second build of quire
COLUMNS = (f"{'min':>9} {'median':>9} {'max':>9} {'limit':>6} {'load s':>7} {'peak MiB':>9} "
           f"{'needed':>7}  ratio of medians (of single rounds; of the best)")


def base_name(engine: str) -> str:
    """What stands before the variant: quire of quire-bf16."""
    return engine.partition("-")[0]


def turns(jobs: list, engines: list[str], rounds: int) -> list[tuple[int, object, list[str]]]:
    """(round, job, engines) in the order of measuring.

    The engines take turns within a job, so that they meet the same neighbours, and another one
    begins in each round, so that none always runs on a machine that the same one has just heated.
    """
    order = []
    for turn in range(rounds):
        first = turn % len(engines)
        order += [(turn, job, engines[first:] + engines[:first]) for job in jobs]
    return order


def cell(samples: list[Sample]) -> dict:
    """The figures of one engine at one work."""
    good = [s for s in samples if s["error"] is None]
    errors = [s["error"] for s in samples if s["error"] is not None]
    out = {"samples": len(good), "error": errors[0] if errors else None}
    if good:
        speeds = [s["tokens_per_s"] for s in good]
        out |= {"min": min(speeds), "median": statistics.median(speeds), "max": max(speeds),
                "load_s": statistics.median(s["load_s"] for s in good),
                "peak_rss_bytes": max(s["peak_rss_bytes"] for s in good)}
    return out


def ratio(subject: list[Sample], other: list[Sample]) -> dict | None:
    """How the subject stands to the other; None where one of them has no figure.

    Of the medians, of the rounds one by one, and of the best rounds: what other programs do only
    ever costs speed, so that on a busy machine the best rounds are the closest to the truth.
    """
    mine = {s["round"]: s["tokens_per_s"] for s in subject if s["error"] is None}
    theirs = {s["round"]: s["tokens_per_s"] for s in other if s["error"] is None}
    if not mine or not theirs:
        return None
    out = {"ratio": statistics.median(mine.values()) / statistics.median(theirs.values()),
           "of_best": max(mine.values()) / max(theirs.values())}
    paired = [mine[r] / theirs[r] for r in mine if r in theirs]
    if paired:
        out |= {"lowest_round": min(paired), "median_round": statistics.median(paired),
                "highest_round": max(paired)}
    return out


def summarize(samples: list[Sample], works: list[dict], engines: list[str], peers: list[str],
              limits: list[dict]) -> list[dict]:
    """One entry per work: every engine's cell, and how each variant of quire stands to others."""
    summary = []
    for work in works:
        name, needs = work["name"], work["needs"]
        of = {engine: [s for s in samples if s["work"] == name and s["engine"] == engine]
              for engine in engines}
        limit = limit_of(name, limits)
        cells = {engine: cell(of[engine]) for engine in engines}
        for figures in cells.values():
            if not figures["samples"]:
                continue
            if limit is not None:
                figures["of_limit"] = figures["median"] / limit["tokens_per_s"]
            if needs is not None:
                figures["peak_of_needed"] = figures["peak_rss_bytes"] / (
                    needs["weight_bytes"] + needs["kv_bytes"])
        summary.append({"work": name, "limit": limit, "cells": cells,
                        "ratios": ratios_of(of, cells, peers)})
    return summary


def ratios_of(of: dict[str, list[Sample]], cells: dict, peers: list[str]) -> dict[str, dict]:
    """Each variant of quire beside the best peer, quire beside the other build, too."""
    measured = [p for p in peers if cells.get(p, {}).get("samples")]
    best = [max(measured, key=lambda p: cells[p]["median"])] if measured else []
    out: dict[str, dict] = {}
    for subject in (engine for engine in of if base_name(engine) == SUBJECT):
        rivals = best + ([OTHER] if subject == SUBJECT and OTHER in of else [])
        found = {rival: ratio(of[subject], of[rival]) for rival in rivals}
        found = {rival: figures for rival, figures in found.items() if figures is not None}
        if found:
            out[subject] = found
    return out


def table(summary: list[dict]) -> str:
    """For people: a line per engine and work, those of quire with their ratios."""
    width = max([len("work"), *(len(entry["work"]) for entry in summary)])
    engines = max([len("engine"), *(len(e) for entry in summary for e in entry["cells"])])
    lines = [f"{'work':{width}}  {'engine':{engines}} {COLUMNS}", ""]
    for entry in summary:
        name = entry["work"]
        for engine, figures in entry["cells"].items():
            lines.append(f"{name:{width}}  {engine:{engines}} "
                         + line(figures, entry["ratios"].get(engine, {})).rstrip())
            name = ""
        if (limit := entry["limit"]) is not None:
            lines.append(f"{'':{width}}  {'limit':{engines}} {'':9} {limit['tokens_per_s']:9.1f} "
                         f"{'':9} by {'reading' if limit['bound'] == 'memory' else 'computing'}")
        lines.append("")
    return "\n".join(lines)


def line(figures: dict, ratios: dict[str, dict]) -> str:
    if not figures["samples"]:
        return "not measured" if figures["error"] is None else f"failed: {figures['error']}"
    of_limit = f"{figures['of_limit']:6.0%}" if "of_limit" in figures else f"{'':6}"
    needed = f"{figures['peak_of_needed']:6.2f}x" if "peak_of_needed" in figures else f"{'':7}"
    return (f"{figures['min']:9.1f} {figures['median']:9.1f} {figures['max']:9.1f} {of_limit} "
            f"{figures['load_s']:7.2f} {figures['peak_rss_bytes'] / 2**20:9.0f} {needed}  "
            + ", ".join(describe(rival, found) for rival, found in ratios.items()))


def describe(rival: str, found: dict) -> str:
    text = f"{found['ratio']:.2f}x {rival}"
    if "lowest_round" in found:
        text += (f" ({found['lowest_round']:.2f} to {found['highest_round']:.2f}; "
                 f"{found['of_best']:.2f})")
    return text
