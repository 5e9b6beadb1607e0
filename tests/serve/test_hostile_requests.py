"""Public failures B26, B33, B34, B37, B56: what is asked wrongly is refused by name, at once."""

import json
import re

import openai
import pytest

from quire_server import TINY, completion_stream
from raw_client import RawClient

MODEL = TINY  # a context of 2048 tokens
FLAGS = ["--kv-memory", "4MiB"]
PATHS = ("/v1/completions", "/v1/chat/completions", "/v1/responses")


def resident_kib(server):
    with open(f"/proc/{server.process.pid}/status") as status:
        return int(re.search(r"VmRSS:\s+(\d+)", status.read())[1])


@pytest.fixture
def live_stream(server):
    """Another client's stream, which has to come to its end unharmed."""
    body = {"prompt": [1, 2, 3], "max_tokens": 300, "ignore_eos": True, "stream": True,
            "temperature": 0}
    with RawClient(server, "/v1/completions", body, headers="Connection: close\r\n") as client:
        client.read_until(b"data: ")
        yield
        client.read_until(b"data: [DONE]")
        assert client.received.count(b'"finish_reason":"length"') == 1


# ---- the context

@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("n", [2048, 2049, 5 * 2048])
def test_b26_a_prompt_that_fills_the_context_is_refused_with_both_counts(server, n, stream):
    steps = server.metric("quire_steps_total")
    answer = server.post("/v1/completions", {"prompt": [7] * n, "stream": stream})
    error = answer.error()
    assert error["code"] == "context_length_exceeded"
    assert re.search(r"\b2048\b", error["message"]) and re.search(rf"\b{n}\b", error["message"])
    assert server.metric("quire_steps_total") == steps  # nothing was computed


@pytest.mark.parametrize("stream", [False, True])
def test_b26_what_fits_gets_the_room_there_is(server, stream):
    for n_prompt, asked, given in [(2047, 1, 1), (2047, 50, 1), (2000, 500, 48), (2000, 10, 10)]:
        body = {"prompt": [7] * n_prompt, "max_tokens": asked, "ignore_eos": True}
        if stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
            choices, usage = completion_stream(server.post("/v1/completions", body).body)
            reasons = choices[0]["reasons"]
        else:
            completion = server.post("/v1/completions", body).ok()
            reasons, usage = [completion["choices"][0]["finish_reason"]], completion["usage"]
        assert reasons == ["length"]
        assert (usage["prompt_tokens"], usage["completion_tokens"]) == (n_prompt, given)


def test_b26_a_chat_is_never_cut_in_silence(oracle):
    secret = "The secret word is xylophone. "
    body = {"messages": [{"role": "user", "content": secret + "word " * 5000}]}
    for stream in (False, True):
        error = oracle.post("/v1/chat/completions", {**body, "stream": stream}).error()
        assert error["code"] == "context_length_exceeded" and "4096" in error["message"]
    error = oracle.post("/v1/responses", {"input": body["messages"]}).error()
    assert error["code"] == "context_length_exceeded"


# ---- sizes

def completion(**fields):
    return "/v1/completions", {"prompt": "x", **fields}


def chat(**fields):
    return "/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}], **fields}


@pytest.mark.parametrize("request_, param", [
    (completion(max_tokens=0), "max_tokens"),
    (completion(max_tokens=-1), "max_tokens"),
    (completion(max_tokens=10**9), "max_tokens"),
    (completion(max_tokens=2**63), "max_tokens"),
    (completion(max_tokens=2**64), "max_tokens"),
    (completion(max_tokens=1.5), "max_tokens"),
    (completion(prompt=None), "prompt"),
    (completion(prompt=""), "prompt"),
    (completion(prompt=[]), "prompt"),
    (completion(prompt=[[]]), "prompt[0]"),
    (completion(prompt=["a", 1]), "prompt[1]"),
    (chat(messages=[]), "messages"),
    (chat(messages=None), "messages"),
    (chat(max_completion_tokens=0), "max_completion_tokens"),
    (chat(max_tokens=-1), "max_tokens"),
], ids=str)
def test_b33_degenerate_sizes_are_refused_by_name(server, request_, param):
    assert server.post(*request_).error()["param"] == param


