"""Writes a transformers model as the GGUF file that llama.cpp's converter would make of it."""

import re

import gguf
import numpy as np
import torch

from tiny_quants import random_blocks
from tiny_tokenizers import add_tokenizer

Q = gguf.GGMLQuantizationType

NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}


def gguf_name(name, arch):
    """model.layers.3.self_attn.q_proj.weight -> blk.3.attn_q.weight"""
    stem, suffix = name.rsplit(".", 1)
    block = ""
    if match := re.fullmatch(r"model\.layers\.(\d+)\.(.*)", stem):
        block, stem = f"blk.{match[1]}.", match[2]
    if stem == "post_attention_layernorm":  # Gemma's is a norm of the attention's output
        return f"{block}{'post_attention_norm' if arch == 'gemma3' else 'ffn_norm'}.{suffix}"
    return f"{block}{NAMES[stem]}.{suffix}"


def swap_pairs(rows, n_heads):
    """transformers rotates (i, i + d/2) together, llama.cpp's `llama` (2i, 2i + 1)."""
    shape = rows.shape
    return rows.reshape(n_heads, 2, shape[0] // n_heads // 2, -1).swapaxes(1, 2).reshape(shape)


def unswap_pairs(rows, n_heads):
    shape = rows.shape
    return rows.reshape(n_heads, shape[0] // n_heads // 2, 2, -1).swapaxes(1, 2).reshape(shape)


def encode(rows, kind, rng):
    """The tensor's bytes in its GGUF type, and the weights those bytes stand for."""
    if kind == Q.F32:
        return rows, rows
    if kind in (Q.Q2_K, Q.Q3_K, Q.Q4_K, Q.Q5_K, Q.Q6_K, Q.IQ4_NL):
        data = random_blocks(rows.shape, kind, float(rows.std()), rng)  # no quantizer in gguf-py
    else:
        data = gguf.quants.quantize(rows, kind)
    return data, gguf.quants.dequantize(data, kind).astype(np.float32).reshape(rows.shape)


def type_of(name, weights, types):
    """1-D tensors are F32; others by the first pattern of `types` that matches."""
    if weights.ndim == 1:
        return Q.F32
    return next(kind for pattern, kind in types if re.search(pattern, name))


def heads_of(name, config):
    if "attn_q." in name:
        return config.num_attention_heads
    return config.num_key_value_heads if "attn_k." in name else 0


def write(path, spec, model, rng):
    """Writes the file and puts the weights it holds (after rounding) back into the model."""
    config = model.config
    writer = gguf.GGUFWriter(path, spec.arch)
    writer.add_name(spec.name)
    writer.add_vocab_size(config.vocab_size)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    for key, value in spec.keys(config).items():
        add = {str: writer.add_string, int: writer.add_uint32, float: writer.add_float32}
        add[type(value)](f"{spec.arch}.{key}", value)
    add_tokenizer(writer, spec.tokenizer, config.vocab_size)

    for name, parameter in model.named_parameters():  # a tied output appears once
        target = gguf_name(name, spec.arch)
        rows = parameter.detach().numpy().copy()
        if spec.arch == "gemma3" and target.endswith("norm.weight"):
            # Gemma's norms multiply by 1 + w; the file holds the sum, rounded to f32.
            rows = rows + np.float32(1.0)
        n_heads = heads_of(target, config) if spec.arch == "llama" else 0
        if n_heads:
            rows = swap_pairs(rows, n_heads)
        kind = type_of(target, rows, spec.types)
        data, stored = encode(np.ascontiguousarray(rows), kind, rng)
        writer.add_tensor(target, data, raw_dtype=kind)
        if n_heads:
            stored = unswap_pairs(stored, n_heads)
        if spec.arch == "gemma3" and target.endswith("norm.weight"):
            stored = stored - np.float32(1.0)
        parameter.data = torch.from_numpy(np.ascontiguousarray(stored))

    if spec.rope_type == "llama3":
        rotary = model.model.rotary_emb
        dims = np.arange(0, config.head_dim, 2, dtype=np.float32) / np.float32(config.head_dim)
        plain = 1.0 / np.float32(config.rope_parameters["rope_theta"]) ** dims
        factors = (plain / rotary.inv_freq.numpy()).astype(np.float32)
        writer.add_tensor("rope_freqs.weight", factors, raw_dtype=Q.F32)

    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
