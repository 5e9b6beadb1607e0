"""Runs the built binary: QUIRE_BIN, or the release build."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
BINARY = Path(os.environ.get("QUIRE_BIN", ROOT / "build/release/bin/quire"))
SMOLLM2 = ROOT / "models/SmolLM2-135M-Instruct.Q4_1.gguf"
GEMMA3 = ROOT / "models/gemma-3-270m.Q4_K_M.gguf"


class Quire:
    """The binary; every call says what exit code it expects."""

    def __call__(self, *args, expect=0, stdin=b"", timeout=300):
        if isinstance(stdin, str):
            stdin = stdin.encode()
        done = subprocess.run([BINARY, *map(str, args)], input=stdin, capture_output=True,
                              timeout=timeout)
        assert done.returncode == expect, (args, done.returncode, done.stderr.decode())
        return done

    def run_json(self, *args, model=SMOLLM2):
        """`quire run` with a small context, greedy unless `args` says otherwise."""
        defaults = ["--json", "--ctx", "512"]
        if "--temp" not in args:
            defaults += ["--temp", "0"]
        return json.loads(self("run", model, *defaults, *args).stdout)

    def error(self, *args, expect, stdin=b""):
        """What it prints when it refuses: nothing on standard output, a sentence on the other."""
        done = self(*args, expect=expect, stdin=stdin, timeout=60)
        assert done.stdout == b""
        text = done.stderr.decode()
        assert text.startswith("quire: ") and text.endswith("\n")
        return text


@pytest.fixture(scope="session")
def quire():
    assert BINARY.exists(), f"{BINARY} is not built; `make build` builds it"
    return Quire()


@pytest.fixture(scope="session")
def smollm2():
    assert SMOLLM2.exists(), f"{SMOLLM2} is missing; `make models` fetches it"
    return SMOLLM2


@pytest.fixture(scope="session")
def gemma3():
    assert GEMMA3.exists(), f"{GEMMA3} is missing; `make models` fetches it"
    return GEMMA3


@pytest.fixture(scope="session")
def binary():
    return BINARY
