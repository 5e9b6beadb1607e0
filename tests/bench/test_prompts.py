"""Prompts have exactly as many tokens as the work says."""

import pytest
from sidebyside.prompts import cut_prompt

WORDS = [f"w{i} " for i in range(200)]


def detokenize(ids: list[int]) -> str:
    return "".join(WORDS[i] for i in ids)


def by_word(text: str) -> list[int]:
    return [int(word[1:]) for word in text.split()]


def test_a_plain_text_is_cut_where_it_says():
    assert cut_prompt(list(range(100)), 7, detokenize, by_word) == (
        detokenize(range(7)), list(range(7)))


def test_a_token_that_the_model_adds_counts():
    text, ids = cut_prompt(list(range(100)), 7, detokenize, lambda t: [199, *by_word(t)])
    assert ids == [199, 0, 1, 2, 3, 4, 5] and text == detokenize(range(6))


def test_a_cut_that_changes_the_tokens_is_moved():
    def merging(text: str) -> list[int]:
        # The last word comes apart, but for every third one.
        ids = by_word(text)
        return ids if ids[-1] % 3 == 0 else [*ids, 199]
    text, ids = cut_prompt(list(range(100)), 9, detokenize, merging)
    assert ids == [*range(8), 199] and text == detokenize(range(8))


def test_going_in_circles_ends():
    def jumping(text: str) -> list[int]:
        ids = by_word(text)
        return ids[:-1] if len(ids) <= 10 else [*ids, 199]  # 9 for 10, 12 for 11, never 11
    with pytest.raises(ValueError, match="exactly 11"):
        cut_prompt(list(range(40)), 11, detokenize, jumping)


def test_a_text_that_is_too_short_is_refused():
    with pytest.raises(ValueError, match="text of 5 tokens has exactly 6"):
        cut_prompt(list(range(5)), 6, detokenize, by_word)
