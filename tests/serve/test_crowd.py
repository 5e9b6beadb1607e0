"""Public failures B28 and B21: more than fits at once, and clients that never read."""

import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from quire_server import TINY, outcome, wait_until
from raw_client import RawClient

MODEL = TINY
FLAGS = ["--kv-memory", "1MiB", "--max-running", "8", "--prefill-chunk", "64"]  # 4096 tokens
ENDLESS = {"prompt": [1, 2, 3], "max_tokens": 1900, "ignore_eos": True, "temperature": 1,
           "stream": True}


def prompt(seed, n):
    draw = random.Random(seed)
    return [draw.randrange(256) for _ in range(n)]


def test_b28_streams_whose_sum_exceeds_the_cache_all_finish(server, tiny_oracle):
    """Four at once of 1,500 tokens where 4,096 fit."""
    fields = {"max_tokens": 1000, "temperature": 0, "ignore_eos": True, "logprobs": 0}
    before = server.kv()["preemptions"]

    def ask(i):
        return server.post("/v1/completions", {"prompt": prompt(i, 500), **fields}).ok()

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(ask, range(4)))
    assert server.kv()["preemptions"] > before
    for i, answer in enumerate(answers):
        expected = tiny_oracle.post("/v1/completions", {"prompt": prompt(i, 500), **fields}).ok()
        assert outcome(answer) == outcome(expected)
    server.wait_idle()


def test_b28_what_can_never_fit_is_refused_with_both_numbers(server):
    error = server.post("/v1/completions", {"prompt": prompt("n", 1000), "n": 8,
                                            "max_tokens": 1000}).error()
    assert error["code"] == "request_too_large"
    assert " 512 " in error["message"]  # pages: 4096 tokens, 16 each, two layers
    server.wait_idle()


@pytest.mark.parametrize("n", [1, 4])
def test_b21_a_client_that_never_reads_is_cut_off(server, n):
    cut = 'quire_http_answers_cut_total{why="too_slow"}'

    def cut_off():
        text = server.get("/metrics").body.decode()
        return next((float(line.split()[-1]) for line in text.split("\n") if line.startswith(cut)),
                    0.0)

    before = cut_off()
    body = {**ENDLESS, "logprobs": 5, "n": n, "max_tokens": 900}
    prompts = [prompt(f"{n} {i}", 8) for i in range(16 // n)]
    with RawClient(server, "/v1/completions", {**body, "prompt": prompts}, receive_buffer=4096):
        wait_until(lambda: server.kv()["sequences"]["running"] > 0, "it runs")
        wait_until(server.is_idle, "it is cut off", within=120)
    wait_until(lambda: cut_off() == before + 1, "it is counted as too slow")
    server.wait_idle()


def test_flushing_and_asking_for_the_state_beside_running_requests(server, tiny_oracle):
    """Nothing that looks at the cache, or empties it, changes an answer."""
    stop = threading.Event()

    def meddle():
        while not stop.is_set():
            server.post("/v1/kv/flush", b"").ok()
            server.kv()
            server.get("/metrics")

    meddler = threading.Thread(target=meddle)
    meddler.start()
    try:
        for i in range(10):
            body = {"prompt": prompt("flush", 100 + i), "max_tokens": 100, "temperature": 0,
                    "ignore_eos": True, "logprobs": 0}
            answer = server.post("/v1/completions", body).ok()
            assert outcome(answer) == outcome(tiny_oracle.post("/v1/completions", body).ok())
    finally:
        stop.set()
        meddler.join()
    server.wait_idle()
    server.flush()
