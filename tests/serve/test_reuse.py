"""Public failures of reuse: what is found in the cache, and who else runs, change no bit."""

import os
import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from quire_server import cached_tokens, outcome

FLAGS = ["--ctx", "4096", "--kv-memory", "400MiB", "--prefill-chunk", "128"]
WORDS = ("the a of cat river stone under over walks speaks gold moon quiet red seven never with "
         "into house paper engine cache page king tower light").split()


def sentence(seed, n_words):
    return " ".join(random.Random(seed).choices(WORDS, k=n_words))


def same_as(oracle, answer, prompt, **fields):
    expected = oracle.complete(prompt, **fields)
    assert outcome(answer) == outcome(expected)
    assert cached_tokens(expected) == 0


def at_once(ask, things):
    things = list(things)
    with ThreadPoolExecutor(len(things)) as pool:
        return list(pool.map(ask, things))


def test_b01_a_repeat_from_the_cache_is_the_first_answer(server, oracle):
    prompt = sentence("b01", 2000)
    fields = {"max_tokens": 24, "logprobs": 5}
    answers = []
    for round_ in range(4):
        answers.append(server.complete(prompt, **fields))
        for i in range(4):
            server.complete(sentence(f"between {round_} {i}", 30), max_tokens=2)
    assert answers[0]["usage"]["prompt_tokens"] >= 2000
    assert cached_tokens(answers[0]) == 0
    assert all(cached_tokens(answer) > 1900 for answer in answers[1:])
    for answer in answers[1:]:
        assert outcome(answer) == outcome(answers[0])
    same_as(oracle, answers[0], prompt, **fields)


def test_b02_a_prompt_with_holes_is_found_only_up_to_the_first(server, oracle):
    segments = [sentence(f"b02 {i}", 60) for i in range(9)]
    fields = {"max_tokens": 12}
    server.complete(". ".join(segments), **fields)
    holes = ". ".join(segments[i] for i in (0, 1, 4, 5, 7, 8))
    answer = server.complete(holes, **fields)
    before_the_hole = len(server.tokenize(". ".join(segments[:2]) + "."))
    assert before_the_hole - 20 < cached_tokens(answer) <= before_the_hole + 1
    same_as(oracle, answer, holes, **fields)


def test_b03_concurrent_chats_keep_apart(server, oracle):
    """One system prompt, 24 users, turns of many lengths."""
    system = "You repeat the user's secret word. " + sentence("b03", 60)
    markers = [f"{WORDS[i]}{i}{'xyzq'[i % 4]}" for i in range(24)]

    def body(i):
        return {"temperature": 0, "max_tokens": 10, "logprobs": True, "messages": [
            {"role": "system", "content": system},
            {"role": "user", "content": f"My secret word is {markers[i]}. "
                                        f"{sentence(i, 1 + i * 3)}. What is my secret word?"}]}

    answers = at_once(lambda i: server.post("/v1/chat/completions", body(i)).ok(), range(24))
    for i, answer in enumerate(answers):
        said = answer["choices"][0]["message"]["content"]
        assert not any(other in said for j, other in enumerate(markers) if j != i), (i, said)
        # All of them take a minute on the oracle; each third has each of the lengths modulo 16.
        if i % 3 == 0:
            assert outcome(answer) == outcome(oracle.post("/v1/chat/completions", body(i)).ok())
    assert sum(cached_tokens(answer) > 0 for answer in answers) > 0


@pytest.mark.parametrize("end", [1, 15, 16, 17, 40])
def test_b03_a_strict_prefix_and_a_difference_inside_a_block(server, oracle, end):
    ids = server.tokenize(sentence(f"b03 {end}", 90))[:80]
    server.complete(ids)
    for prompt in (ids[:end], [*ids[:end], 17, *ids[end + 1:]]):
        same_as(oracle, server.complete(prompt), prompt)


