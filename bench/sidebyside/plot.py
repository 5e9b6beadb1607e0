"""Drawings of decode speed against depth and against batch, as SVG, from a result alone."""

import argparse
import io
import json
import sys
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from .process import ROOT
from .works import MODELS, SHORT

# Told apart by people who do not see red and green as different, too.
STYLES = {"quire": ("#0072b2", "o"), "quire-bf16": ("#56b4e9", "s"), "quire-avx2": ("#cc79a7", "^"),
          "llama_cpp": ("#d55e00", "D"), "openvino": ("#009e73", "v"), "other": ("#999999", "x")}
# The same input gives the same bytes: no date, no random ids, text as text.
SETTINGS = {"svg.hashsalt": "quire", "svg.fonttype": "none", "font.family": "sans-serif",
            "font.size": 10, "axes.grid": True, "grid.color": "#dddddd", "axes.axisbelow": True}
PLOTS = {"depth": "tokens in the cache", "batch": "sequences that decode together"}


def points_of(result: dict, model: str, plot: str) -> dict[str, int]:
    """Where the works of the plot stand on its axis."""
    works = [w for w in result["works"] if w["measures"] == "decode" and w["model"] == model]
    if plot == "batch":
        return {w["name"]: w["batch"] for w in works if w["prompt_tokens"] == SHORT}
    # The middle of the steps: the cache grows while they are timed.
    return {w["name"]: w["prompt_tokens"] + w["decode_steps"] // 2 for w in works
            if w["batch"] == 1}


def series(result: dict, model: str, plot: str) -> dict[str, list[tuple[int, dict]]]:
    """For each engine (place, figures) from left to right."""
    places = points_of(result, model, plot)
    out: dict[str, list[tuple[int, dict]]] = {}
    for entry in result["summary"]:
        for engine, figures in entry["cells"].items() if entry["work"] in places else ():
            if figures["samples"]:
                out.setdefault(engine, []).append((places[entry["work"]], figures))
    return {engine: sorted(points, key=lambda p: p[0]) for engine, points in out.items()}


def draw(result: dict, model: str, plot: str) -> str | None:
    """The SVG, or None where fewer than two places were measured."""
    curves = series(result, model, plot)
    places = sorted({place for curve in curves.values() for place, _ in curve})
    if len(places) < 2:
        return None
    with matplotlib.rc_context(SETTINGS):
        figure = Figure(figsize=(7.2, 4.4), layout="constrained")
        axes = figure.add_subplot()
        for engine, curve in curves.items():
            color, marker = STYLES.get(engine, ("#000000", "."))
            medians = [figures["median"] for _, figures in curve]
            spread = [[f["median"] - f["min"] for _, f in curve],
                      [f["max"] - f["median"] for _, f in curve]]
            axes.errorbar([place for place, _ in curve], medians, yerr=spread, color=color,
                          marker=marker, markersize=4, capsize=2, label=engine)
        if plot == "batch":
            axes.set_xscale("log", base=2)
            axes.set_xticks(places, [str(place) for place in places])
            axes.xaxis.set_minor_formatter(NullFormatter())
        else:
            axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        axes.set_xlabel(PLOTS[plot])
        axes.set_ylabel("tokens/s")
        figure.suptitle(f"Decode speed against {plot}, {Path(MODELS[model]).stem}")
        axes.set_title(subtitle(result), fontsize=8, color="#555555")
        axes.legend()
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return out.getvalue()


def subtitle(result: dict) -> str:
    settings = result["settings"]
    return (f"{result['machine']['cpu']}, {settings['kv_type']} cache if not named, "
            f"threads: {settings['threads']}, rounds: {settings['rounds']}; medians, lowest to "
            "highest")


def newest(folder: Path, model: str) -> Path | None:
    """The last result that every plot can be drawn from."""
    for file in sorted(folder.glob("*.json"), reverse=True):
        result = json.loads(file.read_text())
        if all(len({place for curve in series(result, model, plot).values() for place, _ in curve})
               > 1 for plot in PLOTS):
            return file
    return None


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="tools/bench_plot", description="Draws a result of tools/bench: speed against depth "
        "and against batch.")
    parser.add_argument("result", type=Path, nargs="?", metavar="RESULT",
                        help="a file that tools/bench wrote (default: the newest one in "
                             "bench/results with several depths and batches)")
    parser.add_argument("--model", choices=list(MODELS), default="smollm2")
    parser.add_argument("--output", type=Path, default=ROOT / "docs/images", metavar="FOLDER",
                        help="where the plots go (default docs/images)")
    options = parser.parse_args(arguments)
    file = options.result or newest(ROOT / "bench/results", options.model)
    if file is None:
        print("bench_plot: no result in bench/results has several depths and batches: run "
              "tools/bench --work 'smollm2-decode*' --work 'smollm2-batch*' first",
              file=sys.stderr)
        return 1
    try:
        result = json.loads(file.read_text())
    except (OSError, ValueError) as error:
        print(f"bench_plot: {file} cannot be read: {error}", file=sys.stderr)
        return 1
    drawn = {plot: draw(result, options.model, plot) for plot in PLOTS}
    if not any(drawn.values()):
        print(f"bench_plot: {file} has neither two depths nor two batches", file=sys.stderr)
        return 1
    options.output.mkdir(parents=True, exist_ok=True)
    for plot, svg in drawn.items():
        if svg is not None:
            path = options.output / f"speed-{plot}.svg"
            path.write_text(svg)
            print(f"bench_plot: drew {path} from {file}", file=sys.stderr)
    return 0
