"""From samples to figures. A sample is what one process reported; nothing here measures."""

import statistics

Sample = dict  # one run of one engine: see result.py for its fields
SUBJECT = "quire"  # whose ratios are printed
OTHER = "other"  # a second build of quire


def turns(works: list[str], engines: list[str], rounds: int) -> list[tuple[int, str, str]]:
    """(round, work, engine) in the order of measuring.

    The engines take turns within a work, so that they meet the same neighbours, and another one
    begins in each round, so that none always runs on a machine that the same one has just heated.
    """
    order = []
    for turn in range(rounds):
        first = turn % len(engines)
        for work in works:
            order += [(turn, work, engine) for engine in engines[first:] + engines[:first]]
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


def summarize(samples: list[Sample], works: list[str], engines: list[str],
              peers: list[str]) -> list[dict]:
    """One entry per work: every engine's cell, and how the subject stands to the others."""
    summary = []
    for work in works:
        of = {engine: [s for s in samples if s["work"] == work and s["engine"] == engine]
              for engine in engines}
        cells = {engine: cell(of[engine]) for engine in engines}
        entry = {"work": work, "cells": cells, "ratios": {}}
        measured = [p for p in peers if cells.get(p, {}).get("samples")]
        rivals = [max(measured, key=lambda p: cells[p]["median"])] if measured else []
        if OTHER in engines:
            rivals.append(OTHER)
        for rival in rivals if SUBJECT in engines else []:
            if (found := ratio(of[SUBJECT], of[rival])) is not None:
                entry["ratios"][rival] = found
        summary.append(entry)
    return summary


def table(summary: list[dict]) -> str:
    """For people: a line per engine and work, the subject's with its ratios."""
    width = max([len("work"), *(len(entry["work"]) for entry in summary)])
    lines = [f"{'work':{width}}  {'engine':10} {'min':>9} {'median':>9} {'max':>9} {'load s':>7} "
             f"{'peak MiB':>9}  ratio of medians (of single rounds; of the best)", ""]
    for entry in summary:
        name = entry["work"]
        for engine, figures in entry["cells"].items():
            line = f"{name:{width}}  {engine:10} "
            name = ""
            if figures["samples"]:
                line += (f"{figures['min']:9.1f} {figures['median']:9.1f} {figures['max']:9.1f} "
                         f"{figures['load_s']:7.2f} {figures['peak_rss_bytes'] / 2**20:9.0f}")
                if engine == SUBJECT:
                    line += "  " + ", ".join(describe(rival, found)
                                             for rival, found in entry["ratios"].items())
            elif figures["error"] is not None:
                line += f"failed: {figures['error']}"
            else:
                line += "not measured"
            lines.append(line.rstrip())
        lines.append("")
    return "\n".join(lines)


def describe(rival: str, found: dict) -> str:
    text = f"{found['ratio']:.2f}x {rival}"
    if "lowest_round" in found:
        text += (f" ({found['lowest_round']:.2f} to {found['highest_round']:.2f}; "
                 f"{found['of_best']:.2f})")
    return text
