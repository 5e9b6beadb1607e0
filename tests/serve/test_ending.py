"""SIGTERM lets what runs finish and takes nothing new; a second one ends it."""

import re
import signal
import time

import pytest

from quire_server import PATIENCE, SMOLLM2, TINY, Server, wait_until
from raw_client import RawClient

BODY = {"prompt": "Once upon a time", "max_tokens": 80, "ignore_eos": True, "temperature": 0,
        "stream": True}


@pytest.fixture
def ending():
    server = Server(SMOLLM2, "--ctx", "512", "--kv-memory", "100MiB")
    yield server
    server.kill()


def refuses_connections(server):
    try:
        with RawClient(server):
            return False
    except ConnectionRefusedError:
        return True


def test_a_running_stream_finishes_and_new_requests_are_refused(ending):
    whole = ending.post("/v1/completions", {**BODY, "stream": False}).ok()["choices"][0]["text"]
    with RawClient(ending, "/v1/completions", BODY) as reader, RawClient(ending) as open_one:
        reader.read_until(b"data: ")
        open_one.send(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        open_one.read_until(b'"ok"')
        ending.process.send_signal(signal.SIGTERM)
        wait_until(lambda: "finishing the answers" in ending.log(), "it has understood")
        open_one.received.clear()
        open_one.post("/v1/completions", BODY)
        open_one.read_until(b"}}")
        assert b" 503 " in open_one.received and b"Retry-After" in open_one.received
        wait_until(lambda: refuses_connections(ending), "it listens no longer")
        answer = reader.read_to_end()
    assert b"data: [DONE]" in answer
    texts = re.findall(rb'"text":"((?:[^"\\]|\\.)*)"', answer)
    assert b"".join(texts).decode().encode().decode("unicode_escape") == whole
    assert ending.process.wait(PATIENCE) == 0


def test_a_second_signal_cuts_what_runs(ending):
    with RawClient(ending, "/v1/completions", {**BODY, "max_tokens": 480}) as reader:
        reader.read_until(b"data: ")
        for _ in range(2):
            ending.process.send_signal(signal.SIGINT)
            time.sleep(0.3)
        assert b"[DONE]" not in reader.read_to_end()
    assert ending.process.wait(PATIENCE) == 0


def test_answers_have_until_the_drain_timeout():
    server = Server(SMOLLM2, "--ctx", "4096", "--kv-memory", "100MiB", "--drain-timeout", "1")
    try:
        with RawClient(server, "/v1/completions", {**BODY, "max_tokens": 4000}) as reader:
            reader.read_until(b"data: ")
            server.process.send_signal(signal.SIGTERM)
            assert b"[DONE]" not in reader.read_to_end()
        assert server.process.wait(PATIENCE) == 0
    finally:
        server.kill()


def test_an_idle_server_ends_at_once_and_can_start_again_on_its_port():
    for _ in range(2):
        server = Server(TINY)
        port = server.address[1]
        server.stop()
    again = Server(TINY, "--port", port)
    assert again.address[1] == port
    again.stop()


def test_a_client_that_never_reads_does_not_keep_it(ending):
    with RawClient(ending, "/v1/completions", BODY, receive_buffer=2048):
        wait_until(lambda: ending.kv()["sequences"]["running"] == 1, "it runs")
        ending.process.send_signal(signal.SIGTERM)
        assert ending.process.wait(60) == 0
