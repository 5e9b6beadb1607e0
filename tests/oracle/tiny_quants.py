"""Random valid blocks of the types that the gguf package decodes but cannot encode.

Every bit pattern of the codes and sub-scales is valid, so they are drawn uniformly; the block's
f16 scales are then set so that the decoded weights have mean near 0 and the deviation asked for.
"""

import gguf
import numpy as np

Q = gguf.GGMLQuantizationType

# type -> (offset of d, offset of dmin or None, dmin / d that makes the mean vanish)
LAYOUT = {
    Q.Q2_K: (80, 82, 1.5),
    Q.Q3_K: (108, None, 0.0),
    Q.Q4_K: (0, 2, 7.5),
    Q.Q5_K: (0, 2, 15.5),
    Q.Q6_K: (208, None, 0.0),
    Q.IQ4_NL: (0, None, 0.0),
}


def random_blocks(shape, kind, deviation, rng):
    """uint8 [rows, bytes per row] whose decoded weights have about the given deviation."""
    block, size = gguf.GGML_QUANT_SIZES[kind]
    rows, columns = shape
    assert columns % block == 0, (shape, kind)
    blocks = rng.integers(0, 256, (rows * columns // block, size), dtype=np.uint8)
    d_at, dmin_at, ratio = LAYOUT[kind]

    def set_scales(scale):
        # Blocks differ by up to a quarter, so that reading a neighbour's scale shows.
        d = (scale * spread).astype("<f2")
        blocks[:, d_at : d_at + 2] = d.view(np.uint8).reshape(-1, 2)
        if dmin_at is not None:
            dmin = (scale * spread * ratio).astype("<f2")
            blocks[:, dmin_at : dmin_at + 2] = dmin.view(np.uint8).reshape(-1, 2)
        return blocks.reshape(rows, columns // block * size)

    spread = rng.uniform(0.75, 1.25, len(blocks))
    unit = 2.0**-6  # keeps the trial clear of f16's subnormals
    trial = gguf.quants.dequantize(set_scales(unit), kind)
    return set_scales(unit * deviation / trial.std())
