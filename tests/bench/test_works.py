"""The list of works, and what is asked of the engines for them."""

import pytest
from sidebyside.works import MODELS, WORKS, Work, select_works


def test_names_are_unique_and_models_known():
    assert len({work.name for work in WORKS}) == len(WORKS)
    assert {work.model for work in WORKS} == set(MODELS)


def test_contexts_hold_prompt_and_answer():
    for work in WORKS:
        assert work.context >= work.prompt_tokens + work.new_tokens
        assert work.context % 256 == 0
    assert Work("x", "smollm2", 512).context == 768
    assert Work("x", "smollm2", 255).context == 256


def test_a_prefill_asks_for_one_token_and_a_decode_for_one_more_than_its_steps():
    assert (Work("x", "smollm2", 9).measures, Work("x", "smollm2", 9).new_tokens) == ("prefill", 1)
    assert (Work("x", "smollm2", 9, 5).measures, Work("x", "smollm2", 9, 5).new_tokens) == (
        "decode", 6)


def test_patterns_select_in_the_order_of_the_table():
    assert select_works([]) == list(WORKS)
    names = [work.name for work in select_works(["gemma3-*", "smollm2-decode"])]
    assert names == ["smollm2-decode", "gemma3-prefill-512", "gemma3-decode"]


def test_an_unknown_work_is_refused_by_name():
    with pytest.raises(ValueError, match="'smollm3-.*smollm2-decode"):
        select_works(["smollm2-*", "smollm3-*"])
