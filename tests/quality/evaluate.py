"""Runs `quire eval` and returns its figures."""

import json
import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BINARY = Path(os.environ.get("QUIRE_BIN", ROOT / "build/release/bin/quire"))


def evaluate(model, text, *args):
    done = subprocess.run([BINARY, "eval", ROOT / "models" / model, "--text", text, "--json",
                           *map(str, args)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
