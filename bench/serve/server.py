"""A server to be measured: `quire serve` with some flags, or one that runs already."""

import json
import re
import subprocess
import threading
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BINARY = ROOT / "build/release/bin/quire"


class Running:
    """Somebody else's server: only its URL is known."""

    def __init__(self, url: str):
        self.url = url

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def state(self) -> dict:
        return {}


class Quire(Running):
    def __init__(self, model: Path, flags: list[str]):
        command = [str(BINARY), "serve", str(model), "--port", "0", "--log-level", "warning", *flags]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        said = []
        for line in self.process.stderr:
            said.append(line)
            if found := re.search(r"on (http://\S+?),", line):
                super().__init__(found[1])
                break
        else:
            raise RuntimeError("".join(said) or "quire serve ended without a word")
        # A full pipe would stop it.
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(timeout=60)

    def state(self) -> dict:
        with urllib.request.urlopen(f"{self.url}/v1/kv", timeout=10) as answer:
            return json.load(answer)
