"""bench/serve: what it asks a server, and what it makes of the answers."""

import asyncio
import json

import pytest

from serve import client, loads
from serve.cli import parse
from serve.works import WORKS, figures_of, percentile

EVENTS = [{"choices": [{"text": "Hé", "finish_reason": None}]},
          {"choices": [{"text": "", "finish_reason": None}]},
          {"choices": [{"text": "llo", "finish_reason": "length"}]},
          {"choices": [], "usage": {"completion_tokens": 3}}]


async def answered_by(pieces, status="200 OK"):
    """The answer of a server that sends these chunks, and the request it got."""
    got = {}

    async def serve(reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        got["body"] = json.loads(await reader.readexactly(length))
        writer.write(f"HTTP/1.1 {status}\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        for piece in pieces:
            writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            await writer.drain()
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        answer = await client.complete(f"http://127.0.0.1:{port}",
                                       client.Ask([5, 6], 3, fields={"seed": 1}))
    return answer, got["body"]


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_events_are_read_however_they_are_cut(size):
    stream = "".join(f"data: {json.dumps(event)}\n\n" for event in EVENTS) + "data: [DONE]\n\n"
    data = stream.encode()
    pieces = [data[i:i + size] for i in range(0, len(data), size)]
    answer, body = asyncio.run(answered_by(pieces))
    assert answer.text == "Héllo" and answer.finish_reason == "length" and answer.error is None
    assert len(answer.parts) == 2 and answer.usage == {"completion_tokens": 3}
    assert body["prompt"] == [5, 6] and body["max_tokens"] == 3 and body["seed"] == 1
    assert body["stream"] and body["ignore_eos"] and body["temperature"] == 0


def test_refusals_and_errors_in_a_stream_are_kept():
    refused, _ = asyncio.run(answered_by([b'{"error":{}}'], status="429 Too Many Requests"))
    assert refused.error.startswith("429") and not refused.parts
    broken, _ = asyncio.run(answered_by([b'data: {"error": {"message": "no"}}\n\n']))
    assert "no" in broken.error


def test_figures_are_those_of_the_answers():
    answers = [client.Answer(sent=0.0, parts=[0.1, 0.2, 0.5], usage={"completion_tokens": 4}),
               client.Answer(sent=1.0, parts=[1.3], usage={"completion_tokens": 1})]
    out = figures_of(answers, seconds=2.0)
    assert out["tokens_per_s"] == 2.5
    assert out["ttft_p99_ms"] == pytest.approx(300) and out["gap_p99_ms"] == pytest.approx(300)
    assert percentile([3, 1, 2], 50) == 2 and percentile([1], 99) == 1


def test_loads_are_the_same_every_time():
    assert loads.streams(3, 10, 5) == loads.streams(3, 10, 5)
    assert len({tuple(ask.prompt) for ask in loads.streams(8, 10, 5)}) == 8
    tail = [ask.n_tokens for ask in loads.long_tail(2000, 4, 100, 400)]
    assert max(tail) == 400 and min(tail) >= 1 and 80 < sum(tail) / len(tail) < 110
    assert len({tuple(ask.prompt) for ask in loads.repeated(5, 20)}) == 1


def test_every_work_has_a_load_and_a_name_of_its_own():
    assert len({work.name for work in WORKS}) == len(WORKS)
    assert all(work.load() and work.variants for work in WORKS)
    assert parse(["--work", "streams-16"]).work == ["streams-16"]
