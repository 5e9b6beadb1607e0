"""The tiny models: one entry per thing that can go wrong in a model layer."""

from dataclasses import dataclass, field

import gguf

Q = gguf.GGMLQuantizationType
F16 = (("", Q.F16),)
F32 = (("", Q.F32),)
BF16 = (("", Q.BF16),)
Q8_0 = (("", Q.Q8_0),)
LEGACY_QUANTS = (
    (r"attn_q|ffn_gate", Q.Q4_0),
    (r"attn_k|ffn_up", Q.Q4_1),
    (r"attn_v|ffn_down", Q.Q5_0),
    (r"attn_output|token_embd", Q.Q5_1),
)
K_QUANTS = (
    (r"ffn_gate", Q.Q2_K),
    (r"ffn_up", Q.Q3_K),
    (r"attn_q|token_embd", Q.Q4_K),
    (r"ffn_down", Q.Q5_K),
    (r"attn_k", Q.Q6_K),
    (r"attn_v|attn_output", Q.IQ4_NL),
)


@dataclass
class Spec:
    name: str
    covers: str
    arch: str = "llama"
    hidden: int = 32
    layers: int = 2
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 16
    ffn: int = 52
    vocab: int = 270
    tied: bool = True
    types: tuple = F16
    tokenizer: str = "gpt2"
    rope_base: float = 10000.0
    rope: dict = field(default_factory=dict)  # transformers' rope parameters beyond the base
    rope_keys: dict = field(default_factory=dict)  # the same function in llama.cpp's keys
    local_base: float | None = None  # None: no key in the file, 10000 by default
    window: int | None = None
    eps: float = 1e-5
    bias: bool = False
    query_scalar: int | None = None  # gemma3: attention scale is query_scalar ** -0.5
    with_key_length: bool = True
    n_tokens: int = 70
    last_rows: int | None = None  # keep only the last rows' logits

    @property
    def rope_type(self):
        return self.rope.get("rope_type", "default")

    def keys(self, config):
        """The metadata that depends on the case, without the architecture prefix."""
        keys = {"rope.freq_base": float(self.rope_base), **self.rope_keys}
        if self.arch == "llama":
            keys["rope.dimension_count"] = self.head_dim
        if self.with_key_length:
            keys["attention.key_length"] = self.head_dim
            keys["attention.value_length"] = self.head_dim
        if self.window is not None:
            keys["attention.sliding_window"] = self.window
        if self.local_base is not None:
            keys["rope.freq_base_swa"] = float(self.local_base)
        return keys


def yarn_keys(factor, original, **more):
    return {
        "rope.scaling.type": "yarn",
        "rope.scaling.factor": float(factor),
        "rope.scaling.original_context_length": original,
        **{f"rope.scaling.{key}": value for key, value in more.items()},
    }


YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}
# transformers' attention_factor is the whole factor, llama.cpp's attn_factor multiplies
# 1 + 0.1 ln(factor): 1.25 * (1 + 0.1 ln 8).
YARN_TUNED = {
    "rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 64,
    "beta_fast": 16.0, "beta_slow": 2.0, "attention_factor": 1.25 * 1.2079441541679836,
}  # fmt: skip
LLAMA3 = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 128,
}  # fmt: skip
LINEAR = {"rope_type": "linear", "factor": 4.0}
LINEAR_KEYS = {"rope.scaling.type": "linear", "rope.scaling.factor": 4.0}

