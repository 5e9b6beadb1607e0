"""Every field that chooses tokens does what it says, streamed and not."""

import collections
import math

import pytest

from quire_server import TINY, cached_tokens, completion_stream, outcome

FLAGS = ["--ctx", "1024", "--kv-memory", "200MiB"]
STORY = "Once upon a time there was a"


def text(completion, index=0):
    return completion["choices"][index]["text"]


@pytest.fixture(scope="module")
def plain(server):
    return server.complete(STORY, max_tokens=16)


def test_n_gives_different_choices_that_a_seed_repeats(server):
    fields = {"temperature": 1, "seed": 5, "n": 4, "max_tokens": 12}
    first, again = server.complete(STORY, **fields), server.complete(STORY, **fields)
    assert outcome(first) == outcome(again)
    assert [choice["index"] for choice in first["choices"]] == [0, 1, 2, 3]
    assert len({choice["text"] for choice in first["choices"]}) == 4
    assert first["usage"]["completion_tokens"] == 48
    # Choice i draws with seed + i, whoever else is there.
    alone = server.complete(STORY, **{**fields, "n": 1, "seed": 7})
    assert text(alone) == text(first, 2)
    assert text(server.complete(STORY, **{**fields, "n": 1, "seed": 99})) != text(first)


def test_without_a_seed_answers_differ(server):
    assert len({text(server.complete(STORY, temperature=1, max_tokens=16))
                for _ in range(3)}) > 1


def test_best_of_gives_out_the_likeliest(server):
    fields = {"temperature": 1, "seed": 3, "max_tokens": 8}
    every = server.complete(STORY, **fields, n=6)
    best = server.complete(STORY, **fields, n=2, best_of=6)

    def mean(choice):
        values = choice["logprobs"]["token_logprobs"]
        return sum(values) / len(values)

    ranked = sorted(every["choices"], key=mean, reverse=True)
    assert [choice["text"] for choice in best["choices"]] == [c["text"] for c in ranked[:2]]
    assert best["usage"]["completion_tokens"] == 48


@pytest.mark.parametrize("stream", [False, True])
def test_a_stop_string_is_found_across_token_borders(server, plain, stream):
    whole = text(plain)
    tokens = plain["choices"][0]["logprobs"]["tokens"]
    # The end of one token and the beginning of the next.
    border = len(tokens[0] + tokens[1] + tokens[2])
    stop = whole[border - 2:border + 2]
    assert len(stop) == 4 and all(stop not in token for token in tokens)
    fields = {"max_tokens": 16, "stop": ["never said", stop]}
    if stream:
        body = server.post("/v1/completions", {"prompt": STORY, "temperature": 0, "stream": True,
                                               **fields}).body
        choices, _ = completion_stream(body)
        assert choices[0]["text"] == whole[:whole.index(stop)]
        assert choices[0]["reasons"] == ["stop"]
    else:
        stopped = server.complete(STORY, **fields)
        assert text(stopped) == whole[:whole.index(stop)]
        assert stopped["choices"][0]["finish_reason"] == "stop"
        # What was computed is counted, the tokens of the stop string too.
        listed = stopped["choices"][0]["logprobs"]["tokens"]
        assert stopped["usage"]["completion_tokens"] > len(listed)


def test_logit_bias(server, plain):
    first = server.tokenize(plain["choices"][0]["logprobs"]["tokens"][0])
    assert len(first) == 1
    forbidden = server.complete(STORY, logit_bias={str(first[0]): -100}, max_tokens=1)
    # The second likeliest; the log-probabilities are still the model's own.
    best = forbidden["choices"][0]["logprobs"]["top_logprobs"][0]
    assert best == plain["choices"][0]["logprobs"]["top_logprobs"][0]
    assert text(forbidden) == sorted(best, key=best.get)[-2]
    (wanted,) = server.tokenize("Q")
    assert text(server.complete(STORY, logit_bias={str(wanted): 100}, max_tokens=3)) == "QQQ"


def test_penalties(server):
    loop = "a b a b a b a b a b"
    fields = {"max_tokens": 12}
    plain = text(server.complete(loop, **fields))
    assert len(set(plain.split())) <= 3
    for penalty in ({"presence_penalty": 2}, {"frequency_penalty": 2}, {"repetition_penalty": 2},
                    {"repeat_penalty": 2}):
        words = text(server.complete(loop, **fields, **penalty)).split()
        assert len(set(words)) > len(set(plain.split())), penalty


