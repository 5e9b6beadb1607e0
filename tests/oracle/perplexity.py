"""Makes tests/data/logits/perplexity.json: what `quire eval --reference` must give for the excerpt.

Windows and scoring are those of llama.cpp's perplexity tool: the text is tokenized once (BOS in
front if the model wants one) and cut into windows of n_ctx tokens that do not overlap; what does
not fill a window is dropped. If the model wants BOS, it replaces the first token of each window.
Of each window the tokens at n_ctx/2 + 1 .. n_ctx - 1 are scored: n_ctx - n_ctx/2 - 1 of them, each
predicted from everything before it in its window.
"""

import json

import common
import numpy as np
from common import LOGITS
from logits import REAL, encode, load

CONTEXTS = [512, 128]
EXCERPT = "kjv_excerpt.txt"  # Hebrews 1-5 of the King James version


def perplexity(model, ids, n_ctx, bos):
    first, losses = n_ctx // 2, []
    for start in range(0, len(ids) - n_ctx + 1, n_ctx):
        window = list(ids[start : start + n_ctx])
        window[: len(bos)] = bos
        logits = common.run(model, window)
        for position in range(first, n_ctx - 1):
            row = logits[position]
            losses.append(common.logsumexp(row) - float(row[window[position + 1]]))
    nll = float(np.mean(losses))
    return {
        "n_ctx": n_ctx,
        "windows": len(ids) // n_ctx,
        "scored": len(losses),
        "nll": round(nll, 6),
        "perplexity": round(float(np.exp(nll)), 5),
    }


def main():
    common.make_deterministic()
    text = (LOGITS / EXCERPT).read_text()
    entries = []
    for real in REAL:
        model, tokenizer = load(real)
        ids = encode(tokenizer, text, real.bos)
        assert tokenizer.decode(ids, skip_special_tokens=True) == text, real.name
        results = [perplexity(model, ids, n_ctx, real.bos) for n_ctx in CONTEXTS]
        print(real.name, len(ids), "tokens", results)
        entries.append({"model": real.file, "results": results, "tokens": ids})
    document = {"text": EXCERPT, "models": entries}
    output = json.dumps(document, separators=(",", ":")).replace('{"model"', '\n{"model"')
    (LOGITS / "perplexity.json").write_text(output + "\n")


if __name__ == "__main__":
    main()
