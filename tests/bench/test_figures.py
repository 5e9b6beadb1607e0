"""Samples become figures: order of measuring, medians, ratios, the table."""

from collections import Counter

import pytest
from samples import limit, sample, work
from sidebyside.figures import cell, ratio, summarize, table, turns

ENGINES = ["quire", "llama_cpp", "openvino"]
PEERS = ENGINES[1:]
WORKS = [work("a"), work("b")]


def test_engines_take_turns_within_a_job():
    order = turns(["a", "b"], ENGINES, 3)
    assert [(turn, job) for turn, job, _ in order] == [
        (0, "a"), (0, "b"), (1, "a"), (1, "b"), (2, "a"), (2, "b")]
    assert order[0][2] == ENGINES
    assert all(sorted(names) == sorted(ENGINES) for *_, names in order)


def test_every_engine_begins_equally_often():
    order = turns(["a"], ENGINES, 6)
    assert Counter(names[0] for *_, names in order) == dict.fromkeys(ENGINES, 2)


def test_cell_is_minimum_median_maximum():
    got = cell([sample("quire", "a", i, speed, load_s=load, peak=peak) for i, (speed, load, peak)
                in enumerate([(40.0, 3.0, 10), (10.0, 1.0, 30), (20.0, 2.5, 20), (25.0, 2.0, 5)])])
    assert got == {"samples": 4, "error": None, "min": 10.0, "median": 22.5, "max": 40.0,
                   "load_s": 2.25, "peak_rss_bytes": 30}


def test_a_failed_sample_is_no_figure():
    got = cell([sample("quire", "a", 0, None, error="no memory"), sample("quire", "a", 1, 5.0)])
    assert (got["samples"], got["error"], got["median"]) == (1, "no memory", 5.0)
    assert cell([sample("quire", "a", 0, None, error="no memory")]) == {
        "samples": 0, "error": "no memory"}
    assert cell([]) == {"samples": 0, "error": None}


def test_ratio_is_of_medians_and_of_single_rounds():
    mine = [sample("quire", "a", i, s) for i, s in enumerate([20.0, 60.0, 30.0])]
    theirs = [sample("other", "a", i, s) for i, s in enumerate([10.0, 15.0, 20.0])]
    assert ratio(mine, theirs) == {"ratio": 2.0, "of_best": 3.0, "lowest_round": 1.5,
                                   "median_round": 2.0, "highest_round": 4.0}


def test_rounds_are_paired_by_their_number():
    mine = [sample("quire", "a", 0, 20.0), sample("quire", "a", 2, 30.0)]
    theirs = [sample("other", "a", 2, 10.0), sample("other", "a", 1, 10.0)]
    got = ratio(mine, theirs)
    assert (got["lowest_round"], got["highest_round"]) == (3.0, 3.0)
    assert ratio(mine, []) is None


def ratios(entry: dict) -> dict:
    return {subject: {rival: round(found["ratio"], 9) for rival, found in rivals.items()}
            for subject, rivals in entry["ratios"].items()}


def made_up() -> list[dict]:
    speeds = {"quire": 30.0, "llama_cpp": 10.0, "openvino": 20.0}
    out = [sample(e, "a", 0, s) for e, s in speeds.items()]
    out += [sample("quire", "b", 0, 30.0), sample("llama_cpp", "b", 0, 15.0),
            sample("openvino", "b", 0, None, error="unknown architecture")]
    return out


def test_ratio_is_to_the_best_peer_that_has_figures():
    first, second = summarize(made_up(), WORKS, ENGINES, PEERS, [])
    assert ratios(first) == {"quire": {"openvino": 1.5}}
    assert ratios(second) == {"quire": {"llama_cpp": 2.0}}


def test_every_variant_of_quire_has_its_ratio():
    samples = [*made_up(), sample("quire-bf16", "a", 0, 40.0),
               sample("openvino-bf16", "a", 0, 25.0)]
    entry = summarize(samples, WORKS[:1], [*ENGINES, "quire-bf16", "openvino-bf16"],
                      [*PEERS, "openvino-bf16"], [])[0]
    assert ratios(entry) == {"quire": {"openvino-bf16": 1.2}, "quire-bf16": {"openvino-bf16": 1.6}}


def test_another_build_has_a_ratio_of_its_own():
    samples = [*made_up(), sample("other", "a", 0, 25.0)]
    entry = summarize(samples, WORKS[:1], [*ENGINES, "other"], PEERS, [])[0]
    assert ratios(entry) == {"quire": {"openvino": 1.5, "other": 1.2}}


@pytest.mark.parametrize("engines", [["quire"], ["llama_cpp", "openvino"]])
def test_without_two_sides_there_is_no_ratio(engines):
    entry = summarize(made_up(), WORKS[:1], engines, [e for e in engines if e != "quire"], [])[0]
    assert entry["ratios"] == {}


def test_speed_stands_beside_the_median_limit_and_memory_beside_what_is_needed():
    limits = [limit("a", 0, 50.0), limit("a", 1, 60.0), limit("a", 2, 90.0, "compute"),
              limit("b", 0, 1.0)]
    samples = [*made_up(), sample("quire-bf16", "a", 0, 15.0, peak=5 * 2**20)]
    entry = summarize(samples, WORKS[:1], [*ENGINES, "quire-bf16"], PEERS, limits)[0]
    assert entry["limit"] == {"tokens_per_s": 60.0, "bound": "memory"}
    assert [entry["cells"][e]["of_limit"] for e in (*ENGINES, "quire-bf16")] == [
        30 / 60, 10 / 60, 20 / 60, 15 / 60]
    # 1 MiB of weights and 1 MiB of cache are needed.
    assert entry["cells"]["quire"]["peak_of_needed"] == 0.5
    assert entry["cells"]["quire-bf16"]["peak_of_needed"] == 2.5


def test_without_limits_there_are_no_shares():
    unknown = [work("a") | {"needs": None}]
    entry = summarize(made_up(), unknown, ENGINES, PEERS, [limit("b", 0, 9.0)])[0]
    assert entry["limit"] is None
    assert not {"of_limit", "peak_of_needed"} & entry["cells"]["quire"].keys()
    assert " 30.0 " in table([entry])


def test_table_has_a_line_for_everything():
    shown = table(summarize(made_up(), WORKS, ENGINES, PEERS, [limit("a", 0, 40.0)]))
    lines = shown.splitlines()
    quire = next(line for line in lines if line.startswith("a "))
    assert quire.split() == ["a", "quire", "30.0", "30.0", "30.0", "75%", "0.50", "1", "0.50x",
                             "1.50x", "openvino", "(1.50", "to", "1.50;", "1.50)"]
    assert [line.split()[0] for line in lines if " 20.0 " in line] == ["openvino"]
    assert [line.split() for line in lines if line.split()[:1] == ["limit"]] == [
        ["limit", "40.0", "by", "reading"]]
    assert sum("failed: unknown architecture" in line for line in lines) == 1


def test_table_says_what_was_not_measured():
    assert "not measured" in table(summarize([], WORKS[:1], ["quire"], [], []))