def test_limits_of_length(server, client):
    question = [{"role": "user", "content": "Tell me a long story."}]
    for name in ("max_tokens", "max_completion_tokens"):
        answer = client.chat.completions.create(model="SmolLM2-135M-Instruct.Q4_1",
                                                messages=question, **{name: 5})
        assert answer.usage.completion_tokens == 5
        assert answer.choices[0].finish_reason == "length"
    default = server.post("/v1/completions", {"prompt": STORY, "ignore_eos": True}).ok()
    assert default["usage"]["completion_tokens"] == 16  # as OpenAI's
    echo = server.post("/v1/completions", {"prompt": STORY, "echo": True, "max_tokens": 0}).ok()
    assert text(echo) == STORY and echo["usage"]["completion_tokens"] == 0


def test_truncations_leave_the_likeliest(server, plain):
    for field in ({"top_p": 0.0001}, {"top_k": 1}, {"min_p": 1}):
        drawn = server.complete(STORY, temperature=1, max_tokens=16, seed=1, **field)
        assert text(drawn) == text(plain), field


def test_temperature_draws_as_the_distribution_says(server):
    prompt = "The colour of the sky is"
    likely = server.complete(prompt, max_tokens=1, logprobs=5)["choices"][0]["logprobs"]
    best, logprob = max(likely["top_logprobs"][0].items(), key=lambda entry: entry[1])
    drawn = collections.Counter()
    for seed in range(0, 256, 16):
        answer = server.complete(prompt, max_tokens=1, temperature=1, n=16, seed=1000 + seed)
        drawn.update(choice["text"] for choice in answer["choices"])
    expected = math.exp(logprob) * 256
    assert abs(drawn[best] - expected) < 5 * math.sqrt(expected)  # seeds are fixed: no luck


FIELDS = [
    {"temperature": 0, "n": 2, "logprobs": 3, "max_tokens": 10},
    {"temperature": 1.3, "seed": 11, "n": 3, "logprobs": 0, "max_tokens": 12},
    {"temperature": 0.7, "seed": 4, "stop": [" the", "."], "max_tokens": 24, "logprobs": 1},
    {"temperature": 0, "echo": True, "max_tokens": 6},
    {"temperature": 1, "seed": 8, "prompt": [STORY, "Two and two"], "n": 2, "max_tokens": 6},
]


@pytest.mark.parametrize("fields", FIELDS, ids=range(len(FIELDS)))
def test_a_stream_of_completions_is_the_answer(server, fields):
    request = {"prompt": STORY, **fields}
    whole = server.post("/v1/completions", request).ok()
    streamed = server.post("/v1/completions", {**request, "stream": True,
                                               "stream_options": {"include_usage": True}})
    assert streamed.headers["Content-Type"].startswith("text/event-stream")
    choices, usage = completion_stream(streamed.body)
    assert sorted(choices) == [choice["index"] for choice in whole["choices"]]
    for choice in whole["choices"]:
        parts = choices[choice["index"]]
        assert parts["text"] == choice["text"]
        assert parts["reasons"] == [choice["finish_reason"]]
        for key, values in (choice["logprobs"] or {}).items():
            streamed_values = [part[key] for part in parts["logprobs"]]
            if values is None:  # top_logprobs where none are asked for
                assert set(streamed_values) == {None}
            else:
                assert sum(streamed_values, []) == values
    assert usage["completion_tokens"] == whole["usage"]["completion_tokens"]
    assert usage["prompt_tokens"] == whole["usage"]["prompt_tokens"]


@pytest.mark.parametrize("fields", [
    {"temperature": 0, "logprobs": True, "top_logprobs": 4},
    {"temperature": 1.2, "seed": 2, "n": 3, "logprobs": True},
    {"temperature": 0.8, "seed": 6, "stop": ["a", "e"]},
], ids=["greedy", "n", "stop"])
def test_a_stream_of_chat_is_the_answer(server, fields):
    request = {"messages": [{"role": "user", "content": "Hi, who are you?"}], "max_tokens": 12,
               **fields}
    whole = server.post("/v1/chat/completions", request).ok()
    choices, usage = completion_stream(
        server.post("/v1/chat/completions", {**request, "stream": True}).body)
    assert usage is None
    for choice in whole["choices"]:
        parts = choices[choice["index"]]
        assert parts["text"] == choice["message"]["content"]
        assert parts["reasons"] == [choice["finish_reason"]]
        assert sum((part["content"] for part in parts["logprobs"]), []) == (
            choice["logprobs"] or {"content": []})["content"]


def test_cached_tokens_are_told(server):
    prompt = "A sentence that nobody else in this file begins with, " * 3
    assert cached_tokens(server.complete(prompt)) == 0
    again = server.complete(prompt)
    assert 0 < cached_tokens(again) < again["usage"]["prompt_tokens"]


def test_a_model_without_a_template_continues_text_only(tiny_oracle):
    refused = tiny_oracle.post("/v1/chat/completions",
                               {"messages": [{"role": "user", "content": "Hi"}]}).error()
    assert refused["param"] == "messages" and "chat template" in refused["message"]
    assert tiny_oracle.get("/v1/models").ok()["data"][0]["id"] == TINY.stem
