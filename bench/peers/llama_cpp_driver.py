"""llama.cpp by its C interface, the way its own llama-bench drives it: see protocol.py."""

import ctypes
import time

import llama_cpp as llama
import numpy as np
from protocol import serve

N_BATCH, N_UBATCH = 2048, 512  # its defaults
WARM_UP_TOKENS, WARM_UP_STEPS = 512, 4
KV_TYPES = {"f32": 0, "f16": 1, "bf16": 30}  # GGML_TYPE_*


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
        self.n_sequences = len(request["prompts"])
        context.n_seq_max = self.n_sequences
        context.kv_unified = False  # sequences that share nothing are faster apart
        context.n_ctx = request["context"] * self.n_sequences
        context.n_batch, context.n_ubatch = N_BATCH, N_UBATCH
        context.n_threads = context.n_threads_batch = request["threads"]
        context.flash_attn_type = llama.LLAMA_FLASH_ATTN_TYPE_ENABLED
        context.type_k = context.type_v = KV_TYPES[request["kv_type"]]
        self.context = llama.llama_init_from_model(self.model, context)
        if not self.context:
            raise RuntimeError("llama.cpp cannot make a context")
        self.n_vocab = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(self.model))

        self.batch = llama.llama_batch_init(N_BATCH, 0, 1)

    def next_tokens(self, parts: list[list[int]], position: int) -> list[int]:
        """Computes a part of each sequence and takes the likeliest next token of each.

        By NumPy: llama.cpp's greedy sampler first makes a list of the whole vocabulary, which
        llama-bench does not time either.
        """
        batch, n, last = self.batch, 0, []
        for sequence, part in enumerate(parts):
            for i, token in enumerate(part):
                batch.token[n] = token
                batch.pos[n] = position + i
                batch.n_seq_id[n] = 1
                batch.seq_id[n][0] = sequence
                batch.logits[n] = i + 1 == len(part)
                n += 1
            last.append(n - 1)
        batch.n_tokens = n
        if llama.llama_decode(self.context, batch) != 0:
            raise RuntimeError("llama_decode failed")
        rows = (llama.llama_get_logits_ith(self.context, i) for i in last)
        return [int(np.argmax(np.ctypeslib.as_array(row, shape=(self.n_vocab,)))) for row in rows]

    def generate(self, prompts: list[list[int]],
                 steps: int) -> tuple[list[list[int]], float, float]:
        """The tokens of each, and the seconds for the prompts and for the steps after them."""
        llama.llama_memory_clear(llama.llama_get_memory(self.context), True)
        length, part = len(prompts[0]), N_BATCH // len(prompts)
        started = time.perf_counter()
        for i in range(0, length, part):
            tokens = self.next_tokens([ids[i:i + part] for ids in prompts], i)
        prefilled = time.perf_counter()
        out = [[token] for token in tokens]
        for step in range(steps):
            tokens = self.next_tokens([[token] for token in tokens], length + step)
            for sequence, token in zip(out, tokens, strict=True):
                sequence.append(token)
        return out, prefilled - started, time.perf_counter() - prefilled


def work(request: dict) -> dict:
    started = time.perf_counter()
    runner = Runner(request)
    load_s = time.perf_counter() - started
    prompts, steps = request["prompts"], request["decode_steps"]
    runner.generate([ids[:WARM_UP_TOKENS] for ids in prompts], min(steps, WARM_UP_STEPS))
    tokens, prefill_s, decode_s = runner.generate(prompts, steps)
    return {"load_s": load_s, "prompt_tokens": len(prompts[0]), "tokens": tokens,
            "prefill_s": prefill_s, "decode_s": decode_s}


serve(work)
