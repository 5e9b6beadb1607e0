"""quire run --speculate lookup: the same answer in every respect, and figures about the guesses."""

import re

import pytest

CODE = """Rewrite this function with the variable total renamed to sum:

def average(values):
    total = 0
    count = 0
    for value in values:
        if value is None:
            continue
        total = total + value
        count = count + 1
    return total / count
"""
LOOKUP = ("--speculate", "lookup")


def told(answer: dict) -> dict:
    """An answer without what may differ."""
    return {key: value for key, value in answer.items() if key not in ("timings", "speculation")}


@pytest.mark.parametrize("options", [
    ("--logprobs", "2"),
    ("--kv-type", "bf16", "--page-size", "64", "--draft-tokens", "40"),
    ("--temp", "0.9", "--seed", "3", "--repeat-penalty", "1.2", "--logprobs", "0"),
    ("--temp", "1.2", "--seed", "4", "--top-k", "0", "--presence-penalty", "0.5"),
    ("--stop", "count = count", "--stop", "return"),
    ("--raw", "--ignore-eos"),
    ("--reference",),
], ids=" ".join)
def test_the_answer_is_the_same(quire, options):
    n = "24" if "--reference" in options else "120"
    guesses = [option for option in options if option != "--draft-tokens" and option != "40"]
    plain = quire.run_json("-p", CODE, "-n", n, "--seed", "1", *guesses)
    assert plain["speculation"] is None
    answer = quire.run_json("-p", CODE, "-n", n, "--seed", "1", *options, *LOOKUP)
    assert told(answer) == told(plain)
    counts = answer["speculation"]
    assert set(counts) == {"steps", "drafted", "accepted"}
    assert counts["accepted"] <= counts["drafted"] and counts["steps"] <= counts["drafted"]


def test_copying_is_guessed(quire):
    args = ["-p", "red green blue " * 8, "--raw", "--ignore-eos", "-n", "60", *LOOKUP]
    assert quire.run_json(*args)["speculation"]["accepted"] > 5
    one = quire.run_json(*args, "--draft-tokens", "1")["speculation"]
    assert one["drafted"] == one["steps"] > 0


def test_full_memory_and_full_context_end_it_as_they_would(quire, smollm2):
    # 30 layers; 6 pages of 16 tokens in each, of 3 * 64 * 2 values of 2 bytes a token
    memory = ["--kv-memory", str(30 * 6 * 16 * 768)]
    args = ["run", smollm2, "-p", "one two three one two three one two", "--raw", "--json",
            "--temp", "0", "--ignore-eos", "--ctx", "128"]
    plain = quire(*args, *memory, expect=1)
    guessed = quire(*args, *memory, *LOOKUP, expect=1)
    assert guessed.stderr == plain.stderr != b""
    pattern = rb'"tokens":\[[\d,]+\]'
    assert re.search(pattern, guessed.stdout)[0] == re.search(pattern, plain.stdout)[0]
    assert (quire.run_json("-p", CODE, "--ctx", "200", *LOOKUP)["tokens"]
            == quire.run_json("-p", CODE, "--ctx", "200")["tokens"])


def test_figures_count_the_guesses(quire, smollm2):
    args = ["run", smollm2, "-p", CODE, "-n", "60", "--temp", "0", "--ctx", "512"]
    assert re.search(rb"^guesses  \d+ of \d+ right, in \d+ forward passes$",
                     quire(*args, *LOOKUP).stderr, re.MULTILINE)
    assert b"guesses" not in quire(*args).stderr


def test_conversations_guess_too(quire, smollm2):
    args = ["run", smollm2, "--chat", "-n", "40", "--temp", "0", "--ctx", "512"]
    text = "Say: one two three four five six seven.\nSay it again.\n"
    plain = quire(*args, stdin=text)
    guessed = quire(*args, *LOOKUP, stdin=text)
    assert guessed.stdout == plain.stdout
    assert len(re.findall(rb"tokens/s \(\d+ of \d+ guessed\);", guessed.stderr)) == 2


@pytest.mark.parametrize("options", [
    ("--speculate", "magic"), ("--draft-tokens", "4"), ("--draft-tokens", "0", *LOOKUP),
    ("--draft-tokens", "257", *LOOKUP), ("--speculate", "off", "--draft-tokens", "4")])
def test_wrong_usage(quire, smollm2, options):
    quire("run", smollm2, "-p", "x", *options, expect=2)
