"""tokenize and detokenize. That the ids are right is tested elsewhere; here they go both ways."""

import json
from pathlib import Path

import pytest
import small_process

TEXTS = ["Hello world", "", "\n", "  two  spaces ", "naïve café — 日本語 🙂 \t\r\n", "<|im_end|>",
         "12345 6789", "a" * 5000]


@pytest.mark.parametrize("text", TEXTS, ids=lambda t: repr(t[:12]))
@pytest.mark.parametrize("model", ["smollm2", "gemma3"])
def test_round_trip(quire, model, text, request):
    file = request.getfixturevalue(model)
    ids = quire("tokenize", file, stdin=text).stdout
    assert quire("detokenize", file, stdin=ids).stdout.decode() == text


@pytest.mark.parametrize("text", ["Hello", " Hello", "   ", "  two  spaces ", ""])
def test_only_the_space_that_encoding_added_is_taken_away(quire, text):
    model = Path(__file__).parents[1] / "data/tiny/llama_gqa2_d80.gguf"
    inspected = json.loads(quire("inspect", model, "--json").stdout)
    assert inspected["tokenizer"]["add_space_prefix"]
    ids = quire("tokenize", model, stdin=text).stdout
    assert quire("detokenize", model, stdin=ids).stdout.decode() == text


def test_bytes_that_are_not_text_round_trip(quire, gemma3):
    # Gemma has a token for every byte; SmolLM2's vocabulary lacks some.
    every = bytes(range(256))
    ids = quire("tokenize", gemma3, stdin=every).stdout
    assert quire("detokenize", gemma3, stdin=ids).stdout == every


def test_json_is_a_list_of_the_same_ids(quire, smollm2):
    plain = quire("tokenize", smollm2, stdin="Hello there").stdout
    listed = json.loads(quire("tokenize", smollm2, "--json", stdin="Hello there").stdout)
    assert [int(word) for word in plain.split()] == listed and len(listed) >= 2
    assert plain.endswith(b"\n") and plain.count(b"\n") == 1
    assert json.loads(quire("tokenize", smollm2, "--json").stdout) == []
    again = quire("detokenize", smollm2, stdin=json.dumps(listed)).stdout
    assert again == b"Hello there"


def test_special_texts_are_tokens_only_on_request(quire, smollm2):
    # SmolLM2: <|im_end|> is token 2.
    assert quire("tokenize", smollm2, "--special", stdin="<|im_end|>").stdout == b"2\n"
    assert len(quire("tokenize", smollm2, stdin="<|im_end|>").stdout.split()) > 1
    assert quire("detokenize", smollm2, stdin="2").stdout == b""
    assert quire("detokenize", smollm2, "--special", stdin="2").stdout == b"<|im_end|>"


def test_bos_is_as_the_model_wants_it(quire, smollm2, gemma3):
    # Gemma's BOS is token 2; SmolLM2 says add_bos_token = false.
    assert quire("tokenize", gemma3, "--bos", stdin="a").stdout.split()[0] == b"2"
    assert quire("tokenize", gemma3, "--bos", "--special", stdin="<bos>a").stdout.split().count(b"2") == 1
    assert (quire("tokenize", smollm2, "--bos", stdin="a").stdout
            == quire("tokenize", smollm2, stdin="a").stdout)


@pytest.mark.parametrize("ids, named", [("1 x 2", "'x'"), ("49152", "49152"), ("-1", "-1"),
                                        ("99999999999", "99999999999"), ("1.5", "1.5")])
def test_a_bad_id_is_named(quire, smollm2, ids, named):
    assert named in quire.error("detokenize", smollm2, expect=1, stdin=ids)


@pytest.mark.parametrize("unit", ["a1", "'s"])
def test_a_text_of_single_characters_takes_little_memory(binary, smollm2, tmp_path, unit):
    (tmp_path / "text").write_text(unit * (1 << 19))
    with (tmp_path / "text").open() as text:
        done = small_process.run([binary, "tokenize", smollm2], stdin=text)
    assert done.returncode == 0, done.stderr.decode()
    assert len(done.stdout.split()) >= 1 << 19
    # The vocabulary takes a third of it, a list of all pieces several times as much.
    assert 1 << 10 < done.peak_kib < 100 << 10
