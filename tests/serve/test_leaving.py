"""Public failures B21, B23: who leaves stops costing anything, wherever his request is."""

import contextlib
import json
import random
import time

import pytest

from quire_server import cached_tokens, wait_until
from raw_client import RawClient

# Two run, so that others wait; SmolLM2, so that a prompt takes long enough to leave during it.
FLAGS = ["--ctx", "4096", "--kv-memory", "250MiB", "--max-running", "2", "--prefill-chunk", "32"]
SOON = 5.0  # steps take milliseconds; this is for a machine that does other things
ENDLESS = {"prompt": "Once upon a time", "max_tokens": 4000, "ignore_eos": True, "temperature": 1}


def long_prompt(seed, n=1500):
    draw = random.Random(seed)
    return [draw.randrange(100, 40000) for _ in range(n)]


def check_recovered(server):
    """The next request begins at once and is answered."""
    server.wait_idle(within=SOON)
    begin = time.monotonic()
    assert server.complete("Hello", max_tokens=2)["usage"]["completion_tokens"] == 2
    assert time.monotonic() - begin < SOON


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("leave", ["close", "reset"])
def test_b21_leaving_in_the_middle_of_an_answer(server, stream, leave):
    generated = server.kv()["tokens"]["generated"]
    client = RawClient(server, "/v1/completions", {**ENDLESS, "stream": stream})
    if stream:
        client.read_until(b"data: ")
    wait_until(lambda: server.kv()["tokens"]["generated"] > generated + 2, "it is answered")
    getattr(client, leave)()
    check_recovered(server)


@pytest.mark.parametrize("stream", [True, False])
def test_b21_leaving_while_the_prompt_is_read(server, stream):
    body = {**ENDLESS, "prompt": long_prompt(f"prefill {stream}", 3000), "stream": stream}
    generated = server.kv()["tokens"]["generated"]
    with RawClient(server, "/v1/completions", body):
        wait_until(lambda: server.kv()["sequences"]["running"] == 1, "it runs")
    server.wait_idle(within=SOON)
    assert server.kv()["tokens"]["generated"] == generated  # not even one token
    check_recovered(server)


@pytest.mark.parametrize("stream", [True, False])
def test_b21_leaving_in_the_queue(server, stream):
    with contextlib.ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(RawClient(server, "/v1/completions", {**ENDLESS, "stream": True}))
        wait_until(lambda: server.kv()["sequences"]["running"] == 2, "two run")
        queued = [RawClient(server, "/v1/completions", {**ENDLESS, "stream": stream})
                  for _ in range(3)]
        wait_until(lambda: server.kv()["sequences"]["waiting"] == 3, "three wait")
        for client in queued:
            client.close()
        wait_until(lambda: server.kv()["sequences"] == {"running": 2, "waiting": 0},
                   "the queue is empty", SOON)
    check_recovered(server)


def test_b21_leaving_before_the_request_is_complete(server):
    with RawClient(server) as client:
        client.send(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\n\r\n{")
    with RawClient(server) as client:
        client.send(b"POST /v1/comp")
    check_recovered(server)


def test_b21_neighbours_do_not_notice(server, oracle):
    """One reads its answer to the end while others come and go beside it."""
    body = {"prompt": "The old king", "max_tokens": 150, "temperature": 0, "stream": True,
            "ignore_eos": True}
    with RawClient(server, "/v1/completions", body, headers="Connection: close\r\n") as reader:
        reader.read_until(b"data: ")
        for i in range(6):
            fields = {"prompt": long_prompt(f"beside {i}", 200), "stream": i % 2 == 1}
            other = RawClient(server, "/v1/completions", {**ENDLESS, **fields})
            wait_until(lambda: server.kv()["sequences"]["running"] == 2, "both run")
            time.sleep(0.02 * i)
            other.close()
        text = read_text(reader)
    whole = oracle.complete("The old king", max_tokens=150, ignore_eos=True)
    assert text == whole["choices"][0]["text"]
    check_recovered(server)


def read_text(reader):
    head, _, body = reader.read_to_end().partition(b"\r\n\r\n")
    assert b"chunked" in head.lower()
    payload = b""
    while body:
        size, _, body = body.partition(b"\r\n")
        payload += body[:int(size, 16)]
        body = body[int(size, 16) + 2:]
    events = [line[6:] for line in payload.decode().split("\n") if line.startswith("data: {")]
    return "".join(json.loads(event)["choices"][0]["text"] for event in events)


def test_b21_what_was_computed_for_somebody_who_left_is_kept(server):
    prompt = long_prompt("kept", 600)
    before = server.kv()["tokens"]["generated"]
    with RawClient(server, "/v1/completions", {**ENDLESS, "prompt": prompt, "stream": True}):
        wait_until(lambda: server.kv()["tokens"]["generated"] > before, "the prompt is read")
    server.wait_idle(within=SOON)
    assert cached_tokens(server.complete(prompt, max_tokens=1)) >= 592
