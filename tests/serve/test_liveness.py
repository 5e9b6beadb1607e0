"""Public failure B36: the server says how it is, and refuses at once, whatever it computes."""

import contextlib
import time

import pytest

from quire_server import wait_until
from raw_client import RawClient

# A prompt is one long step; nothing may wait for its end.
FLAGS = ["--ctx", "4096", "--kv-memory", "250MiB", "--max-running", "2", "--max-waiting", "200",
         "--no-chunked-prefill"]
STREAM = {"temperature": 1, "max_tokens": 2000, "ignore_eos": True, "stream": True}


def check_alive(server, seconds=1.0):
    """Generous: it takes a millisecond where nothing else runs."""
    for path in ("/health", "/metrics", "/v1/kv", "/v1/models"):
        begin = time.monotonic()
        assert server.get(path).status == 200
        assert time.monotonic() - begin < seconds, path


@pytest.fixture(scope="module")
def unfinished_head(server):
    with RawClient(server) as client:
        client.send(b"GET /health HTTP/1.1\r\nHost: x\r\n")
        yield client, time.monotonic()


@pytest.fixture(scope="module", autouse=True)
def _begun(unfinished_head):
    """Its time runs while the other tests do."""


def test_b36_health_beside_two_hundred_streams_and_a_long_prompt(server):
    with contextlib.ExitStack() as stack:
        def ask(prompt):
            body = {**STREAM, "prompt": prompt}
            return stack.enter_context(RawClient(server, "/v1/completions", body))

        ask([5] * 1500)
        ask([6] * 300)
        wait_until(lambda: server.kv()["sequences"]["running"] == 2, "two run")
        for i in range(198):
            ask([7, i])
        wait_until(lambda: server.kv()["sequences"]["waiting"] == 198, "all wait")
        slow = [stack.enter_context(RawClient(server)) for _ in range(50)]
        for client in slow:
            client.send(b"GET /health HTTP/1.1\r\nHost: x\r\nX-")
        for _ in range(10):
            check_alive(server)
            for client in slow:
                client.send(b"a")
            time.sleep(0.1)
        assert server.kv()["sequences"] == {"running": 2, "waiting": 198}
    server.wait_idle()


def test_b36_more_than_may_wait_are_told_so_at_once(server):
    with contextlib.ExitStack() as stack:
        def ask(prompt):
            body = {**STREAM, "prompt": prompt}
            stack.enter_context(RawClient(server, "/v1/completions", body))

        ask([1, 2])
        ask([3, 4])
        wait_until(lambda: server.kv()["sequences"]["running"] == 2, "two run")
        for i in range(200):
            ask([5, i])
        wait_until(lambda: server.kv()["sequences"]["waiting"] == 200, "as many wait as may")
        for path, prompt in (("/v1/completions", {"prompt": "x"}),
                             ("/v1/chat/completions",
                              {"messages": [{"role": "user", "content": "x"}]})):
            for stream in (False, True, False, True, False):
                begin = time.monotonic()
                answer = server.post(path, {**prompt, "stream": stream})
                error = answer.error(429)
                assert error["code"] == "rate_limit_exceeded"
                assert int(answer.headers["Retry-After"]) > 0
                assert time.monotonic() - begin < 5
        check_alive(server)
    server.wait_idle()
    assert server.complete("x", max_tokens=1)["usage"]["completion_tokens"] == 1


def test_b36_a_head_that_never_ends_is_closed(unfinished_head):
    client, begin = unfinished_head
    assert b" 408 " in client.read_to_end().partition(b"\r\n")[0]
    assert time.monotonic() - begin < 60
