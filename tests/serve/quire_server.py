"""A `quire serve` of its own for a test, how to ask it, and what must hold when it ends."""

import contextlib
import http.client
import json
import os
import re
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

import openai

ROOT = Path(__file__).resolve().parents[2]
BINARY = Path(os.environ.get("QUIRE_BIN", ROOT / "build/release/bin/quire"))
SMOLLM2 = ROOT / "models/SmolLM2-135M-Instruct.Q4_1.gguf"
TINY = ROOT / "tests/data/tiny/llama_long.gguf"  # 270 tokens: the 256 bytes, merges, <|end|>

# One request at a time, in one piece, nothing shared: what every other way has to agree with.
ORACLE_FLAGS = ("--no-prefix-cache", "--max-running", "1", "--no-chunked-prefill")
# However busy the machine is; what these wait for takes milliseconds.
PATIENCE = 30.0


class Server:
    def __init__(self, model, *flags, env=None):
        assert BINARY.exists(), f"{BINARY} is not built; `make build` builds it"
        assert Path(model).exists(), f"{model} is missing; `make models` fetches it"
        self.log_file = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [BINARY, "serve", model, "--port", "0", *map(str, flags)], env=env,
            stdin=subprocess.DEVNULL, stdout=self.log_file, stderr=self.log_file)
        try:
            self.url = self._wait_for_url()
            wait_until(lambda: self.get("/ready").status == 200, "the server is ready")
        except BaseException:
            self.kill()
            raise
        self.address = (urlsplit(self.url).hostname, urlsplit(self.url).port)

    def _wait_for_url(self):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and self.process.poll() is None:
            if found := re.search(r"^quire: .* on (http\S+), ", self.log(), re.MULTILINE):
                return found[1]
            time.sleep(0.01)
        raise AssertionError(f"the server does not start: {self.log()}")

    def log(self):
        self.log_file.flush()
        return os.pread(self.log_file.fileno(), 1 << 28, 0).decode()

    # ---- asking

    def client(self, key="none", **options):
        return openai.OpenAI(base_url=f"{self.url}/v1", api_key=key, max_retries=0, timeout=120,
                             **options)

    def async_client(self, key="none"):
        return openai.AsyncOpenAI(base_url=f"{self.url}/v1", api_key=key, max_retries=0,
                                  timeout=120)

    def request(self, method, path, body=None, headers=None, timeout=120):
        where = urlsplit(self.url)
        connection = http.client.HTTPConnection(where.hostname, where.port, timeout=timeout)
        with contextlib.closing(connection):
            if body is not None and not isinstance(body, (bytes, str)):
                body = json.dumps(body)
            if isinstance(body, str):
                body = body.encode()
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return Answer(answer.status, answer.headers, answer.read())

    def get(self, path, **options):
        return self.request("GET", path, **options)

    def post(self, path, body, **options):
        return self.request("POST", path, body, **options)

    def complete(self, prompt, **fields):
        """A greedy completion with log-probabilities unless `fields` say otherwise."""
        fields = {"temperature": 0, "logprobs": 2, "max_tokens": 8, **fields}
        return self.post("/v1/completions", {"prompt": prompt, **fields}).ok()

    def tokenize(self, text):
        return self.post("/tokenize", {"prompt": text, "add_special_tokens": False}).ok()["tokens"]

    # ---- its state

    def kv(self):
        return self.get("/v1/kv").ok()

    def metric(self, name):
        text = self.get("/metrics").body.decode()
        found = re.search(rf"^{re.escape(name)}(?:{{[^}}]*}})? (\S+)$", text, re.MULTILINE)
        assert found, name
        return float(found[1])

    def is_idle(self):
        return self.kv()["sequences"] == {"running": 0, "waiting": 0}

    def wait_idle(self, within=PATIENCE):
        """Every page is free or cached as soon as nothing runs or waits."""
        wait_until(self.is_idle, "nothing runs or waits", within)
        pages = self.kv()["pages"]
        assert pages["free"] + pages["cached"] == pages["total"] == pages["available"], pages
        assert pages["hot"] == pages["sealed"] == pages["pinned"] == 0, pages

    def flush(self):
        self.post("/v1/kv/flush", b"").ok()
        pages = self.kv()["pages"]
        assert pages["free"] == pages["total"], pages

    # ---- its end

    def stop(self):
        """Everything is given back and it ends when told to."""
        try:
            assert self.process.poll() is None, f"it has ended: {self.log()}"
            self.wait_idle()
            self.process.send_signal(signal.SIGTERM)
            assert self.process.wait(PATIENCE) == 0, self.log()
            assert not re.search(r"^\S+Z error ", self.log(), re.MULTILINE), self.log()
        finally:
            self.kill()

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.log_file.close()


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def json(self):
        return json.loads(self.body)

    def ok(self):
        assert self.status == 200, (self.status, self.body[:2000])
        return self.json()

    def error(self, status=400):
        """Refused in OpenAI's shape."""
        assert self.status == status, (self.status, self.body[:2000])
        assert self.headers["Content-Type"].startswith("application/json")
        error = self.json()["error"]
        assert set(error) == {"message", "type", "param", "code"}
        assert error["message"] and error["type"]
        return error


def wait_until(holds, what, within=PATIENCE):
    end = time.monotonic() + within
    while not holds():
        assert time.monotonic() < end, f"not within {within} s: {what}"
        time.sleep(0.005)


def sse_events(body):
    """The payloads of a stream of events, [DONE] included; every one valid UTF-8."""
    text = body.decode("utf-8")
    assert text.endswith("\n\n")
    events = text[:-2].split("\n\n")
    for event in events:
        assert re.fullmatch(r"(event: [^\n]+\n)?data: [^\n]+", event), event
    return [event.partition("data: ")[2] for event in events]


def completion_stream(body):
    """What a stream of completions or chat chunks says: (choices by index, usage or None)."""
    *chunks, done = sse_events(body)
    assert done == "[DONE]"
    choices, usage = {}, None
    for chunk in map(json.loads, chunks):
        assert usage is None  # it comes last
        if not chunk["choices"]:
            usage = chunk["usage"]
            continue
        for part in chunk["choices"]:
            choice = choices.setdefault(part["index"], {"text": "", "logprobs": [], "reasons": []})
            text = part["text"] if "text" in part else part["delta"].get("content")
            choice["text"] += text or ""
            if part.get("logprobs"):
                choice["logprobs"].append(part["logprobs"])
            if part["finish_reason"] is not None:
                choice["reasons"].append(part["finish_reason"])
    return choices, usage


def outcome(completion):
    """What must be equal when the same is asked in another way."""
    return [(choice["index"], choice.get("text", choice.get("message")), choice["logprobs"],
             choice["finish_reason"]) for choice in completion["choices"]]


def cached_tokens(completion):
    return completion["usage"]["prompt_tokens_details"]["cached_tokens"]
