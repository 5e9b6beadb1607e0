"""What the oracle scripts share: folders, determinism, and the writer of oracle files.

Oracle files hold logits computed by transformers, in a format that C++ reads without a library
(tests/support/oracle_file.h is the reader). Everything is little-endian:

    char[8]  "QORACLE1"
    u32      vocab_size, n_fixed, n_top, n_texts
    u32      fixed_ids[n_fixed]              the ids whose logits every row has
    n_texts times:
      u32    n_tokens, n_rows, n_wide
      i32    tokens[n_tokens]
      n_rows times:
        u32  position                        the logits after reading tokens[0..position]
        f32  logsumexp                       over the whole vocabulary
        u32  top_ids[n_top]                  by falling logit
        f32  top_logits[n_top]
        f32  fixed_logits[n_fixed]
      u32    wide_stride                     only if n_wide > 0: more of the last row, at the
      f32    wide_logits[n_wide]             ids 0, wide_stride, 2 * wide_stride, ...

A file with every logit of its rows has n_fixed = vocab_size and n_top = 0.
"""

import os
import struct
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
os.environ.setdefault("TQDM_DISABLE", "1")

import numpy as np  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
MODELS = ROOT / "models"
TINY = ROOT / "tests" / "data" / "tiny"
LOGITS = ROOT / "tests" / "data" / "logits"


def make_deterministic():
    """One thread and no fused kernels: the same bits on every run of the same build."""
    import torch

    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(0)


def run(model, ids):
    """Logits [n_tokens, vocab] of one text, in the model's own precision."""
    import torch

    with torch.inference_mode():
        return model(torch.tensor([ids]), use_cache=False).logits[0].numpy()


def logsumexp(row):
    row = row.astype(np.float64)
    peak = row.max()
    return peak + np.log(np.exp(row - peak).sum())


class OracleText:
    """One text: token ids, and its logits [n_tokens, vocab], of which `positions` are kept."""

    def __init__(self, ids, logits, positions):
        self.ids = np.asarray(ids, dtype="<i4")
        self.logits = logits
        self.positions = list(positions)


def write_oracle(path, texts, fixed_ids=None, n_top=0, n_wide=0):
    vocab_size = texts[0].logits.shape[1]
    fixed = np.arange(vocab_size) if fixed_ids is None else np.asarray(fixed_ids)
    out = bytearray(b"QORACLE1")
    out += struct.pack("<4I", vocab_size, len(fixed), n_top, len(texts))
    out += fixed.astype("<u4").tobytes()
    for text in texts:
        out += struct.pack("<3I", len(text.ids), len(text.positions), n_wide)
        out += text.ids.tobytes()
        for position in text.positions:
            row = text.logits[position].astype(np.float32)
            top = np.argsort(-row, kind="stable")[:n_top]
            out += struct.pack("<If", position, logsumexp(row))
            out += top.astype("<u4").tobytes()
            out += row[top].astype("<f4").tobytes()
            out += row[fixed].astype("<f4").tobytes()
        if n_wide:
            stride = vocab_size // n_wide
            row = text.logits[text.positions[-1]]
            out += struct.pack("<I", stride)
            out += row[: stride * n_wide : stride].astype("<f4").tobytes()
    path.write_bytes(out)