def test_b07_each_part_of_the_key_of_the_cache_counts(server):
    """The same tokens under other salts; a salt is never taken for another thing."""
    server.wait_idle()
    server.flush()
    prompt = sentence("b07", 80)
    spaces = [{}, {"cache_salt": "X"}, {"cache_salt": "X "}, {"cache_salt": "1\nX"},
              {"cache_salt": "\n"}, {"cache_salt": "é"}]
    answers = [server.complete(prompt, **space) for space in spaces]
    assert [cached_tokens(answer) for answer in answers] == [0] * len(spaces)
    assert all(outcome(answer) == outcome(answers[0]) for answer in answers)
    again = [server.complete(prompt, **space) for space in spaces]
    assert all(cached_tokens(answer) > 50 for answer in again)
    # An empty one would mean the same as none, which somebody may not have meant.
    assert server.post("/v1/completions", {"prompt": "x", "cache_salt": ""}).error()[
        "param"] == "cache_salt"
    # There are no adapters: a name of one is a name of a model that is not there.
    assert server.post("/v1/completions", {"prompt": "x", "model": "X"}).error(404)[
        "code"] == "model_not_found"


@pytest.mark.parametrize("penalty", ["repetition_penalty", "presence_penalty",
                                     "frequency_penalty"])
def test_b18_penalties_count_what_was_cached(server, oracle, penalty):
    prompt = f"{penalty}: " + "one two three four five " * 12
    fields = {"max_tokens": 10, "temperature": 0.3, "seed": 4, penalty: 2}
    cold, warm = server.complete(prompt, **fields), server.complete(prompt, **fields)
    assert cached_tokens(cold) == 0 < cached_tokens(warm)
    assert outcome(warm) == outcome(cold)
    same_as(oracle, warm, prompt, **fields)
    off = server.complete(prompt, **{**fields, penalty: 1 if penalty[0] == "r" else 0})
    assert off["choices"][0]["text"] != warm["choices"][0]["text"]


def test_b20_each_answer_in_a_batch_is_its_own(server, oracle):
    """16 prompts of 1 to 700 tokens, joining while others decode."""
    ids = server.tokenize(sentence("b20", 900))
    lengths = [1, 2, 7, 15, 16, 17, 31, 33, 64, 100, 127, 129, 200, 300, 450, 700]
    prompts = [ids[i:i + length] for i, length in enumerate(lengths)]
    random.Random(1).shuffle(prompts)
    fields = {"max_tokens": 20, "ignore_eos": True}
    answers = at_once(lambda prompt: server.complete(prompt, **fields), prompts)
    for prompt, answer in zip(prompts, answers, strict=True):
        same_as(oracle, answer, prompt, **fields)


def test_b20_choices_of_one_request_are_what_each_is_alone(server, oracle):
    prompt = sentence("b20 n", 50)
    fields = {"max_tokens": 12, "temperature": 1}
    together = server.complete(prompt, **fields, seed=40, n=5)
    for i, choice in enumerate(together["choices"]):
        alone = oracle.complete(prompt, **fields, seed=40 + i)
        assert outcome({"choices": [{**choice, "index": 0}]}) == outcome(alone)


def test_b51_turns_of_a_chat_find_the_turns_before(server, oracle):
    """The prompt and the answer before, in whole pages of 16 tokens."""
    messages = [{"role": "system", "content": "You are brief."}]
    computed = []
    for turn in range(6):
        messages.append({"role": "user", "content": f"{turn}: {sentence(f'b51 {turn}', 12)}?"})
        body = {"messages": messages, "temperature": 0, "max_tokens": 12, "logprobs": True}
        answer = server.post("/v1/chat/completions", body).ok()
        prompt = server.post("/tokenize", {"messages": messages}).ok()["tokens"]
        assert answer["usage"]["prompt_tokens"] == len(prompt)
        # Up to the very token that became another when the answer came back as text.
        same = len(os.path.commonprefix([computed, prompt]))
        assert cached_tokens(answer) >= same - same % 16, turn
        assert turn == 0 or same > len(before)
        if turn in (2, 5):
            assert outcome(answer) == outcome(oracle.post("/v1/chat/completions", body).ok())
        said = answer["choices"][0]["message"]["content"]
        # The last token is sampled but not computed.
        before, computed = prompt, prompt + server.tokenize(said)[:-1]
        messages.append({"role": "assistant", "content": said})


def test_a_flush_forgets_everything_and_changes_nothing(server):
    prompt = sentence("flush", 60)
    first = server.complete(prompt)
    server.wait_idle()
    server.flush()
    again = server.complete(prompt)
    assert cached_tokens(again) == 0 and outcome(again) == outcome(first)

