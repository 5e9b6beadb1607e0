"""Seeds for the fuzz targets: small files that are right, and the known ways to be wrong.

    python3 tests/fuzz/make_corpus.py FOLDER     # writes FOLDER/gguf/*.gguf and FOLDER/request_parser/*

Needs nothing but Python. The layout is GGUF's specification: header, key-value records, tensor
records, padding, data; little endian.
"""

import struct
import sys
from pathlib import Path

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
FORMATS = {
    U8: "<B", I8: "<b", U16: "<H", I16: "<h", U32: "<I", I32: "<i", F32: "<f", BOOL: "<B",
    U64: "<Q", I64: "<q", F64: "<d",
}
# Type id -> (elements per block, bytes per block).
TENSOR_TYPES = {
    0: (1, 4), 1: (1, 2), 30: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24),
    8: (32, 34), 10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210),
    20: (32, 18),
}


def text(value: bytes | str) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(raw)) + raw


def scalar(kind: int, value) -> bytes:
    return text(value) if kind == STRING else struct.pack(FORMATS[kind], value)


def key(name: str, kind: int, value) -> bytes:
    return text(name) + struct.pack("<I", kind) + scalar(kind, value)


def array(name: str, kind: int, values: list, count: int | None = None) -> bytes:
    head = struct.pack("<IIQ", ARRAY, kind, len(values) if count is None else count)
    return text(name) + head + b"".join(scalar(kind, v) for v in values)


def tensor(name: str, kind: int, ne: list[int], offset: int) -> bytes:
    dims = struct.pack(f"<I{len(ne)}Q", len(ne), *ne)
    return text(name) + dims + struct.pack("<IQ", kind, offset)


def gguf(keys, tensors=(), data=0, version=3, alignment=32, n_keys=None, n_tensors=None) -> bytes:
    out = b"GGUF" + struct.pack("<I", version)
    out += struct.pack("<Q", len(tensors) if n_tensors is None else n_tensors)
    out += struct.pack("<Q", len(keys) if n_keys is None else n_keys)
    out += b"".join(keys) + b"".join(tensors)
    return out + bytes(-len(out) % alignment) + bytes(range(256)) * (data // 256 + 1) if data else out


def tokenizer(model: str) -> list[bytes]:
    tokens = ["<unk>", "<s>", "</s>", "a", "b", "ab"]
    return [
        key("tokenizer.ggml.model", STRING, model),
        key("tokenizer.ggml.pre", STRING, "default"),
        array("tokenizer.ggml.tokens", STRING, tokens),
        array("tokenizer.ggml.scores", F32, [0.0, 0.0, 0.0, -1.0, -2.0, -0.5]),
        array("tokenizer.ggml.token_type", I32, [2, 3, 3, 1, 1, 1]),
        array("tokenizer.ggml.merges", STRING, ["a b"]),
        key("tokenizer.ggml.bos_token_id", U32, 1),
        key("tokenizer.ggml.eos_token_id", U32, 2),
        key("tokenizer.ggml.add_bos_token", BOOL, 1),
        key("tokenizer.ggml.add_eos_token", BOOL, 0),
        key("tokenizer.ggml.add_space_prefix", BOOL, 1),
    ]


def seeds() -> dict[str, bytes]:
    arch = [
        key("general.architecture", STRING, "llama"),
        key("llama.block_count", U32, 2),
        key("llama.attention.head_count", U32, 4),
        array("llama.attention.head_count_kv", I32, [2, 1]),
        key("llama.rope.freq_base", F32, 10000.0),
    ]
    out = {
        "empty": gguf([]),
        "llama": gguf(arch + tokenizer("llama"), [tensor("a", 0, [8, 2], 0)], 256),
        "gpt2_v2": gguf(arch + tokenizer("gpt2"), [tensor("a", 1, [8], 0)], 256, version=2),
        "aligned_64": gguf(
            [key("general.alignment", U32, 64)],
            [tensor("a", 0, [8], 0), tensor("b", 8, [32, 2], 64)], 256, alignment=64),
        "split": gguf([key("split.no", U16, 0), key("split.count", U16, 2)]),
    }
    for kind in FORMATS:
        out[f"value_{kind}"] = gguf([key("k", kind, 1), array("l", kind, [0, 1, 1])])
    for kind, (block, size) in TENSOR_TYPES.items():
        out[f"tensor_{kind}"] = gguf([], [tensor("t", kind, [block, 2], 0)], 2 * size)
    out |= {
        "bad_version_1": gguf([], version=1),
        "bad_big_endian": gguf([], version=3 << 24),
        "bad_counts": gguf([], n_keys=1 << 63, n_tensors=1 << 61),
        "bad_array_length": gguf([array("l", STRING, [], count=1 << 62)]),
        "bad_string_length": gguf([text("s") + struct.pack("<IQ", STRING, 1 << 48)]),
        "bad_nested": gguf([text("n") + struct.pack("<IIQ", ARRAY, ARRAY, 1) * 8]),
        "bad_alignment": gguf([key("general.alignment", U32, 3)], [tensor("t", 0, [8], 0)], 64),
        "bad_ne_zero": gguf([], [tensor("t", 0, [0, 8], 0)], 64),
        "bad_ne_overflow": gguf([], [tensor("t", 0, [(1 << 63) - 1, 2], 0)], 64),
        "bad_dims": gguf([], [tensor("t", 0, [1, 1, 1, 1, 1], 0)], 64),
        "bad_past_end": gguf([], [tensor("t", 0, [8], 1 << 40)], 64),
        "bad_twice": gguf([key("k", U8, 1)] * 2, [tensor("t", 0, [1], 0)] * 2, 64),
    }
    return out


def request_seeds() -> dict[str, bytes]:
    """HTTP requests; the first byte says into pieces of what size they are cut."""
    host = b"Host: h\r\n"
    post = b"POST / HTTP/1.1\r\n" + host
    requests = {
        "query": b"GET /a%20b?x=1&y=+%26 HTTP/1.1\r\n" + host + b"\r\n",
        "length": post + b"Content-Length: 5\r\nExpect: 100-continue\r\n\r\nhelloGET",
        "chunks": post + b"Transfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nx: y\r\n\r\n",
        "old": b"OPTIONS * HTTP/1.0\r\nConnection: close, keep-alive\r\nUpgrade: h2c\r\n\r\n",
        "folded": b"GET http://h/ HTTP/1.1\r\n" + host + b"a: b\r\n c\r\n\r\n",
    }
    return {name: b"\3" + data for name, data in requests.items()}


def write(folder: Path, suffix: str, data: dict[str, bytes]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, seed in data.items():
        (folder / f"{name}{suffix}").write_bytes(seed)


def main() -> None:
    folder = Path(sys.argv[1])
    write(folder / "gguf", ".gguf", seeds())
    write(folder / "request_parser", "", request_seeds())


if __name__ == "__main__":
    main()
