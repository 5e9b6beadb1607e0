"""Plots of made-up results: every engine that has figures, in its place, always the same bytes."""

import json
import xml.etree.ElementTree as ElementTree

import pytest
from samples import limit, result, sample, work
from sidebyside import plot
from sidebyside.figures import summarize

SVG = "{http://www.w3.org/2000/svg}"
WORKS = [work("prefill", 512, 0), work("deep", 4096, 32), work("short", 32, 128),
         work("batch-8", 32, 64, 8), work("batch-2", 32, 64, 2)]
ENGINES = ["quire", "llama_cpp", "openvino"]


def made_up(works: list[dict] = WORKS) -> dict:
    samples = [sample(engine, w["name"], turn, 100.0 * w["batch"] / (1 + w["prompt_tokens"]) + turn)
               for engine in ("quire", "openvino") for w in works for turn in range(3)]
    samples += [sample("llama_cpp", w["name"], 0, None, error="out of memory") for w in works]
    limits = [limit(w["name"], 0, 500.0) for w in works]
    return result(samples, summarize(samples, works, ENGINES, ENGINES[1:], limits), works, limits)


def words(svg: str) -> list[str]:
    texts = ElementTree.fromstring(svg).iter(f"{SVG}text")
    return ["".join(text.itertext()).strip() for text in texts]


def test_a_depth_is_the_middle_of_the_steps_of_one_sequence():
    curves = plot.series(made_up(), "smollm2", "depth")
    assert list(curves) == ["quire", "openvino"]
    assert [place for place, _ in curves["quire"]] == [32 + 64, 4096 + 16]
    assert plot.series(made_up(), "gemma3", "depth") == {}


def test_a_batch_has_short_prompts():
    curves = plot.series(made_up(), "smollm2", "batch")
    assert [place for place, _ in curves["openvino"]] == [1, 2, 8]
    assert [figures["median"] for _, figures in curves["quire"]] == [
        pytest.approx(100 * batch / 33 + 1) for batch in (1, 2, 8)]


@pytest.mark.parametrize("kind", plot.PLOTS)
def test_a_plot_names_what_it_shows_and_is_always_the_same(kind):
    svg = plot.draw(made_up(), "smollm2", kind)
    shown = words(svg)
    assert "quire" in shown and "openvino" in shown and "llama_cpp" not in shown
    assert plot.PLOTS[kind] in shown and "tokens/s" in shown
    assert any("Some CPU" in text and "f16" in text and "threads: 2" in text for text in shown)
    assert svg == plot.draw(made_up(), "smollm2", kind)
    assert "dc:date" not in svg


def test_one_place_makes_no_plot():
    assert plot.draw(made_up(WORKS[:2]), "smollm2", "depth") is None
    assert plot.draw(made_up(WORKS[:3]), "smollm2", "batch") is None


def test_the_program_draws_a_file(tmp_path, capsys):
    (tmp_path / "a.json").write_text(json.dumps(made_up()))
    assert plot.main([str(tmp_path / "a.json"), "--output", str(tmp_path / "out")]) == 0
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == [
        "speed-batch.svg", "speed-depth.svg"]
    assert "drew" in capsys.readouterr().err


def test_the_newest_result_with_both_plots_is_taken(tmp_path):
    for name, works in (("2026-01-01", WORKS), ("2026-01-02", WORKS), ("2026-01-03", WORKS[:3])):
        (tmp_path / f"{name}.json").write_text(json.dumps(made_up(works)))
    assert plot.newest(tmp_path, "smollm2").name == "2026-01-02.json"
    assert plot.newest(tmp_path, "gemma3") is None


@pytest.mark.parametrize("text, says", [
    ("not json", "cannot be read"), (json.dumps(made_up(WORKS[:1])), "neither two depths")])
def test_what_cannot_be_drawn_is_said(text, says, tmp_path, capsys):
    (tmp_path / "a.json").write_text(text)
    assert plot.main([str(tmp_path / "a.json"), "--output", str(tmp_path / "out")]) == 1
    assert says in capsys.readouterr().err and not (tmp_path / "out").exists()
