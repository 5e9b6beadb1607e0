"""The file that a run leaves has its form, and so has every committed one."""

import copy
import json
import subprocess
from pathlib import Path

import pytest
from samples import limit, result, sample, work
from sidebyside.figures import summarize
from sidebyside.result import faults

ROOT = Path(__file__).resolve().parents[2]
WORKS = [work("shallow", 32, 128), work("prefill", 512, 0), work("deep", 4096, 32)]


def made_up() -> dict:
    samples = [sample(engine, w["name"], turn, 100.0 / (1 + w["prompt_tokens"] / 1000) + turn)
               for engine in ("quire", "openvino") for w in WORKS for turn in range(3)]
    samples.append(sample("llama_cpp", "deep", 0, None, error="out of memory"))
    limits = [limit(w["name"], turn, 500.0) for w in WORKS for turn in range(3)]
    summary = summarize(samples, WORKS, ["quire", "llama_cpp", "openvino"],
                        ["llama_cpp", "openvino"], limits)
    return result(samples, summary, WORKS, limits)


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
    (lambda r: r["limits"][1].update(bound=None), "result.limits[1].bound is NoneType"),
    (lambda r: r["works"][1].update(needs=3), "result.works[1].needs is int"),
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
