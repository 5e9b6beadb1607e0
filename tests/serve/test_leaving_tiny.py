"""B23: choices of one request, given up again and again in a cache that is too small."""

import random
import threading

from quire_server import TINY, outcome, wait_until
from raw_client import RawClient

MODEL = TINY
# 512 tokens.
FLAGS = ["--ctx", "256", "--kv-memory", "128KiB", "--max-running", "12", "--prefill-chunk", "16"]


def prompt(seed, n=40):
    draw = random.Random(seed)
    return [draw.randrange(256) for _ in range(n)]


def test_b23_choices_end_together_when_their_client_leaves(server, tiny_oracle):
    total = server.kv()["pages"]["total"]
    assert total * 16 // 2 == 512  # two layers
    preemptions = server.kv()["preemptions"]
    fields = {"max_tokens": 120, "temperature": 0, "ignore_eos": True, "logprobs": 0}
    survivors = []
    draw = random.Random(23)

    def survive(i):
        survivors.append((i, server.post("/v1/completions", {"prompt": prompt(i), **fields}).ok()))

    for i in range(50):
        neighbour = threading.Thread(target=survive, args=(i,))
        neighbour.start()
        body = {"prompt": prompt(f"leaves {i}", 30), "n": 4, "stream": True, "temperature": 1,
                "max_tokens": 90, "ignore_eos": True}
        clients = [RawClient(server, "/v1/completions", body) for _ in range(2)]
        if i % 5:
            clients[0].read_until(b"data: ", times=draw.randrange(1, 240))
        for client in clients:
            client.reset() if i % 2 else client.close()
        neighbour.join()
        if i % 10 == 0:
            server.wait_idle()
    server.wait_idle()
    assert server.kv()["preemptions"] > preemptions
    assert len(survivors) == 50
    for i, answer in survivors[::5]:
        expected = tiny_oracle.post("/v1/completions", {"prompt": prompt(i), **fields}).ok()
        assert outcome(answer) == outcome(expected)


def test_b23_every_choice_is_counted_and_none_is_left(server):
    body = {"prompt": prompt("four"), "n": 4, "max_tokens": 60, "ignore_eos": True, "stream": True}
    counted = server.metric("vllm:prompt_tokens_total")
    with RawClient(server, "/v1/completions", body) as client:
        client.read_until(b'"index":3')
    wait_until(server.is_idle, "all four have ended")
    assert server.metric("vllm:prompt_tokens_total") == counted + 40
    server.wait_idle()
