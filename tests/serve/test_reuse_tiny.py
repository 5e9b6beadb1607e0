"""Reuse where thousands of requests are needed: a tiny model, prompts of token ids."""

import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from quire_server import ROOT, TINY, Server, cached_tokens, outcome

MODEL = TINY
FLAGS = ["--kv-memory", "1MiB", "--prefill-chunk", "16", "--max-running", "8"]
FIELDS = {"max_tokens": 4, "temperature": 0, "logprobs": 1, "ignore_eos": True}


def ask(server, prompts):
    """Many prompts in one request: their choices, in order."""
    return server.post("/v1/completions", {"prompt": prompts, **FIELDS}).ok()


def answers(server, prompts, together=32):
    out = []
    for begin in range(0, len(prompts), together):
        completion = ask(server, prompts[begin:begin + together])
        out += [(c["text"], c["logprobs"], c["finish_reason"]) for c in completion["choices"]]
    return out


def test_b06_a_thousand_prompts_that_are_almost_alike(server, tiny_oracle):
    """Blocks whose tokens differ as polynomial hashes do not see: one more here, 31 less there."""
    draw = random.Random(6)
    base = [draw.randrange(40, 200) for _ in range(48)]
    prompts = []
    for i in range(1000):
        prompt = list(base)
        at = draw.randrange(47)
        prompt[at] += 1 if i % 2 else 31
        prompt[at + 1] -= 31 if i % 2 else 1
        prompts.append(prompt[:draw.randrange(at + 2, 49)])
    assert answers(server, prompts) == answers(tiny_oracle, prompts)
    assert server.kv()["prefix_cache"]["hit_tokens"] > 5000


def test_b06_the_same_tokens_after_other_ones_are_other_blocks(server, tiny_oracle):
    draw = random.Random(7)
    block = [draw.randrange(256) for _ in range(16)]
    heads = [[draw.randrange(256) for _ in range(16)] for _ in range(20)]
    prompts = [head + block + block for head in heads] + [block * n for n in range(1, 6)]
    draw.shuffle(prompts)
    expected = answers(tiny_oracle, prompts)
    assert answers(server, prompts) == expected
    assert answers(server, prompts) == expected  # from the cache


@pytest.mark.parametrize("model", ["llama_window_long", "gemma3_long", "gemma3_pattern"])
def test_b03_windows_and_shared_prefixes(model):
    """Layers that forget what is behind their window share and evict pages all the same."""
    path = ROOT / f"tests/data/tiny/{model}.gguf"
    draw = random.Random(3)
    base = [draw.randrange(3, 250) for _ in range(300)]
    prompts = [base[:n] + [draw.randrange(3, 250) for _ in range(m)]
               for n, m in [(300, 0), (299, 1), (160, 3), (161, 40), (300, 20), (16, 0), (40, 1),
                            (300, 0), (128, 64), (300, 20)]]
    prompts += [base[:draw.randrange(1, 300)] for _ in range(30)]
    small = Server(path, *FLAGS[2:], "--kv-memory", "4MiB", "--ctx", "512")
    cold = Server(path, "--no-prefix-cache", "--max-running", "1", "--no-chunked-prefill",
                  "--ctx", "512")
    try:
        expected = answers(cold, prompts)
        assert answers(small, prompts) == expected
        with ThreadPoolExecutor(4) as pool:
            for batch in pool.map(lambda part: answers(small, part, 4), [prompts] * 4):
                assert batch == expected
        assert small.kv()["prefix_cache"]["hit_tokens"] > 0
    finally:
        cold.stop()
        small.stop()


def test_b28_a_crowd_larger_than_the_cache_is_answered_as_each_alone(server, tiny_oracle):
    """1 MiB holds 4096 tokens; eight times as much is asked for at once, and sequences grow."""
    draw = random.Random(28)
    prompts = [[draw.randrange(256) for _ in range(draw.randrange(100, 700))] for _ in range(24)]
    fields = {"max_tokens": 600, "temperature": 0, "ignore_eos": True, "logprobs": 0}

    def ask_for(target):
        return lambda prompt: target.post("/v1/completions", {"prompt": prompt, **fields}).ok()

    before = server.kv()["preemptions"]
    with ThreadPoolExecutor(24) as pool:
        crowd = list(pool.map(ask_for(server), prompts))
    assert server.kv()["preemptions"] > before
    for prompt, answer in zip(prompts, crowd, strict=True):
        assert answer["usage"]["completion_tokens"] == 600
        assert outcome(answer) == outcome(ask_for(tiny_oracle)(prompt))
    server.wait_idle()


def test_the_cache_stays_within_its_pages(server):
    pages = server.kv()["pages"]
    assert pages["total"] * server.kv()["page_bytes"] <= 1 << 20
    assert cached_tokens(ask(server, [[1, 2, 3]])) == 0
