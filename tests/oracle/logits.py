"""Makes tests/data/logits: transformers' float32 logits of the two real models.

Three texts of 200 tokens each; for every position the largest logits, the logits of fixed
pseudo-random ids and the logsumexp (format: common.py). Before anything is written, transformers'
reading of the file is checked against a plain float64 forward pass that shares no code with it.
"""

import json
import sys
from dataclasses import dataclass

import common
import numpy as np
from common import LOGITS, MODELS
from plain_forward import PlainModel

N_TOKENS = 200
N_TOP = 24
N_FIXED = 48
N_WIDE = 2048
TEXTS = ["prose", "code", "languages"]
CHECK_TOLERANCE = 1e-3  # float32 against float64, on the real models


@dataclass
class RealModel:
    name: str
    file: str
    bos: list


REAL = [
    RealModel("smollm2-135m", "SmolLM2-135M-Instruct.Q4_1.gguf", []),
    RealModel("gemma-3-270m", "gemma-3-270m.Q4_K_M.gguf", [2]),
]


def load(real):
    """The model in float32 with eager attention, and a tokenizer (ids are stored, so any will do)."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    options = {"gguf_file": real.file}
    model = AutoModelForCausalLM.from_pretrained(
        MODELS, dtype=torch.float32, attn_implementation="eager", **options
    )
    return model.eval(), AutoTokenizer.from_pretrained(MODELS, **options)


def encode(tokenizer, text, bos):
    return bos + tokenizer(text, add_special_tokens=False)["input_ids"]


def read_text(name):
    return (common.ROOT / "tests" / "oracle" / "texts" / f"{name}.txt").read_text()


def report(model, tokenizer, real, texts):
    """What a person needs to believe the model is read rightly."""
    prompt = encode(tokenizer, "The capital of France is", real.bos)
    for _ in range(12):
        prompt.append(int(common.run(model, prompt)[-1].argmax()))
    print(f"{real.name} continues: {tokenizer.decode(prompt)!r}")
    for name, text in zip(TEXTS, texts):
        picked = text.logits[np.arange(N_TOKENS - 1), text.ids[1:]]
        sums = np.array([common.logsumexp(row) for row in text.logits[:-1]])
        print(f"  perplexity of {name}: {np.exp((sums - picked).mean()):.3f}")


def check(real, texts):
    plain = PlainModel(MODELS / real.file)
    worst = 0.0
    for text in texts:
        worst = max(worst, float(np.abs(plain.logits(text.ids) - text.logits).max()))
    print(f"  largest difference from the plain float64 pass: {worst:.2e}")
    assert worst < CHECK_TOLERANCE, f"{real.name}: transformers does not read the file as expected"
    return worst


def make(real):
    model, tokenizer = load(real)
    texts = []
    for name in TEXTS:
        ids = encode(tokenizer, read_text(name), real.bos)[:N_TOKENS]
        assert len(ids) == N_TOKENS, f"{name} has only {len(ids)} tokens"
        texts.append(common.OracleText(ids, common.run(model, ids), range(N_TOKENS)))
    report(model, tokenizer, real, texts)
    distance = check(real, texts)
    vocab_size = texts[0].logits.shape[1]
    fixed = np.sort(np.random.default_rng(20).choice(vocab_size, N_FIXED, replace=False))
    path = LOGITS / f"{real.name}.oracle"
    common.write_oracle(path, texts, fixed_ids=fixed, n_top=N_TOP, n_wide=N_WIDE)
    return {
        "model": real.file,
        "oracle": path.name,
        "texts": TEXTS,
        "float32_minus_exact": float(f"{distance:.2g}"),
    }


def main():
    common.make_deterministic()
    LOGITS.mkdir(parents=True, exist_ok=True)
    chosen = [real for real in REAL if len(sys.argv) < 2 or real.name in sys.argv[1:]]
    entries = [make(real) for real in chosen]
    if len(chosen) == len(REAL):
        text = json.dumps({"models": entries}, indent=1)
        (LOGITS / "models.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
