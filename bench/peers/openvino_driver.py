"""OpenVINO GenAI by its pipeline with paged attention: see protocol.py."""

import time

import numpy as np
import openvino
import openvino_genai as genai
from protocol import serve

BLOCK_TOKENS = 32  # of its pages on CPUs
SPARE_BLOCKS = 2
WARM_UP_TOKENS = 4


def load(request: dict) -> genai.ContinuousBatchingPipeline:
    scheduler = genai.SchedulerConfig()
    scheduler.num_kv_blocks = -(-request["context"] // BLOCK_TOKENS) + SPARE_BLOCKS
    # The warm-up has the same prompt, which must be computed again.
    scheduler.enable_prefix_caching = False
    properties = {"INFERENCE_NUM_THREADS": request["threads"],
                  "KV_CACHE_PRECISION": request["kv_type"]}
    return genai.ContinuousBatchingPipeline(request["model"], scheduler, "CPU", properties)


def generate(pipeline, ids: list[int], new_tokens: int):
    config = genai.GenerationConfig()
    config.max_new_tokens = new_tokens
    config.ignore_eos = True
    config.do_sample = False
    return pipeline.generate([openvino.Tensor(np.array([ids], dtype=np.int64))], [config])[0]


def work(request: dict) -> dict:
    started = time.perf_counter()
    pipeline = load(request)
    load_s = time.perf_counter() - started
    ids, new_tokens = request["ids"], request["decode_steps"] + 1
    # It compiles kernels for the shapes that it meets: the first time must not count.
    generate(pipeline, ids, min(new_tokens, WARM_UP_TOKENS))
    result = generate(pipeline, ids, new_tokens)
    metrics = result.perf_metrics.raw_metrics
    return {"load_s": load_s, "prompt_tokens": len(ids),
            "tokens": [int(t) for t in result.m_generation_ids[0]],
            "prefill_s": sum(metrics.m_times_to_first_token) / 1e6,
            "decode_s": sum(metrics.m_durations) / 1e6}


serve(work)
