"""What the numbers of a real model are worth: perplexity against transformers, and the distance of the
fast path from the reference."""

import json
import subprocess

import pytest

from evaluate import ROOT, evaluate

ORACLE = json.loads((ROOT / "tests/data/logits/perplexity.json").read_text())
EXCERPT = ROOT / "tests/data/logits" / ORACLE["text"]
CASES = [(m["model"], r) for m in ORACLE["models"] for r in m["results"]]
MODELS = [m["model"] for m in ORACLE["models"]]


@pytest.fixture(scope="session")
def long_text():
    """King James, Romans and 1 Corinthians: about 24,000 tokens; Debian ships the text."""
    subprocess.run([ROOT / "tools/kjv_text"], check=True, capture_output=True)
    return ROOT / "build/kjv.txt"


@pytest.mark.parametrize("model, expected", CASES,
                         ids=[f"{m.split('-')[0]}-{r['n_ctx']}" for m, r in CASES])
def test_perplexity_is_that_of_transformers(model, expected):
    out = evaluate(model, EXCERPT, "--ctx", expected["n_ctx"], "--reference", "--kv-type", "f32")
    assert (out["windows"], out["tokens"]) == (expected["windows"], expected["scored"])
    # Logits agree to some 1e-4; so does the mean of their logarithms.
    assert out["perplexity"] == pytest.approx(expected["perplexity"], rel=1e-4)


@pytest.mark.parametrize("model", MODELS)
def test_the_fast_path_stays_close_to_the_reference(model, long_text):
    out = evaluate(model, long_text, "--kl-reference")
    print(json.dumps({k: out[k] for k in ("perplexity", "perplexity_change", "tokens", "kl")}))
    assert out["text_tokens"] >= 20_000
    assert out["kl"]["mean"] <= 2e-3
    assert abs(out["perplexity_change"]) <= 0.003
