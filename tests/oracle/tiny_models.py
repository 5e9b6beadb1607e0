"""Makes tests/data/tiny: random-weight models as GGUF, and transformers' logits for them.

Weights are scaled so that attention is peaked and logits are spread: then a wrong head, position,
norm or scale moves the logits by far more than the tolerance. models.json states for every model
how far its logits move when one property is changed, and how far float32 is from exact.
"""

import json
import sys
import zlib

import common
import numpy as np
import torch
import transformers as hf
from plain_forward import PlainModel
from tiny_gguf import write
from tiny_specs import SPECS

TOLERANCE = 5e-3  # what a reader of these files is held to


def make_config(spec, **changes):
    rope = {"rope_theta": spec.rope_base, "rope_type": "default", **spec.rope}
    common_keys = dict(
        vocab_size=spec.vocab, hidden_size=spec.hidden, num_hidden_layers=spec.layers,
        num_attention_heads=spec.heads, num_key_value_heads=spec.kv_heads,
        intermediate_size=spec.ffn, rms_norm_eps=spec.eps, tie_word_embeddings=spec.tied,
        max_position_embeddings=2048, rope_parameters=rope, head_dim=spec.head_dim,
        bos_token_id=None, eos_token_id=None, pad_token_id=None,
    )  # fmt: skip
    if spec.arch == "llama" and spec.window:
        return hf.MistralConfig(**{**common_keys, "sliding_window": spec.window, **changes})
    if spec.arch == "llama":
        return hf.LlamaConfig(**{**common_keys, "attention_bias": spec.bias, **changes})
    if spec.arch == "qwen2":
        return hf.Qwen2Config(**{**common_keys, "use_sliding_window": False, **changes})
    if spec.arch == "qwen3":
        return hf.Qwen3Config(**{**common_keys, "use_sliding_window": False, **changes})
    common_keys["rope_parameters"] = {
        "full_attention": rope,
        "sliding_attention": {"rope_type": "default", "rope_theta": spec.local_base or 10000.0},
    }
    own = {
        "sliding_window": spec.window,
        "query_pre_attn_scalar": spec.query_scalar or spec.head_dim,
    }
    return hf.Gemma3TextConfig(**{**common_keys, **own, **changes})


def make_model(config):
    classes = {
        "llama": hf.LlamaForCausalLM,
        "mistral": hf.MistralForCausalLM,
        "qwen2": hf.Qwen2ForCausalLM,
        "qwen3": hf.Qwen3ForCausalLM,
        "gemma3_text": hf.Gemma3ForCausalLM,
    }
    config._attn_implementation = "eager"
    return classes[config.model_type](config).eval().float()


def draw_weights(spec, model, rng):
    """Deviations that give attention scores a spread near 1.5 and logits one near 3."""
    for name, parameter in model.named_parameters():
        normal = rng.standard_normal(tuple(parameter.shape))
        if "norm" in name:  # Gemma's are offsets from one
            values = 0.3 * normal + (0.0 if spec.arch == "gemma3" else 1.0)
        elif name.endswith("bias"):
            values = 0.5 * normal
        elif "embed_tokens" in name:
            values = normal * (3.0 / spec.hidden**0.5 if spec.tied else 1.0)
        elif "lm_head" in name:
            values = normal * 3.0 / spec.hidden**0.5
        elif "q_proj" in name or "k_proj" in name:
            values = normal * (1.5 / spec.hidden) ** 0.5
        else:
            values = normal / parameter.shape[1] ** 0.5
        parameter.data = torch.from_numpy(values.astype(np.float32))


