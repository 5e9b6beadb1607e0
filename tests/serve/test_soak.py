"""Many requests of every kind at once, many of them given up, in a cache that is too small."""

import contextlib
import random
import re
import threading

import pytest

from quire_server import TINY, Server
from raw_client import RawClient

CLIENTS, ROUNDS, REQUESTS = 10, 3, 30  # of each client and round


def resident_kib(server):
    with open(f"/proc/{server.process.pid}/status") as status:
        return int(re.search(r"VmRSS:\s+(\d+)", status.read())[1])


def some_request(draw):
    shared = [(11 * i) % 250 for i in range(200)]
    prompt = shared[:draw.randrange(1, 200)] + [draw.randrange(256)
                                                for _ in range(draw.randrange(1, 60))]
    body = {"prompt": prompt, "max_tokens": draw.randrange(1, 120), "seed": draw.randrange(100),
            "temperature": draw.choice([0, 1, 2]), "n": draw.randrange(1, 5),
            "stream": draw.random() < 0.5, "priority": draw.randrange(3),
            "ignore_eos": draw.random() < 0.5}
    if draw.random() < 0.2:
        body |= {"best_of": body["n"] + 1, "stream": False}
    if draw.random() < 0.2:
        body |= {"prompt": [prompt[:40], prompt[:17], prompt[::2][:100]], "n": 1}
        body.pop("best_of", None)
    if draw.random() < 0.2:
        body["regex"] = "[0-9]{1,20}"
    if draw.random() < 0.2:
        body["stop"] = ["a", "0", "~"]
    if draw.random() < 0.2:
        body["cache_salt"] = draw.choice("xyz")
    return body


def be_a_client(server, seed, failures):
    draw = random.Random(seed)
    try:
        for _ in range(REQUESTS):
            body = some_request(draw)
            if draw.random() < 0.4:
                with RawClient(server, "/v1/completions", body) as client:
                    client.socket.settimeout(draw.choice([0.001, 0.01, 0.05]))
                    with contextlib.suppress(TimeoutError):
                        client.read_to_end()
                continue
            answer = server.post("/v1/completions", body)
            assert answer.status == 200, (body, answer.body)
            if body["stream"]:
                assert answer.body.endswith(b"data: [DONE]\n\n")
                assert b'"error"' not in answer.body
    except BaseException as error:
        failures.append(error)


@pytest.mark.parametrize("page_size", [16, 32])
def test_b08_b23_b53_a_mixed_load_leaves_nothing_behind(page_size):
    # 1,024 tokens, of which five choices can need a third.
    server = Server(TINY, "--ctx", "512", "--kv-memory", "256KiB", "--page-size", page_size,
                    "--prefill-chunk", "32", "--max-running", "10", "--log-level", "warning")
    try:
        sizes = []
        for round_ in range(ROUNDS):
            failures = []
            clients = [threading.Thread(target=be_a_client,
                                        args=(server, f"{page_size} {round_} {i}", failures))
                       for i in range(CLIENTS)]
            for client in clients:
                client.start()
            for client in clients:
                client.join()
            assert failures == []
            server.wait_idle()
            sizes.append(resident_kib(server))
        kv = server.kv()
        assert kv["preemptions"] > 0 and kv["prefix_cache"]["hit_tokens"] > 0
        assert sizes[-1] < sizes[0] + (24 << 10), sizes  # what the first round warmed up is larger
        server.flush()
    finally:
        server.stop()
