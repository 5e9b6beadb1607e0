"""The list of works, and what is asked of the engines for them."""

import pytest
from sidebyside.works import MODELS, WORKS, Job, Work, jobs_of, select_works


def test_names_are_unique_and_models_known():
    assert len({work.name for work in WORKS}) == len(WORKS)
    assert {work.model for work in WORKS} == set(MODELS)


def test_contexts_hold_prompt_and_answer():
    for job in jobs_of(list(WORKS)):
        assert job.context >= job.prompt_tokens + job.new_tokens
        assert job.context % 256 == 0
    assert Job((Work("x", "smollm2", 512),)).context == 768
    assert Job((Work("x", "smollm2", 255),)).context == 256


def test_a_prefill_asks_for_one_token_and_a_decode_for_one_more_than_its_steps():
    prefill, decode = Work("x", "smollm2", 9), Work("y", "smollm2", 9, 5)
    assert (prefill.measures, Job((prefill,)).new_tokens) == ("prefill", 1)
    assert (decode.measures, Job((decode,)).new_tokens) == ("decode", 6)


def test_works_with_the_same_prompts_are_one_job():
    works = [Work("a", "smollm2", 9), Work("b", "gemma3", 9), Work("c", "smollm2", 9, 5),
             Work("d", "smollm2", 9, 7, 4)]
    first, second, third = jobs_of(works)
    assert [work.name for work in first.works] == ["a", "c"] and first.decode_steps == 5
    assert second.works == (works[1],) and second.decode_steps == 0
    assert third.works == (works[3],) and third.batch == 4
    # The last token of each sequence is not computed any more.
    assert (first.cached_tokens, third.cached_tokens) == (14, 4 * 16)


def test_the_table_of_bars_is_the_default_and_the_plots_have_more():
    names = [work.name for work in select_works([])]
    assert {"smollm2-prefill-512", "smollm2-prefill-4096", "smollm2-decode", "smollm2-decode-4096",
            "smollm2-decode-7800", "smollm2-batch-16", "smollm2-batch-32", "smollm2-memory-2048",
            "gemma3-prefill-512", "gemma3-decode"} == set(names)
    assert [work.batch for work in select_works(["smollm2-batch-*"])] == [2, 4, 8, 16, 32]
    assert [work.prompt_tokens for work in select_works(["smollm2-decode*"])] == [
        32, 512, 1024, 2048, 4096, 7800]


def test_patterns_select_in_the_order_of_the_table():
    assert select_works(["*"]) == list(WORKS)
    names = [work.name for work in select_works(["gemma3-*", "smollm2-decode"])]
    assert names == ["smollm2-decode", "gemma3-prefill-512", "gemma3-decode"]


def test_an_unknown_work_is_refused_by_name():
    with pytest.raises(ValueError, match="'smollm3-.*smollm2-decode"):
        select_works(["smollm2-*", "smollm3-*"])
