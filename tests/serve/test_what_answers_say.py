"""Public failures B25, B29, B30, B32: text, reasons, usage and log-probabilities of an answer."""

import json
import math

import pytest

from quire_server import completion_stream, sse_events

FLAGS = ["--ctx", "128", "--kv-memory", "200MiB"]
STORY = "Once upon a time there was a"
EMOJI = "😀é漢字"
# SmolLM2 spells an emoji in three or four tokens of single bytes.
SPELL = {"prompt": "Faces:", "regex": f"({EMOJI}|🙈ß|漢🙈){{4}}", "temperature": 1, "seed": 5}


def both_ways(server, path, body):
    """The answer as (text, reasons, usage) by choice, asserted to be the same streamed."""
    whole = server.post(path, body).ok()
    raw = server.post(path, {**body, "stream": True,
                             "stream_options": {"include_usage": True}}).body
    choices, usage = completion_stream(raw)
    out = {}
    for choice in whole["choices"]:
        text = choice["text"] if "text" in choice else choice["message"]["content"]
        streamed = choices[choice["index"]]
        assert streamed["text"] == text
        assert streamed["reasons"] == [choice["finish_reason"]]  # one that is not null
        out[choice["index"]] = (text, choice["finish_reason"])
    assert usage["completion_tokens"] == whole["usage"]["completion_tokens"]
    assert usage["prompt_tokens"] == whole["usage"]["prompt_tokens"]
    return out, whole["usage"]


# ---- text

def test_b25_characters_of_several_tokens_are_whole_in_every_event(server):
    out, usage = both_ways(server, "/v1/completions", {**SPELL, "max_tokens": 100})
    text, reason = out[0]
    assert reason == "stop" and "�" not in text and "🙈" in text or "😀" in text
    assert usage["completion_tokens"] > len(text)  # several tokens to a character
    raw = server.post("/v1/completions", {**SPELL, "max_tokens": 100, "stream": True}).body
    for event in sse_events(raw)[:-1]:
        assert "�" not in json.loads(event)["choices"][0]["text"]


def test_b25_an_answer_cut_at_every_token_is_text(server):
    whole = server.post("/v1/completions", {**SPELL, "max_tokens": 100}).ok()
    text = whole["choices"][0]["text"]
    cut_inside = 0
    for n in range(1, min(18, whole["usage"]["completion_tokens"])):
        out, usage = both_ways(server, "/v1/completions", {**SPELL, "max_tokens": n})
        cut, reason = out[0]
        assert reason == "length" and usage["completion_tokens"] == n
        assert text.startswith(cut.rstrip("�"))
        # What never became a character is U+FFFD, at the end alone.
        assert cut.rstrip("�").count("�") == 0
        cut_inside += cut.endswith("�")
    assert cut_inside > 3


def test_b25_random_tokens_are_valid_text(server, tiny_oracle):
    body = {"prompt": "x", "temperature": 2, "ignore_eos": True}
    both_ways(server, "/v1/completions", {**body, "max_tokens": 60, "n": 8, "seed": 1})
    for seed in range(20):  # a vocabulary of bytes
        both_ways(tiny_oracle, "/v1/completions", {**body, "max_tokens": 60, "seed": seed})


@pytest.mark.parametrize("body", [
    b'{"prompt": "\xff\xfe"}', b'{"prompt": "caf\xe9"}', '{"prompt": "你好"}'.encode("gbk"),
    b'{"prompt": "\xed\xa0\x80"}', b'{"prompt": "\xc0\x80"}', b'{"prompt": "\xf4\x90\x80\x80"}',
    '{"prompt": "x"}'.encode("utf-16"), b'{"prompt": "x", "user": "\x80"}', b'{"\xff": 1}',
], ids=range(9))
def test_b25_a_body_that_is_not_utf8_is_refused(server, body):
    for path in ("/v1/completions", "/v1/chat/completions", "/v1/responses", "/tokenize"):
        server.post(path, body).error()
    server.complete("x", max_tokens=1)


# ---- reasons

def first_greedy(server):
    completion = server.complete(STORY, max_tokens=8)
    return completion["choices"][0]["text"], completion["choices"][0]["logprobs"]["tokens"]


@pytest.mark.parametrize("chat", [False, True])
def test_b29_every_reason_is_told_once(server, chat):
    def ask(**fields):
        if chat:
            path = "/v1/chat/completions"
            body = {"messages": [{"role": "user", "content": "Say hello."}]}
        else:
            path, body = "/v1/completions", {"prompt": STORY}
        out, usage = both_ways(server, path, {"temperature": 0, **body, **fields})
        return *out[0], usage

    def reason(**fields):
        return ask(**fields)[1]

    assert reason(max_tokens=1) == "length"
    text, why, _ = ask(max_tokens=8)
    assert why == "length"
    assert reason(max_tokens=8, stop=text[5:7]) == "stop"
    assert reason(max_tokens=400, ignore_eos=True) == "length"  # the context is full
    # What cannot go on ends by itself, also where it needs every token that it may have.
    bound = {"regex": "[a-c]{3}"}
    text, why, usage = ask(max_tokens=50, **bound)
    assert why == "stop" and len(text) == 3
    if chat:
        natural, why, usage = ask(max_tokens=200)
        assert why == "stop" and natural
        # The token that ends it is counted, so one less cuts it before.
        exact = usage["completion_tokens"]
        assert ask(max_tokens=exact)[:2] == (natural, "stop")
        assert reason(max_tokens=exact - 1) == "length"