SPECS = [
    # Head layouts and head sizes.
    Spec("llama_mha_d64", "MHA, head_dim 64, untied output", hidden=24, heads=2, head_dim=64,
         ffn=40, vocab=261, tied=False),
    Spec("llama_gqa2_d80", "GQA group 2, head_dim 80, SentencePiece vocabulary", hidden=16,
         head_dim=80, vocab=275, tokenizer="spm"),
    Spec("llama_gqa3_d96", "GQA group 3, head_dim 96, BF16 weights", hidden=24, heads=3,
         kv_heads=1, head_dim=96, types=BF16),
    Spec("llama_gqa4_d100", "GQA group 4, head_dim 100", hidden=16, kv_heads=1, head_dim=100,
         rope_base=500000.0),
    Spec("llama_gqa7_d10", "GQA group 7 with 2 KV heads, head_dim 10, F32 weights", hidden=28,
         layers=1, heads=14, head_dim=10, ffn=45, types=F32, rope_base=1000.0),
    Spec("llama_mqa_d128", "MQA, head_dim 128", hidden=16, kv_heads=1, head_dim=128),
    Spec("llama_mqa_d256", "MQA, head_dim 256", hidden=16, layers=1, kv_heads=1, head_dim=256),
    Spec("llama_no_key_length", "head_dim from embedding_length / head_count, large norm epsilon",
         hidden=40, head_dim=10, eps=0.05, with_key_length=False),
    Spec("llama_bias", "biases on q, k, v and the attention output", bias=True),
    # RoPE scaling and windows.
    Spec("llama_rope_linear", "linear RoPE scaling", rope=LINEAR, rope_keys=LINEAR_KEYS,
         rope_base=500.0),
    Spec("llama_rope_llama3", "Llama 3 RoPE scaling through rope_freqs.weight", head_dim=32,
         rope=LLAMA3, rope_base=1000.0),
    Spec("llama_rope_yarn", "YaRN with its default attention factor and betas", head_dim=32,
         rope=YARN, rope_keys=yarn_keys(4.0, 32), rope_base=1000.0),
    Spec("llama_rope_yarn_tuned", "YaRN with attn_factor, beta_fast and beta_slow", head_dim=32,
         rope=YARN_TUNED, rope_base=1000.0,
         rope_keys=yarn_keys(8.0, 64, attn_factor=1.25, yarn_beta_fast=16.0, yarn_beta_slow=2.0)),
    Spec("llama_window", "Mistral: sliding window of 16 in every layer", window=16, tied=False,
         kv_heads=1),
    # Weight types.
    Spec("llama_q8_0", "Q8_0 weights", hidden=64, ffn=96, types=Q8_0),
    Spec("llama_legacy_quants", "Q4_0, Q4_1, Q5_0 and Q5_1 weights", hidden=64, ffn=96,
         types=LEGACY_QUANTS),
    Spec("llama_k_quants", "Q2_K, Q3_K, Q4_K, Q5_K, Q6_K and IQ4_NL weights", hidden=256, layers=1,
         ffn=256, types=K_QUANTS),
    # Long texts: more than two attention splits of 512 positions.
    Spec("llama_long", "1,200 tokens, GQA group 2", n_tokens=1200, last_rows=8),
    Spec("llama_window_long", "1,200 tokens with a sliding window of 600", n_tokens=1200,
         last_rows=8, window=600),
    # Qwen.
    Spec("qwen2_gqa7", "Qwen 2: q, k and v biases, MQA of 7 heads, untied output", arch="qwen2",
         hidden=28, heads=7, kv_heads=1, head_dim=4, vocab=283, tied=False,
         with_key_length=False),
    Spec("qwen2_yarn", "Qwen 2 with YaRN, tied output", arch="qwen2", heads=2, kv_heads=1, with_key_length=False,
         rope=YARN, rope_keys=yarn_keys(4.0, 32), rope_base=1000.0),
    Spec("qwen3_gqa2", "Qwen 3: norms on each query and key head, head_dim 32 with 32 / 4 heads",
         arch="qwen3", head_dim=32),
    Spec("qwen3_mqa_d128", "Qwen 3: MQA, head_dim 128, untied output", arch="qwen3", hidden=16,
         kv_heads=1, head_dim=128, layers=1, tied=False, rope_base=1000000.0),
    # Gemma 3.
    Spec("gemma3_pattern", "7 layers: local ones with a window of 16 and base 10000, the sixth global",
         arch="gemma3", hidden=24, layers=7, kv_heads=1, ffn=40, window=16,
         rope_base=300.0, tokenizer="gemma", eps=1e-6, vocab=285),
    Spec("gemma3_linear", "linear RoPE scaling on the global layer only, local base from the file",
         arch="gemma3", hidden=24, layers=6, heads=2, kv_heads=1, head_dim=32, ffn=40, window=20,
         rope_base=2000.0, local_base=500.0, rope=LINEAR, rope_keys=LINEAR_KEYS,
         tokenizer="gemma", eps=1e-6, vocab=261),
    Spec("gemma3_d256", "head_dim 256 with 4 heads sharing one, as Gemma 3 270M has them",
         arch="gemma3", hidden=16, layers=1, kv_heads=1, head_dim=256, window=32, ffn=33,
         tokenizer="gemma", eps=1e-6),
    Spec("gemma3_27b_scale", "62 layers: attention scale from embedding_length / head_count",
         arch="gemma3", hidden=8, layers=62, heads=2, kv_heads=1, head_dim=10, ffn=8, window=24,
         rope_base=1000000.0, query_scalar=4, tokenizer="gemma", eps=1e-6, vocab=261),
    Spec("gemma3_long", "1,200 tokens over local layers with a window of 512 and a global one",
         arch="gemma3", hidden=24, layers=6, heads=4, kv_heads=1, head_dim=16, ffn=40, window=512,
         rope_base=1000000.0, tokenizer="gemma", eps=1e-6, n_tokens=1200, last_rows=8),
]  # fmt: skip