def test_b33_sizes_that_mean_something(server, oracle):
    null = server.post("/v1/completions", {"prompt": "x", "max_tokens": None}).ok()
    assert null["usage"]["completion_tokens"] <= 16
    echo = server.post("/v1/completions", {"prompt": "x", "max_tokens": 0, "echo": True}).ok()
    assert echo["choices"][0]["text"] == "x" and echo["usage"]["completion_tokens"] == 0
    million = server.post("/v1/completions", {"prompt": [7] * 2040, "max_tokens": 10**6}).ok()
    assert million["usage"]["completion_tokens"] <= 8
    empty = {"messages": [{"role": "user", "content": ""}], "max_tokens": 2}
    assert oracle.post("/v1/chat/completions", empty).ok()["usage"]["completion_tokens"] >= 1


# ---- values

WRONG = {
    "temperature": ["1", -0.1, 2.1, 1e30, True, []], "top_p": [-0.1, 1.1, "x", {}],
    "top_k": [0.01, -2, 2**40, "1"], "min_p": [-1, 2, "x"], "n": [0, -1, 10**6, 1.5, "2", True],
    "best_of": [0, 10**6, "x"], "presence_penalty": [-3, 3, "x"], "frequency_penalty": [3, []],
    "repetition_penalty": [0, -1, 1000, "x"], "seed": [1.5, 2**70, "x"],
    "stop": [1, [1], [""], ["x"] * 17, "", "x" * 5000], "stream": ["yes", 1],
    "logit_bias": [[], {"x": 1}, {"1": "x"}, {"1": 101}, {"-1": 5}, {"99999999": 5}, {"01": 1}],
    "logprobs": [-1, 6, 21, "x", 270, 10**9], "echo": ["x"], "priority": [2**40, "x"],
    "ignore_eos": ["x", 1], "cache_salt": ["", 5, "x" * 257], "model": [5],
    "stream_options": [{"include_usage": True}, 5], "user": [5], "regex": [5, "(", "a{1,"],
    "use_beam_search": [True], "suffix": ["x"], "no_such_field": [1],
    "max_completion_tokens": [5], "prompt": [5, [-1], [270], [2**31], [1.5], {}, ["x"] * 65],
}


@pytest.mark.parametrize("name", WRONG)
def test_b34_a_bad_value_is_refused_by_name_beside_a_live_stream(server, live_stream, name):
    for value in WRONG[name]:
        error = server.post("/v1/completions", {"prompt": "x", name: value}).error()
        assert error["type"] == "invalid_request_error"
        assert (error["param"] or "").startswith(name), (value, error)


@pytest.mark.parametrize("text", [
    '"temperature": NaN', '"temperature": 1e400', '"temperature": -Infinity', '"top_p": .5',
    '"n": 1, "n": 2', '"n": 0x1', "'n': 1", '"n": 1,', '"n": 01', '"logit_bias": {"1": 1e400}',
    '"logit_bias": {"1": 1, "1": 2}', '"stop": "\\ud800\\q"', '"seed": 1e1000',
])
def test_b34_what_is_no_json_or_no_number_is_refused(server, live_stream, text):
    server.post("/v1/completions", f'{{"prompt": "x", {text}}}').error()


def test_b34_null_is_as_if_absent(server):
    body = {"prompt": "x", "max_tokens": 3, "temperature": 0}
    plain = server.post("/v1/completions", body).ok()
    nulls = dict.fromkeys(set(WRONG) - {"prompt", "no_such_field", "max_completion_tokens"})
    assert server.post("/v1/completions", {**nulls, **body}).ok()["choices"] == plain["choices"]


@pytest.mark.parametrize("fields", [
    {"n": 10**6}, {"best_of": 10**6}, {"logprobs": 270}, {"stop": ["x"] * 10**5},
    {"prompt": ["x"] * 10**5}, {"logit_bias": {str(i): 1 for i in range(10**5)}},
    {"prompt_logprobs": -1}, {"kv_transfer_params": {"tp_size": 0}},
    {"bootstrap_host": "2.2.2.2"}, {"bootstrap_port": 1}, {"lora_request": {}}, {"tenant": "x"},
], ids=lambda fields: next(iter(fields)))
def test_b56_what_is_unbounded_or_internal_is_refused(server, fields):
    error = server.post("/v1/completions", {"prompt": "x", **fields}).error()
    assert error["param"].startswith(next(iter(fields)))


