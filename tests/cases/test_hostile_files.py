"""B38, B39, B41: files whose lengths, counts and dimensions lie, as a whole process.

That the right key and byte are named is tested beside the reader (gguf_hostile_test.cc,
hparams_test.cc); here every command must refuse them in one line, within 512 MB of address space,
a second of processor time and 50 MB of memory.
"""

import importlib.util
import resource
import struct
from pathlib import Path

import pytest
import small_process

TESTS = Path(__file__).resolve().parents[1]
_spec = importlib.util.spec_from_file_location("make_corpus", TESTS / "fuzz/make_corpus.py")
corpus = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(corpus)

U32, STRING, ARRAY = corpus.U32, corpus.STRING, corpus.ARRAY
COMMANDS = [["inspect"], ["run", "-p", "a"], ["tokenize"], ["detokenize"]]


def tensor_of(ne, kind=0):
    return corpus.gguf([], [corpus.tensor("t", kind, ne, 0)], 64)


def patched(suffix, value):
    """A model that works, but for one hyper-parameter."""
    data = (TESTS / "data/tiny/llama_gqa2_d80.gguf").read_bytes()
    record = corpus.text(f"llama.{suffix}") + struct.pack("<I", U32)
    assert data.count(record) == 1, suffix
    at = data.index(record) + len(record)
    return data[:at] + struct.pack("<I", value) + data[at + 4:]


# Refused by whatever reads the file.
NO_GGUF = {
    # B38: zero and odd fields
    **{f"B38 alignment {n}": corpus.gguf([corpus.key("general.alignment", U32, n)],
                                         [corpus.tensor("t", 0, [8], 0)], 64)
       for n in (0, 3, 1 << 31)},
    **{f"B38 tensor type {n}": tensor_of([8], n) for n in (4, 99, 2**32 - 1)},
    "B38 ne 0": tensor_of([8, 0]),
    # B39: dimensions and counts that overflow
    **{f"B39 ne {ne}": tensor_of(ne) for ne in ([2**42 + 1], [2**63 - 1, 2], [2**32, 2**32],
                                               [2**62, 4], [2**64 - 1])},
    "B39 n_dims 5": tensor_of([1] * 5),
    "B39 n_dims 2^32-1": corpus.gguf([], [corpus.text("t") + struct.pack("<I", 2**32 - 1)
                                          + bytes(64)]),
    "B39 n_tensors 2^61": corpus.gguf([], n_tensors=1 << 61),
    "B39 n_kv 2^63": corpus.gguf([], n_keys=1 << 63),
    # B41: lengths used as sizes
    "B41 string 2^48": corpus.gguf([corpus.text("general.architecture")
                                    + struct.pack("<IQ", STRING, 1 << 48)]),
    "B41 key name 2^48": corpus.gguf([struct.pack("<Q", 1 << 48) + b"abc" + bytes(32)]),
    **{f"B41 array 2^62 of type {kind}": corpus.gguf([corpus.array("a", kind, [], count=1 << 62)])
       for kind in (*corpus.FORMATS, STRING)},
    "B41 arrays 10000 deep": corpus.gguf([corpus.text("n") + struct.pack("<I", ARRAY)
                                          + struct.pack("<IQ", ARRAY, 1) * 10_000]),
    "B41 n_kv 2^32 in 60 bytes": (corpus.gguf([], n_keys=1 << 32) + bytes(60))[:60],
    **{f"B41 cut after {n} bytes": patched("block_count", 2)[:n] for n in (24, 36, 88, 1000, 8000)},
}

# A GGUF file, but no model.
NO_MODEL = {f"B38 {suffix} {value}": patched(suffix, value) for suffix, value in [
    ("block_count", 0), ("block_count", 1), ("block_count", 3), ("block_count", 1 << 31),
    ("attention.head_count", 0), ("attention.head_count", 3), ("attention.head_count", 1 << 31),
    ("attention.head_count_kv", 0), ("attention.head_count_kv", 3),
    ("embedding_length", 0), ("embedding_length", 7), ("embedding_length", 1 << 31),
    ("feed_forward_length", 0), ("context_length", 0), ("rope.dimension_count", 0),
    ("rope.dimension_count", 3), ("attention.key_length", 0), ("attention.key_length", 81)]}


LIMITS = {resource.RLIMIT_AS: 512 << 20, resource.RLIMIT_CPU: 1}


