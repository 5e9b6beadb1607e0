"""Streams answers of a server that speaks OpenAI's protocol, and says when each part of them came.

Written on asyncio's streams: one process keeps up with hundreds of streams, so that what is measured
is the server.
"""

import asyncio
import json
import time
from dataclasses import dataclass, field
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Ask:
    """One completion: `prompt` is text or token ids."""
    prompt: str | list[int]
    n_tokens: int
    start_s: float = 0  # after the beginning of the load
    fields: dict = field(default_factory=dict)


@dataclass
class Answer:
    """When a request was sent and its parts came, in seconds of one clock."""
    sent: float
    parts: list[float] = field(default_factory=list)
    text: str = ""
    usage: dict = field(default_factory=dict)
    finish_reason: str | None = None
    error: str | None = None
    ended: float = 0

    @property
    def ttft(self) -> float:
        return self.parts[0] - self.sent

    @property
    def gaps(self) -> list[float]:
        return [b - a for a, b in zip(self.parts, self.parts[1:])]


async def read_events(reader: asyncio.StreamReader, chunked: bool):
    """The data of server-sent events, whatever chunks they come in."""
    buffer = b""
    while True:
        if chunked:
            head = await reader.readline()
            size = int(head.split(b";")[0] or b"0", 16)
            data = await reader.readexactly(size) if size else b""
            await reader.readline()
        else:
            data = await reader.read(65536)
        if not data:
            return
        buffer += data
        while b"\n\n" in buffer:
            event, buffer = buffer.split(b"\n\n", 1)
            for line in event.split(b"\n"):
                if line.startswith(b"data:"):
                    yield line[5:].strip()


async def read_head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    status = int((await reader.readline()).split()[1])
    headers = {}
    while (line := await reader.readline()) not in (b"\r\n", b""):
        name, value = line.decode().split(":", 1)
        headers[name.strip().lower()] = value.strip()
    return status, headers


async def complete(url: str, ask: Ask) -> Answer:
    """Asks /v1/completions for a stream of exactly ask.n_tokens tokens."""
    where = urlsplit(url)
    body = json.dumps({"prompt": ask.prompt, "max_tokens": ask.n_tokens, "stream": True,
                       "ignore_eos": True, "temperature": 0,
                       "stream_options": {"include_usage": True}, **ask.fields}).encode()
    head = (f"POST /v1/completions HTTP/1.1\r\nHost: {where.netloc}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
            "Connection: close\r\n\r\n").encode()
    answer = Answer(sent=time.perf_counter())
    reader, writer = await asyncio.open_connection(where.hostname, where.port, limit=1 << 20)
    try:
        writer.write(head + body)
        status, headers = await read_head(reader)
        if status != 200:
            answer.error = f"{status} {(await reader.read(2000)).decode(errors='replace')}"
            return answer
        chunked = headers.get("transfer-encoding") == "chunked"
        async for data in read_events(reader, chunked):
            if data == b"[DONE]":
                break
            event = json.loads(data)
            if "error" in event:
                answer.error = json.dumps(event["error"])
                return answer
            answer.usage = event.get("usage") or answer.usage
            for choice in event["choices"]:
                answer.finish_reason = choice.get("finish_reason") or answer.finish_reason
                if choice["text"]:
                    answer.parts.append(time.perf_counter())
                    answer.text += choice["text"]
    finally:
        answer.ended = time.perf_counter()
        writer.close()
    return answer


async def run(url: str, asks: list[Ask], concurrency: int) -> list[Answer]:
    """All of them, at most `concurrency` at once, each not before its start."""
    gate = asyncio.Semaphore(concurrency)
    begun = time.perf_counter()

    async def one(ask: Ask) -> Answer:
        await asyncio.sleep(max(0, begun + ask.start_s - time.perf_counter()))
        async with gate:
            return await complete(url, ask)

    return await asyncio.gather(*map(one, asks))
