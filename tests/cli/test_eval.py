"""quire eval: the rules of counting. That the logits are right is tested elsewhere."""

import json
import math

import pytest

TEXT = " ".join(f"On day {i} the river rose {i * 7 % 13} inches and the miller wrote it down."
                for i in range(60))


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    file = tmp_path_factory.mktemp("eval") / "book.txt"
    file.write_text(TEXT)
    return file


def evaluate(quire, model, book, *args):
    return json.loads(quire("eval", model, "--text", book, "--json", *args).stdout)


def test_the_second_half_of_each_window_is_scored(quire, smollm2, book):
    out = evaluate(quire, smollm2, book, "--ctx", "256")
    n = len(quire("tokenize", smollm2, stdin=TEXT).stdout.split())
    assert out["text_tokens"] == n
    assert out["windows"] == n // 256
    assert out["tokens"] == (n // 256) * (256 - 128 - 1)
    assert out["ctx"] == 256 and out["stride"] == 256
    assert math.isclose(out["perplexity"], math.exp(out["nll"] / out["tokens"]), rel_tol=1e-9)
    assert math.isclose(out["nll_per_token"], out["nll"] / out["tokens"], rel_tol=1e-12)
    assert 1 < out["perplexity"] < 30


def test_overlapping_windows_score_more_tokens_once(quire, smollm2, book):
    out = evaluate(quire, smollm2, book, "--ctx", "128", "--stride", "48", "--windows", "5")
    assert out["windows"] == 5 and out["stride"] == 48
    assert out["tokens"] == 63 + 4 * 48


def test_chunks_and_threads_change_nothing(quire, smollm2, book):
    args = ["--ctx", "128", "--windows", "2"]
    plain = evaluate(quire, smollm2, book, *args)
    other = evaluate(quire, smollm2, book, *args, "--prefill-chunk", "9", "--threads", "1",
                     "--page-size", "64")
    assert plain["nll"] == other["nll"] and plain["windows"] == 2


def test_the_distance_to_the_reference(quire, smollm2, book):
    args = ["--ctx", "128", "--windows", "2"]
    out = evaluate(quire, smollm2, book, *args, "--kl-reference")
    assert out["nll"] == evaluate(quire, smollm2, book, *args)["nll"]
    reference = evaluate(quire, smollm2, book, *args, "--reference")
    assert out["reference"]["nll"] == reference["nll"]
    assert reference["precision"] == "reference" and reference["kv_type"] == "f32"
    assert 0 < out["kl"]["mean"] < 0.02
    assert out["kl"]["median"] <= out["kl"]["p99"] <= out["kl"]["max"]
    assert 0.9 < out["kl"]["same_top"] <= 1
    # The reference is no approximation of itself.
    assert abs(out["perplexity_change"]) < 0.02


def test_a_text_shorter_than_a_window_names_both_numbers(quire, smollm2, book):
    text = quire.error("eval", smollm2, "--text", book, "--ctx", "4096", expect=1)
    assert "4096" in text and "book.txt" in text


def test_text_output_states_context_and_stride(quire, smollm2, book):
    text = quire("eval", smollm2, "--text", book, "--ctx", "256", "--windows",
                 "1").stdout.decode()
    assert text.startswith("perplexity") and "windows of 256 tokens, stride 256" in text
