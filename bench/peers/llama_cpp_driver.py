"""llama.cpp by its C interface, the way its own llama-bench drives it: see protocol.py."""

import ctypes
import time

import llama_cpp as llama
import numpy as np
from protocol import serve

N_BATCH, N_UBATCH = 2048, 512  # its defaults
WARM_UP_TOKENS, WARM_UP_STEPS = 512, 4
KV_TYPES = {"f32": 0, "f16": 1}  # GGML_TYPE_*


@llama.llama_log_callback
def silent(_level, _text, _user_data):
    pass


class Runner:
    def __init__(self, request: dict):
        llama.llama_log_set(silent, ctypes.c_void_p(0))
        llama.llama_backend_init()
        options = llama.llama_model_default_params()
        options.n_gpu_layers = 0
        self.model = llama.llama_model_load_from_file(request["model"].encode(), options)
        if not self.model:
            raise RuntimeError("llama.cpp cannot load the model")
        context = llama.llama_context_default_params()
        context.n_ctx = request["context"]
        context.n_batch, context.n_ubatch = N_BATCH, N_UBATCH
        context.n_threads = context.n_threads_batch = request["threads"]
        context.flash_attn_type = llama.LLAMA_FLASH_ATTN_TYPE_ENABLED
        context.type_k = context.type_v = KV_TYPES[request["kv_type"]]
        self.context = llama.llama_init_from_model(self.model, context)
        if not self.context:
            raise RuntimeError("llama.cpp cannot make a context")
        self.n_vocab = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(self.model))

    def next_token(self, ids: list[int]) -> int:
        """Computes the ids and takes the likeliest next one.

        By NumPy: llama.cpp's greedy sampler first makes a list of the whole vocabulary, which
        llama-bench does not time either.
        """
        array = (llama.llama_token * len(ids))(*ids)
        if llama.llama_decode(self.context, llama.llama_batch_get_one(array, len(ids))) != 0:
            raise RuntimeError("llama_decode failed")
        logits = llama.llama_get_logits_ith(self.context, -1)
        return int(np.argmax(np.ctypeslib.as_array(logits, shape=(self.n_vocab,))))

    def generate(self, ids: list[int], steps: int) -> tuple[list[int], float, float]:
        """The tokens, and the seconds for the prompt and for the steps after it."""
        llama.llama_memory_clear(llama.llama_get_memory(self.context), True)
        started = time.perf_counter()
        for i in range(0, len(ids), N_BATCH):
            token = self.next_token(ids[i:i + N_BATCH])
        prefilled = time.perf_counter()
        tokens = [token]
        for _ in range(steps):
            tokens.append(self.next_token(tokens[-1:]))
        return tokens, prefilled - started, time.perf_counter() - prefilled


def work(request: dict) -> dict:
    started = time.perf_counter()
    runner = Runner(request)
    load_s = time.perf_counter() - started
    ids, steps = request["ids"], request["decode_steps"]
    runner.generate(ids[:WARM_UP_TOKENS], min(steps, WARM_UP_STEPS))
    tokens, prefill_s, decode_s = runner.generate(ids, steps)
    return {"load_s": load_s, "prompt_tokens": len(ids), "tokens": tokens,
            "prefill_s": prefill_s, "decode_s": decode_s}


serve(work)