def test_b29_responses_tell_their_state(server):
    whole = server.post("/v1/responses", {"input": "Say hello.", "temperature": 0}).ok()
    assert whole["status"] == "completed" and whole["incomplete_details"] is None
    cut = server.post("/v1/responses", {"input": "Say hello.", "temperature": 0,
                                        "max_output_tokens": 2}).ok()
    assert cut["status"] == "incomplete"
    assert cut["incomplete_details"]["reason"] == "max_output_tokens"


# ---- usage

@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions"])
def test_b30_usage_comes_once_if_asked_for(server, path):
    body = {"prompt": STORY} if path == "/v1/completions" else {
        "messages": [{"role": "user", "content": STORY}]}
    body |= {"n": 2, "max_tokens": 12, "seed": 3, "temperature": 1, "stop": [" the"]}
    whole = server.post(path, body).ok()

    def chunks(**fields):
        *parts, done = sse_events(server.post(path, {**body, "stream": True, **fields}).body)
        assert done == "[DONE]"
        return [json.loads(part) for part in parts]

    assert all(not part.get("usage") and part["choices"] for part in chunks())
    off = chunks(stream_options={"include_usage": False})
    assert all(not part.get("usage") and part["choices"] for part in off)
    *parts, last = chunks(stream_options={"include_usage": True})
    assert all(part["usage"] is None and part["choices"] for part in parts)
    assert last["choices"] == []
    for key in ("prompt_tokens", "completion_tokens", "total_tokens"):
        assert last["usage"][key] == whole["usage"][key]
    # The prompt is counted once, whatever n.
    assert whole["usage"]["prompt_tokens"] == server.post(
        path, {**body, "n": 1}).ok()["usage"]["prompt_tokens"]
    assert whole["usage"]["total_tokens"] == (
        whole["usage"]["prompt_tokens"] + whole["usage"]["completion_tokens"])


# ---- log-probabilities

@pytest.mark.parametrize("temperature", [0, 0.7])
@pytest.mark.parametrize("top", [0, 1, 5, 20])
def test_b32_log_probabilities_are_the_models(server, oracle, temperature, top):
    body = {"messages": [{"role": "user", "content": "Smile!"}], "temperature": temperature,
            "seed": 2, "max_tokens": 10, "logprobs": True, "top_logprobs": top,
            "regex": f"[a-z ]{{3}}{EMOJI}"}
    (choice,) = server.post("/v1/chat/completions", body).ok()["choices"]
    entries = choice["logprobs"]["content"]
    for entry in entries:
        others = entry["top_logprobs"]
        assert len(others) == top
        values = [other["logprob"] for other in others]
        assert values == sorted(values, reverse=True) and entry["logprob"] <= 0
        assert all(value <= 0 for value in values) and sum(map(math.exp, values)) <= 1.0001
        for other in [entry, *others]:
            assert "Ġ" not in other["token"]
            assert other["token"] == bytes(other["bytes"]).decode("utf-8", "replace")
        # Of the model, before temperature and grammar: the likeliest need not be what came.
        if top:
            assert entry["logprob"] <= values[0]
    data = b"".join(bytes(entry["bytes"]) for entry in entries)
    assert data.decode("utf-8", "replace").rstrip("�") == choice["message"]["content"].rstrip("�")
    streamed, _ = completion_stream(
        server.post("/v1/chat/completions", {**body, "stream": True}).body)
    assert sum((part["content"] for part in streamed[0]["logprobs"]), []) == entries
    assert oracle.post("/v1/chat/completions", body).ok()["choices"] == [choice]


def test_b32_more_than_the_limit_is_refused_by_name(server):
    chat = {"messages": [{"role": "user", "content": "x"}]}
    for path, body, name in [
            ("/v1/chat/completions", {**chat, "logprobs": True, "top_logprobs": 21},
             "top_logprobs"),
            ("/v1/chat/completions", {**chat, "top_logprobs": 2}, "top_logprobs"),
            ("/v1/chat/completions", {**chat, "logprobs": 2}, "logprobs"),
            ("/v1/completions", {"prompt": "x", "logprobs": 6}, "logprobs"),
            ("/v1/responses", {"input": "x", "top_logprobs": 21}, "top_logprobs")]:
        assert server.post(path, body).error()["param"] == name


def test_b32_completions_list_them_with_offsets(server):
    completion = server.complete(STORY, max_tokens=6, logprobs=3)
    (choice,) = completion["choices"]
    logprobs = choice["logprobs"]
    assert "".join(logprobs["tokens"]) == choice["text"]
    for token, value, top, offset in zip(logprobs["tokens"], logprobs["token_logprobs"],
                                         logprobs["top_logprobs"], logprobs["text_offset"],
                                         strict=True):
        assert choice["text"][offset:].startswith(token)
        assert top[token] == value == max(top.values())  # greedy
        assert len(top) == 3