# ---- bodies

def test_b37_a_long_prompt_is_fine_and_a_longer_context_error(server, oracle):
    body = {"prompt": ["a" * 1600] * 60, "max_tokens": 1}  # 100 KB
    assert len(server.post("/v1/completions", body).ok()["choices"]) == 60
    long_chat = {"messages": [{"role": "user", "content": "word " * 20_000}]}
    assert oracle.post("/v1/chat/completions", long_chat).error()["code"] == (
        "context_length_exceeded")


def test_b37_a_body_that_is_too_long_is_refused_before_it_is_sent(server):
    before = resident_kib(server)
    head = "POST /v1/completions HTTP/1.1\r\nHost: x\r\n"
    for length in (1 << 30, 17 << 20, 2**63, 2**64 + 5):
        with RawClient(server) as client:
            client.send(f"{head}Content-Length: {length}\r\n\r\n{{".encode())
            client.read_until(b"\r\n\r\n")
            assert client.received.split()[1] in (b"413", b"400")
    with RawClient(server) as client:  # a chunked one as soon as it is too long
        client.send(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        chunk = b"100000\r\n" + b" " * (1 << 20) + b"\r\n"
        for _ in range(17):
            client.send(chunk)
        client.read_until(b"\r\n\r\n")
        assert client.received.split()[1] == b"413"
    with RawClient(server) as client:
        client.send(f"{head}Content-Length: 5\r\nContent-Length: 6\r\n\r\n".encode())
        client.read_until(b"\r\n\r\n")
        assert client.received.split()[1] == b"400"
    assert resident_kib(server) < before + (64 << 10)
    server.complete("x", max_tokens=1)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("body", [
    b'{"user":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    b'{"metadata":' + b'{"a":' * 3000 + b"1" + b"}" * 3001,
    b"[" * 3000, b'{"prompt": "x', b'{"prompt"', b"", b"null", b"[]", b"5", b'"x"', b"{}}",
    b'{"prompt":"x"} x', b"\x00", b"\xff\xfe{\x00}\x00",
], ids=lambda body: f"{len(body)}-{body[:9]!r}")
def test_b37_bodies_that_are_no_object_or_too_deep(server, path, body):
    server.post(path, body).error()


def test_b37_unknown_routes_and_methods(server):
    assert server.get("/v1/nothing").error(404)["code"] == "unknown_url"
    answer = server.get("/v1/completions")
    assert answer.status == 405 and "POST" in answer.headers["Allow"]


# ---- as the client sees it

def test_errors_are_the_clients_own_exceptions(server, client):
    name = TINY.stem
    with pytest.raises(openai.BadRequestError) as bad:
        client.completions.create(model=name, prompt="x", temperature=9)
    assert bad.value.param == "temperature" and bad.value.type == "invalid_request_error"
    assert bad.value.status_code == 400 and bad.value.request_id
    with pytest.raises(openai.BadRequestError) as full:
        client.completions.create(model=name, prompt=[7] * 2048, stream=True)
    assert full.value.code == "context_length_exceeded"
    with pytest.raises(openai.NotFoundError):
        client.completions.create(model="gpt-4o", prompt="x")
    with pytest.raises(openai.NotFoundError):
        client.images.generate(model=name, prompt="x")
    with pytest.raises(openai.BadRequestError) as unknown:
        client.completions.create(model=name, prompt="x", extra_body={"colour": "red"})
    assert unknown.value.param == "colour" and unknown.value.code == "unknown_parameter"


def test_errors_are_json_even_where_the_request_is_hardly_text(server):
    error = server.post("/v1/completions", json.dumps({"prompt": "x", "\u202e\x00\"": 1})).error()
    assert error["code"] == "unknown_parameter"
