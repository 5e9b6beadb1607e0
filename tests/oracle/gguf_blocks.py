"""Random blocks of every tensor type and what the `gguf` package makes of them.

Writes tests/data/gguf/blocks_<TYPE>.bin: the blocks' bytes, then their elements as f32, little
endian. The number of blocks is what makes the file's size come out.

    python tests/oracle/gguf_blocks.py        # regenerate
"""

from pathlib import Path

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize

TYPES = [
    "F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1",
    "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL",
]
# Where a block keeps its f16 factors: random bits there would be NaN or infinity 1 time in 16,
# and NaN payloads are nobody's format.
F16_FACTORS = {
    "F16": [0], "Q8_0": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2],
    "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0],
}


def random_blocks(name: str, rng: np.random.Generator) -> np.ndarray:
    block_size, block_bytes = GGML_QUANT_SIZES[GGMLQuantizationType[name]]
    n_blocks = max(2048 // block_size, 8)
    blocks = rng.integers(0, 256, (n_blocks, block_bytes), dtype=np.uint8)
    for offset in F16_FACTORS.get(name, []):
        bits = rng.integers(0, 1 << 16, n_blocks, dtype=np.uint16)
        bits[bits & 0x7C00 == 0x7C00] ^= 0x4000  # finite; zeros and subnormals stay possible
        bits[:3] = [0x0000, 0x8001, 0x03FF]  # zero, the smallest and the largest subnormal
        blocks[:, offset : offset + 2] = bits.view(np.uint8).reshape(-1, 2)
    if name in ("F32", "BF16"):  # keep exponents finite here too
        blocks[:, -1] &= 0xBF
    return blocks


def main() -> None:
    out_dir = Path(__file__).resolve().parents[1] / "data" / "gguf"
    out_dir.mkdir(parents=True, exist_ok=True)
    for name in TYPES:
        rng = np.random.default_rng([20, TYPES.index(name)])
        blocks = random_blocks(name, rng)
        values = dequantize(blocks.reshape(1, -1), GGMLQuantizationType[name]).astype("<f4")
        assert np.isfinite(values).all(), name
        (out_dir / f"blocks_{name}.bin").write_bytes(blocks.tobytes() + values.tobytes())


if __name__ == "__main__":
    main()
