"""Prompts of exactly the wanted number of tokens, cut from a real text."""

from collections.abc import Callable

TRIES = 50


def cut_prompt(source: list[int], n_tokens: int, detokenize: Callable[[list[int]], str],
               tokenize: Callable[[str], list[int]]) -> tuple[str, list[int]]:
    """A beginning of `source` as text, and its ids as `tokenize` gives them, n_tokens of them.

    Text that is cut between two tokens may be split otherwise when it is read again, and a model
    may begin with a token of its own, so the cut is moved until the count is right.
    """
    cut = n_tokens
    seen = set()
    for _ in range(TRIES):
        if not 0 < cut <= len(source):
            break
        text = detokenize(source[:cut])
        ids = tokenize(text)
        if len(ids) == n_tokens:
            return text, ids
        seen.add(cut)
        cut += n_tokens - len(ids)
        while cut in seen:  # going in circles: try the next place
            cut += 1
    raise ValueError(f"no beginning of a text of {len(source)} tokens has exactly {n_tokens}")
