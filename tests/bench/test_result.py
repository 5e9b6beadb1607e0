"""The file that a run leaves has its form, and so has every committed one."""

import copy
import json
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from samples import result, sample, work
from sidebyside.figures import summarize
from sidebyside.plot import depth_plot, round_step, series
from sidebyside.result import faults

ROOT = Path(__file__).resolve().parents[2]
WORKS = [work("shallow", 32, 128), work("prefill", 512, 0), work("deep", 4096, 32)]
SVG = "{http://www.w3.org/2000/svg}"


def made_up() -> dict:
    samples = [sample(engine, w["name"], turn, 100.0 / (1 + w["prompt_tokens"] / 1000) + turn)
               for engine in ("quire", "openvino") for w in WORKS for turn in range(3)]
    samples.append(sample("llama_cpp", "deep", 0, None, error="out of memory"))
    summary = summarize(samples, [w["name"] for w in WORKS], ["quire", "llama_cpp", "openvino"],
                        ["llama_cpp", "openvino"])
    return result(samples, summary, WORKS)


def test_a_right_result_has_no_faults_and_survives_json():
    assert faults(made_up()) == []
    assert faults(json.loads(json.dumps(made_up()))) == []


@pytest.mark.parametrize("damage, fault", [
    (lambda r: r.pop("date"), "result.date is missing"),
    (lambda r: r.update(extra=1), "result.extra is not known"),
    (lambda r: r["settings"].update(threads="2"), "result.settings.threads is str"),
    (lambda r: r["settings"].update(threads=True), "result.settings.threads is bool"),
    (lambda r: r["samples"][4].update(tokens_per_s="fast"), "result.samples[4].tokens_per_s is str"),
    (lambda r: r["samples"][0].pop("error"), "result.samples[0].error is missing"),
    (lambda r: r.update(works={}), "result.works is no list"),
    (lambda r: r.update(machine=[]), "result.machine is no object"),
])
def test_a_damaged_result_is_found(damage, fault):
    damaged = copy.deepcopy(made_up())
    damage(damaged)
    assert faults(damaged) == [fault]


def test_committed_results_have_the_form():
    listed = subprocess.run(["git", "ls-files", "bench/results/*.json"], cwd=ROOT, check=True,
                            capture_output=True, text=True).stdout.split()
    found = {name: faults(json.loads((ROOT / name).read_text())) for name in listed}
    assert found == {name: [] for name in listed}


def test_series_are_the_decode_works_by_depth():
    curves = series(made_up(), "smollm2")
    assert list(curves) == ["quire", "openvino"]
    assert [depth for depth, _ in curves["quire"]] == [32 + 64, 4096 + 16]
    assert series(made_up(), "gemma3") == {}


def test_the_plot_shows_every_engine_that_has_figures():
    svg = ElementTree.fromstring(depth_plot(made_up(), "smollm2"))
    assert len(svg.findall(f"{SVG}polyline")) == 2
    assert len(svg.findall(f"{SVG}circle")) == 4
    words = [t.text for t in svg.findall(f"{SVG}text")]
    assert "quire" in words and "openvino" in words and "llama_cpp" not in words
    for circle in svg.findall(f"{SVG}circle"):
        assert 0 < float(circle.get("cx")) < 720 and 0 < float(circle.get("cy")) < 420
    deep, shallow = (next(float(c.get("cy")) for c in svg.findall(f"{SVG}circle")
                          if pick(float(c.get("cx")) for c in svg.findall(f"{SVG}circle"))
                          == float(c.get("cx"))) for pick in (max, min))
    assert deep > shallow  # slower is lower


def test_one_depth_makes_no_plot():
    one = made_up()
    one["summary"] = one["summary"][:2]
    assert depth_plot(one, "smollm2") is None


@pytest.mark.parametrize("limit, step", [(7816, 2000), (4.9, 1), (250, 50), (160, 50), (1, 0.2)])
def test_axes_have_round_steps(limit, step):
    assert round_step(limit) == step