def refuse(binary, command, file):
    """Runs the command, and returns the sentence it ends with."""
    done = small_process.run([binary, command[0], file, *command[1:]], limits=LIMITS)
    error = done.stderr.decode()
    assert done.returncode == 1, (command, done.returncode, error)
    assert done.stdout == b""
    assert error.startswith("quire: ") and error.count("\n") == 1, error
    assert 1 << 10 < done.peak_kib < 50 << 10
    return error


@pytest.mark.parametrize("name", NO_GGUF)
def test_b38_b39_b41_a_file_that_lies_is_refused_by_every_command(binary, tmp_path, name):
    file = tmp_path / "evil.gguf"
    file.write_bytes(NO_GGUF[name])
    for command in COMMANDS:
        assert "evil.gguf" in refuse(binary, command, file)


@pytest.mark.parametrize("name", NO_MODEL)
def test_b38_an_impossible_model_is_refused_by_name(binary, tmp_path, name):
    file = tmp_path / "evil.gguf"
    file.write_bytes(NO_MODEL[name])
    error = refuse(binary, ["run", "-p", "a"], file)
    assert "key 'llama." in error or "tensor '" in error


def test_b41_a_refusal_copies_no_vocabulary_and_no_string(binary, tmp_path):
    file = tmp_path / "evil.gguf"
    n = 1_000_000
    with file.open("wb") as out:
        out.write(corpus.gguf([corpus.text("tokenizer.ggml.model") + struct.pack("<I", STRING)
                               + corpus.text("gpt2"),
                               corpus.array("tokenizer.ggml.token_type", U32, [1, 1]),
                               corpus.array("tokenizer.ggml.tokens", STRING, [], count=n)]))
        for i in range(0, n, 1000):
            out.write(b"".join(corpus.text(f"{j:06}") for j in range(i, i + 1000)))
    for command in (["inspect"], ["tokenize"], ["detokenize"]):
        assert "'tokenizer.ggml.token_type' at byte" in refuse(binary, command, file)
    with file.open("wb") as out:
        out.write(corpus.gguf([corpus.text("x") + struct.pack("<IQ", STRING, 23 << 20)]))
        for _ in range(23):
            out.write(b"x" * (1 << 20))
    for command in (["run", "-p", "a"], ["tokenize"]):
        assert "is missing" in refuse(binary, command, file)


def test_the_model_that_is_changed_works_unchanged(quire, tmp_path):
    file = tmp_path / "good.gguf"
    file.write_bytes(patched("block_count", 2))
    quire("run", file, "-p", "a", "-n", "1")


def test_b41_a_model_of_full_size_is_refused_before_it_is_read(binary, smollm2, tmp_path):
    file = tmp_path / "evil.gguf"
    data = smollm2.read_bytes()
    assert data.count(b"output_norm.weight") == 1
    file.write_bytes(data.replace(b"output_norm.weight", b"zztput_norm.weight"))
    assert "'output_norm.weight' is missing" in refuse(binary, ["run", "-p", "a"], file)


def test_b41_a_template_that_cannot_be_parsed_is_refused_by_its_key(binary, smollm2, tmp_path):
    file = tmp_path / "evil.gguf"
    data = smollm2.read_bytes()
    assert data.count(b"{% for message in") == 1
    file.write_bytes(data.replace(b"{% for message in", b"{% fxr message in"))
    done = small_process.run([binary, "run", file, "-p", "a", "-n", "1"])
    error = done.stderr.decode()
    assert done.returncode == 1 and done.stdout == b"" and error.count("\n") == 1
    assert "evil.gguf: key 'tokenizer.chat_template' at byte" in error
    assert done.peak_kib < 50 << 10
    raw = small_process.run([binary, "run", file, "-p", "a", "-n", "1", "--raw"])
    assert raw.returncode == 0


def test_want_of_memory_is_a_sentence_everywhere(binary, smollm2, tmp_path):
    text = tmp_path / "text"
    text.write_bytes(b"a" * (20 << 20))  # one word, which takes 70 bytes for each of its own
    few = ["--kv-memory", "64MiB", "--ctx", "512", "-p", "a", "-n", "1"]
    for args, mib in ((["tokenize", smollm2], 1024), (["run", smollm2, *few], 195),
                      (["run", smollm2, *few], 240), (["run", smollm2, "--raw", *few], 240)):
        with text.open("rb") as stdin:
            done = small_process.run([binary, *args], stdin=stdin,
                                     limits={resource.RLIMIT_AS: mib << 20})
        error = done.stderr.decode()
        assert done.returncode == 1, (args, mib, error)
        assert error.startswith("quire: ") and error.count("\n") == 1, error
        # Where an address space is short, no thread may start either.
        assert "memory" in error or "thread" in error, error