def changed_configs(spec):
    """Configurations with one property changed, to see that the logits depend on it."""
    plain = {"rope_type": "default", "rope_theta": spec.rope_base}
    local = {"rope_type": "default", "rope_theta": spec.local_base or 10000.0}
    if spec.arch == "gemma3":
        half = {**plain, **spec.rope, "rope_theta": spec.rope_base / 2}
        globally = {"rope_parameters": {"full_attention": half, "sliding_attention": local}}
        if "full_attention" in make_config(spec).layer_types:
            yield "rope_base", globally
        swap = {**local, "rope_theta": local["rope_theta"] / 2}
        full = {**plain, **spec.rope}
        yield "local_base", {"rope_parameters": {"full_attention": full, "sliding_attention": swap}}
        if spec.rope:
            both = {"full_attention": plain, "sliding_attention": local}
            yield "rope_scaling", {"rope_parameters": both}
        if spec.query_scalar:
            yield "attention_scale", {"query_pre_attn_scalar": spec.head_dim}
    else:
        half = {**plain, **spec.rope, "rope_theta": spec.rope_base / 2}
        yield "rope_base", {"rope_parameters": half}
        if spec.rope:
            yield "rope_scaling", {"rope_parameters": plain}
    if spec.window:
        yield "window_minus_1", {"sliding_window": spec.window - 1}
        yield "window_plus_1", {"sliding_window": spec.window + 1}
    if spec.eps > 1e-3:
        yield "norm_epsilon", {"rms_norm_eps": 1e-5}


def sensitivity(spec, model, ids, logits, positions):
    moved = {}
    for what, changes in changed_configs(spec):
        other = make_model(make_config(spec, **changes))
        other.load_state_dict(model.state_dict())
        difference = np.abs(common.run(other, ids)[positions] - logits[positions])
        moved[what] = float(difference.max())
    return moved


def rows_to_keep(spec, n_tokens):
    if spec.last_rows:
        return list(range(n_tokens - spec.last_rows, n_tokens))
    # The start, and both sides of page, block and window edges.
    near = {0, 1, 7, 15, 16, 17, 31, 32, 33, 48, n_tokens - 2, n_tokens - 1}
    return sorted(position for position in near if position < n_tokens)


def round_figures(value):
    return float(f"{value:.2g}")


def make(spec):
    seed = zlib.crc32(spec.name.encode())
    rng = np.random.default_rng(seed)
    model = make_model(make_config(spec))
    draw_weights(spec, model, rng)
    path = common.TINY / f"{spec.name}.gguf"
    write(path, spec, model, rng)

    ids = rng.integers(0, spec.vocab, spec.n_tokens).tolist()
    logits = common.run(model, ids)
    positions = rows_to_keep(spec, len(ids))
    assert np.isfinite(logits).all(), spec.name
    text = common.OracleText(ids, logits, positions)
    common.write_oracle(path.with_suffix(".oracle"), [text])

    exact = PlainModel(path).logits(ids)
    distance = float(np.abs(exact[positions] - logits[positions]).max())
    moved = sensitivity(spec, model, ids, logits, positions)
    assert distance < TOLERANCE / 5, f"{spec.name}: GGUF and transformers differ by {distance}"
    for what, difference in moved.items():
        assert difference > TOLERANCE * 4, f"{spec.name}: {what} moves logits only {difference}"
    return {
        "file": path.name,
        "oracle": path.with_suffix(".oracle").name,
        "covers": spec.covers,
        "architecture": spec.arch,
        "layers": spec.layers,
        "heads": spec.heads,
        "kv_heads": spec.kv_heads,
        "head_dim": spec.head_dim,
        "tokens": spec.n_tokens,
        "logit_deviation": round_figures(logits.std()),
        "float32_minus_exact": round_figures(distance),
        "moved_by": {what: round_figures(value) for what, value in moved.items()},
    }


def main():
    common.make_deterministic()
    common.TINY.mkdir(parents=True, exist_ok=True)
    chosen = [spec for spec in SPECS if len(sys.argv) < 2 or spec.name in sys.argv[1:]]
    entries = []
    for spec in chosen:
        entries.append(make(spec))
        print(json.dumps(entries[-1]), flush=True)
    if len(chosen) == len(SPECS):
        text = json.dumps({"models": entries}, indent=1)
        (common.TINY / "models.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
