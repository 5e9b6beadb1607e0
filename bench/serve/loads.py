"""What the server is asked: loads of random prompts, the same ones every time."""

import random

from serve.client import Ask

# Ordinary tokens in the vocabularies of both models.
FIRST_TOKEN, LAST_TOKEN = 1_000, 40_000


def tokens(rng: random.Random, n: int) -> list[int]:
    return [rng.randrange(FIRST_TOKEN, LAST_TOKEN) for _ in range(n)]


def streams(n: int, prompt: int, answer: int, seed: int = 1) -> list[Ask]:
    """n requests of one size."""
    rng = random.Random(seed)
    return [Ask(tokens(rng, prompt), answer) for _ in range(n)]


def long_tail(n: int, prompt: int, mean: float, most: int, seed: int = 2) -> list[Ask]:
    """n requests whose answers are exponentially distributed in length."""
    rng = random.Random(seed)
    return [Ask(tokens(rng, prompt), min(most, 1 + int(rng.expovariate(1 / mean))))
            for _ in range(n)]


def repeated(n: int, prompt: int, seed: int = 3) -> list[Ask]:
    """One prompt n times, for one token each."""
    return [Ask(tokens(random.Random(seed), prompt), 1) for _ in range(n)]


def beside_long_prompts(answer: int, prompt: int, n: int, every_s: float, seed: int = 4) -> list[Ask]:
    """One long answer, and n long prompts that come while it is written."""
    rng = random.Random(seed)
    return [Ask(tokens(rng, 64), answer),
            *(Ask(tokens(rng, prompt), 1, start_s=0.5 + i * every_s) for i in range(n))]
