"""A second opinion: the forward pass in numpy float64, read straight from a GGUF file.

It shares no code with transformers and follows what llama.cpp documents of its keys and tensor
names, so agreement of the two means that file and transformers describe the same function. It
is slow and keeps nothing between calls.
"""

import gguf
import numpy as np

GEMMA_LOCAL_BASE = 10000.0
GEMMA_PATTERN = 6  # every sixth layer is global
GEMMA_27B_LAYERS = 62  # the one size whose attention scale is not head_dim ** -0.5


def rms_norm(x, weight, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight


def silu(x):
    return x / (1.0 + np.exp(-x))


def gelu_tanh(x):
    return 0.5 * x * (1.0 + np.tanh(np.sqrt(2.0 / np.pi) * (x + 0.044715 * x**3)))


class PlainModel:
    def __init__(self, path):
        reader = gguf.GGUFReader(path)
        self.meta = {key: field.contents() for key, field in reader.fields.items()}
        self.arch = self.meta["general.architecture"]
        self.tensors = {tensor.name: tensor for tensor in reader.tensors}
        self.decoded = {}
        self.n_layers = self.key("block_count")
        self.hidden = self.key("embedding_length")
        self.n_heads = self.key("attention.head_count")
        self.n_kv = self.key("attention.head_count_kv", self.n_heads)
        self.head_dim = self.key("attention.key_length", self.hidden // self.n_heads)
        self.eps = self.key("attention.layer_norm_rms_epsilon")
        self.window = self.key("attention.sliding_window", 0)

    def key(self, name, default=None):
        value = self.meta.get(f"{self.arch}.{name}", default)
        assert value is not None, name
        return value

    def weight(self, name):
        """float64 [out, in] or [n]; None if the file has no such tensor."""
        if name not in self.decoded:
            tensor = self.tensors.get(name)
            rows = None
            if tensor is not None:
                rows = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
                rows = rows.reshape(tuple(reversed(tensor.shape.tolist()))).astype(np.float64)
            self.decoded[name] = rows
        return self.decoded[name]

    def linear(self, x, name):
        y = x @ self.weight(name + ".weight").T
        bias = self.weight(name + ".bias")
        return y if bias is None else y + bias

    def is_local(self, layer):
        if self.arch == "gemma3":
            return self.window > 0 and (layer + 1) % GEMMA_PATTERN != 0
        return self.arch == "llama" and self.window > 0

    def rope_table(self, layer, n_tokens):
        """cos and sin [n_tokens, head_dim / 2] of one layer."""
        dim = self.head_dim
        base = self.key("rope.freq_base", 10000.0)
        kind = self.key("rope.scaling.type", "none")
        if self.arch == "gemma3" and self.is_local(layer):
            base, kind = self.key("rope.freq_base_swa", GEMMA_LOCAL_BASE), "none"
        pair = np.arange(dim // 2)
        freqs = base ** (-2.0 * pair / dim)
        magnitude = 1.0
        if kind == "linear":
            freqs = freqs / self.key("rope.scaling.factor")
        elif kind == "yarn":
            factor = self.key("rope.scaling.factor")
            original = self.key("rope.scaling.original_context_length")

            def dimension(rotations):  # the pair that turns this often over the original context
                return dim * np.log(original / (rotations * 2 * np.pi)) / (2 * np.log(base))

            low = np.floor(dimension(self.key("rope.scaling.yarn_beta_fast", 32.0)))
            high = np.ceil(dimension(self.key("rope.scaling.yarn_beta_slow", 1.0)))
            low, high = max(low, 0), min(high, dim - 1)
            keep = 1.0 - np.clip((pair - low) / max(high - low, 0.001), 0.0, 1.0)
            freqs = freqs / factor * (1.0 - keep) + freqs * keep
            magnitude = 1.0 + 0.1 * np.log(factor)
            magnitude *= self.key("rope.scaling.attn_factor", 1.0)
        factors = self.weight("rope_freqs.weight")
        if factors is not None:
            freqs = freqs / factors
        angles = np.arange(n_tokens)[:, None] * freqs
        return np.cos(angles) * magnitude, np.sin(angles) * magnitude

    def rotate(self, x, table):
        """x [n_tokens, heads, head_dim]; `llama` rotates neighbours, the others halves."""
        cos, sin = (part[:, None, :] for part in table)
        out = np.empty_like(x)
        if self.arch == "llama":
            first, second = (slice(0, None, 2), slice(1, None, 2))
        else:
            first, second = (slice(0, self.head_dim // 2), slice(self.head_dim // 2, None))
        a, b = x[..., first], x[..., second]
        out[..., first] = a * cos - b * sin
        out[..., second] = b * cos + a * sin
        return out

    def attention(self, x, layer):
        n_tokens, blk = len(x), f"blk.{layer}."
        q = self.linear(x, blk + "attn_q").reshape(n_tokens, self.n_heads, -1)
        k = self.linear(x, blk + "attn_k").reshape(n_tokens, self.n_kv, -1)
        v = self.linear(x, blk + "attn_v").reshape(n_tokens, self.n_kv, -1)
        if self.weight(blk + "attn_q_norm.weight") is not None:
            q = rms_norm(q, self.weight(blk + "attn_q_norm.weight"), self.eps)
            k = rms_norm(k, self.weight(blk + "attn_k_norm.weight"), self.eps)
        table = self.rope_table(layer, n_tokens)
        q, k = self.rotate(q, table), self.rotate(k, table)

        per_head = self.head_dim
        if self.arch == "gemma3" and self.n_layers == GEMMA_27B_LAYERS:
            per_head = self.hidden // self.n_heads
        ago = np.arange(n_tokens)[:, None] - np.arange(n_tokens)[None, :]
        hidden = (ago < 0) | (ago >= self.window if self.is_local(layer) else False)
        out = np.empty_like(q)
        for head in range(self.n_heads):
            shared = head // (self.n_heads // self.n_kv)
            scores = q[:, head] @ k[:, shared].T / np.sqrt(per_head)
            scores[hidden] = -np.inf
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            out[:, head] = weights / weights.sum(-1, keepdims=True) @ v[:, shared]
        return self.linear(out.reshape(n_tokens, -1), blk + "attn_output")

    def logits(self, ids):
        """float64 [n_tokens, vocab]"""
        gemma = self.arch == "gemma3"
        activation = gelu_tanh if gemma else silu
        embedding = self.weight("token_embd.weight")
        x = embedding[np.asarray(ids)] * (np.sqrt(self.hidden) if gemma else 1.0)
        for layer in range(self.n_layers):
            blk = f"blk.{layer}."
            y = self.attention(rms_norm(x, self.weight(blk + "attn_norm.weight"), self.eps), layer)
            if gemma:
                y = rms_norm(y, self.weight(blk + "post_attention_norm.weight"), self.eps)
            x = x + y
            y = rms_norm(x, self.weight(blk + "ffn_norm.weight"), self.eps)
            y = activation(self.linear(y, blk + "ffn_gate")) * self.linear(y, blk + "ffn_up")
            y = self.linear(y, blk + "ffn_down")
            if gemma:
                y = rms_norm(y, self.weight(blk + "post_ffw_norm.weight"), self.eps)
            x = x + y
        x = rms_norm(x, self.weight("output_norm.weight"), self.eps)
        output = self.weight("output.weight")
        return x @ (embedding if output is None else output).T
