"""OpenVINO GenAI by its pipeline with paged attention: see protocol.py."""

import time

import numpy as np
import openvino
import openvino_genai as genai
from protocol import serve

BLOCK_TOKENS = 32  # of its pages on CPUs
SPARE_BLOCKS = 2
BATCH_TOKENS = 2048  # of one step
WARM_UP_TOKENS = 4


def load(request: dict) -> genai.ContinuousBatchingPipeline:
    prompts = request["prompts"]
    scheduler = genai.SchedulerConfig()
    scheduler.num_kv_blocks = len(prompts) * (
        -(-request["context"] // BLOCK_TOKENS) + SPARE_BLOCKS)
    # The warm-up has the same prompts, which must be computed again.
    scheduler.enable_prefix_caching = False
    # Long prompts are slower in parts of 256, its default. All prompts of a batch are computed in the
    # first step, so that the others are nothing but decoding.
    scheduler.max_num_batched_tokens = max(
        BATCH_TOKENS, len(prompts) * len(prompts[0]) if len(prompts) > 1 else 0)
    scheduler.max_num_seqs = max(len(prompts), scheduler.max_num_seqs)
    properties = {"INFERENCE_NUM_THREADS": request["threads"],
                  "KV_CACHE_PRECISION": request["kv_type"]}
    return genai.ContinuousBatchingPipeline(request["model"], scheduler, "CPU", properties)


def generate(pipeline, prompts: list[list[int]],
             new_tokens: int) -> tuple[list[list[int]], float, float]:
    """The tokens of each, and the seconds for the prompts and for the steps after them."""
    config = genai.GenerationConfig()
    config.max_new_tokens = new_tokens
    config.ignore_eos = True
    config.do_sample = False
    started = time.perf_counter()
    handles = [pipeline.add_request(i, openvino.Tensor(np.array([ids], dtype=np.int64)), config)
               for i, ids in enumerate(prompts)]
    ends = []
    while pipeline.has_non_finished_requests():
        pipeline.step()
        ends.append(time.perf_counter())
    # Each step after the prompts gives a token of every sequence; prompts take the steps before.
    prefilled = ends[-new_tokens]
    tokens = [[int(t) for t in handle.read_all()[0].generated_ids] for handle in handles]
    return tokens, prefilled - started, ends[-1] - prefilled


def work(request: dict) -> dict:
    started = time.perf_counter()
    pipeline = load(request)
    load_s = time.perf_counter() - started
    prompts, new_tokens = request["prompts"], request["decode_steps"] + 1
    # It compiles kernels for the shapes that it meets: the first time must not count.
    generate(pipeline, prompts, min(new_tokens, WARM_UP_TOKENS))
    tokens, prefill_s, decode_s = generate(pipeline, prompts, new_tokens)
    return {"load_s": load_s, "prompt_tokens": len(prompts[0]), "tokens": tokens,
            "prefill_s": prefill_s, "decode_s": decode_s}


serve(work)
