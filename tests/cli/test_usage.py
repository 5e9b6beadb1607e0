"""Wrong usage is exit code 2 and a hint; bad input is exit code 1 and one sentence."""

import re
import subprocess

import pytest

# After `quire`; MODEL is replaced by a model that exists.
WRONG = [
    ["run"],
    ["bake"],
    ["run", "MODEL"],
    ["run", "MODEL", "-p", ""],
    ["run", "MODEL", "-p", "a", "-f", "b"],
    ["run", "MODEL", "-p", "a", "--json", "--chat"],
    ["run", "MODEL", "--chat", "--raw"],
    ["run", "MODEL", "-p", "a", "--raw", "--system", "s"],
    ["run", "MODEL", "-p", "a", "--special"],
    ["run", "MODEL", "-p", "a", "--no-such-flag"],
    ["run", "MODEL", "-p", "a", "-n", "0"],
    ["run", "MODEL", "-p", "a", "-n", "-1"],
    ["run", "MODEL", "-p", "a", "-n", "many"],
    ["run", "MODEL", "-p", "a", "--temp", "-0.1"],
    ["run", "MODEL", "-p", "a", "--temp", "nan"],
    ["run", "MODEL", "-p", "a", "--top-p", "0"],
    ["run", "MODEL", "-p", "a", "--top-p", "1.5"],
    ["run", "MODEL", "-p", "a", "--top-k", "-1"],
    ["run", "MODEL", "-p", "a", "--top-k", "0.5"],
    ["run", "MODEL", "-p", "a", "--min-p", "2"],
    ["run", "MODEL", "-p", "a", "--repeat-penalty", "0"],
    ["run", "MODEL", "-p", "a", "--presence-penalty", "inf"],
    ["run", "MODEL", "-p", "a", "--seed", "-1"],
    ["run", "MODEL", "-p", "a", "--logit-bias", "5"],
    ["run", "MODEL", "-p", "a", "--logit-bias", "5+nan"],
    ["run", "MODEL", "-p", "a", "--logit-bias", "-5+1"],
    ["run", "MODEL", "-p", "a", "--stop", ""],
    ["run", "MODEL", "-p", "a", "--logprobs", "3"],
    ["run", "MODEL", "-p", "a", "--json", "--logprobs", "-1"],
    ["run", "MODEL", "-p", "a", "--page-size", "17"],
    ["run", "MODEL", "-p", "a", "--kv-type", "int8"],
    ["run", "MODEL", "-p", "a", "--kv-memory", "lots"],
    ["run", "MODEL", "-p", "a", "--kv-memory", "0"],
    ["run", "MODEL", "-p", "a", "--threads", "0"],
    ["run", "MODEL", "-p", "a", "--ctx", "0"],
    ["run", "MODEL", "-p", "a", "--prefill-chunk", "0"],
    ["eval", "MODEL"],
    ["eval", "MODEL", "--text", "x", "--ctx", "8"],
    ["eval", "MODEL", "--text", "x", "--stride", "1000"],
    ["eval", "MODEL", "--text", "x", "--reference", "--kl-reference"],
    ["bench"],
    ["bench", "MODEL", "--roofline"],
    ["bench", "--roofline", "--repeat", "2"],
    ["bench", "MODEL", "--prompt", "none", "--depth", "none"],
    ["bench", "MODEL", "--prompt", "0"],
    ["bench", "MODEL", "--prompt", "1,,2"],
    ["bench", "MODEL", "--prompt", ""],
    ["bench", "MODEL", "--depth", "-1"],
    ["bench", "MODEL", "--depth", "0,0"],
    ["bench", "MODEL", "--batch", "0"],
    ["bench", "MODEL", "--batch", "none"],
    ["bench", "MODEL", "--batch", "1025"],
    ["bench", "MODEL", "--generate", "0"],
    ["bench", "MODEL", "--repeat", "many"],
    ["bench", "MODEL", "--ctx", "512"],
    ["bench", "MODEL", "--threads", "0"],
    ["completions", "tcsh"],
    ["inspect"],
]


@pytest.mark.parametrize("args", WRONG, ids=" ".join)
def test_wrong_usage(quire, smollm2, args):
    text = quire.error(*[smollm2 if a == "MODEL" else a for a in args], expect=2)
    assert len(text.splitlines()) <= 2


def test_a_bias_for_a_token_that_does_not_exist_is_wrong_usage(quire, smollm2):
    assert "999999" in quire.error("run", smollm2, "-p", "a", "--logit-bias", "999999+1", expect=2)
    assert "1000" in quire.error("run", smollm2, "-p", "a", "--logit-bias", "5+1e30", expect=2)


def test_of_an_option_given_twice_the_last_counts(quire, smollm2):
    text = quire.error("run", smollm2, "-p", "word " * 100, "--ctx", "32", "--ctx", "64", expect=1)
    assert "64" in text


def test_without_arguments_the_help_is_shown(quire):
    assert "Usage: quire" in quire(expect=2).stderr.decode()


@pytest.mark.parametrize("command", ["run", "inspect", "tokenize", "detokenize", "eval",
                                     "bench", "completions"])
def test_help_has_examples(quire, command):
    text = quire(command, "--help").stdout.decode()
    assert "Examples:" in text and f"quire {command}" in text
    assert command in quire("--help").stdout.decode()


def test_version(quire):
    words = quire("--version").stdout.decode().split()
    assert words[0] == "quire" and words[1].count(".") == 2


@pytest.mark.parametrize("command", [["run", "-p", "a"], ["inspect"], ["tokenize"], ["detokenize"],
                                     ["eval", "--text", "TEXT"], ["bench"]], ids=lambda c: c[0])
@pytest.mark.parametrize("content", [None, b"", b"GGUF", b"not a model" * 100, "folder"],
                         ids=["absent", "empty", "short", "other", "folder"])
def test_a_bad_model_is_one_sentence(quire, tmp_path, command, content):
    model = tmp_path / "model.gguf"
    (tmp_path / "text").write_text("text " * 5000)
    if content == "folder":
        model.mkdir()
    elif content is not None:
        model.write_bytes(content)
    args = [tmp_path / "text" if a == "TEXT" else a for a in command[1:]]
    text = quire.error(command[0], model, *args, expect=1)
    assert len(text.splitlines()) == 1
    assert "model.gguf" in text


def test_a_bad_prompt_file_is_one_sentence(quire, smollm2, tmp_path):
    assert "no-file" in quire.error("run", smollm2, "-f", tmp_path / "no-file", expect=1)
    assert quire.error("run", smollm2, "-f", tmp_path, expect=1)
    assert quire.error("run", smollm2, "-f", "", expect=1)
    (tmp_path / "empty").write_text("\n")
    assert "empty" in quire.error("run", smollm2, "-f", tmp_path / "empty", expect=1)
    assert "no-text" in quire.error("eval", smollm2, "--text", tmp_path / "no-text", expect=1)


def test_an_unknown_instruction_set_is_one_sentence(quire, smollm2, monkeypatch):
    monkeypatch.setenv("QUIRE_ISA", "avx1024")
    text = quire.error("run", smollm2, "-p", "a", expect=1)
    assert len(text.splitlines()) == 1 and "QUIRE_ISA" in text and "avx1024" in text and "scalar" in text


def test_threads_that_the_system_refuses_are_one_sentence(binary, smollm2):
    # 511 stacks of 8 MiB do not fit into 2 GiB of address space.
    limited = 'ulimit -s 8192 && ulimit -v 2097152 && exec "$@"'
    done = subprocess.run(["bash", "-c", limited, "bash", binary, "run", smollm2, "-p", "a",
                           "--ctx", "64", "--threads", "512"], capture_output=True)
    assert done.returncode == 1 and done.stdout == b""
    text = done.stderr.decode()
    assert text.startswith("quire: ") and len(text.splitlines()) == 1 and "512 threads" in text


def test_a_prompt_that_does_not_fit_names_both_numbers(quire, smollm2):
    text = quire.error("run", smollm2, "-p", "word " * 100, "--raw", "--ctx", "64", expect=1)
    assert "64" in text and re.search(r"\b10[0-9]\b", text)


def test_too_little_memory_names_both_numbers(quire, smollm2):
    text = quire.error("run", smollm2, "-p", "word " * 200, "--kv-memory", "1MiB", expect=1)
    assert len(text.splitlines()) == 1
    assert len(re.findall(r"\d+", text)) >= 2


def test_a_message_that_is_not_utf8_is_refused_but_raw_sends_it(quire, smollm2, tmp_path):
    (tmp_path / "bytes").write_bytes(b"caf\xe9 and more")
    text = quire.error("run", smollm2, "-f", tmp_path / "bytes", expect=1)
    assert "byte 3" in text
    quire("run", smollm2, "-f", tmp_path / "bytes", "--raw", "-n", "1", "--ctx", "64")


def test_a_model_without_a_template_cannot_chat(quire, gemma3):
    assert "template" in quire.error("run", gemma3, "--chat", "--ctx", "64", expect=1)
    assert "template" in quire.error("run", gemma3, "-p", "a", "--system", "s", "--ctx", "64",
                                     expect=1)


def test_a_context_beyond_the_trained_one_is_a_warning(quire, smollm2):
    done = quire("run", smollm2, "-p", "a", "-n", "1", "--ctx", "9000", "--kv-memory", "64MiB")
    assert "9000" in done.stderr.decode() and "8192" in done.stderr.decode()


@pytest.mark.parametrize("value", ["0x10", "2.5", "1e3", " 2", "nan", "9999999999999999999", ""])
def test_a_count_is_a_decimal_integer(quire, smollm2, value):
    assert "is not an integer" in quire.error("run", smollm2, "-p", "x", "-n", value, expect=2)


def test_leading_zeros_do_not_make_a_number_octal(quire, smollm2):
    out = quire.run_json("-p", "Hi", "-n", "010", "--ignore-eos")
    assert len(out["tokens"]) == 10


def test_an_unknown_command_is_named(quire):
    assert "no command 'frobnicate'" in quire.error("frobnicate", expect=2)


def test_a_message_is_one_line_whatever_it_quotes(quire, smollm2):
    error = quire.error("detokenize", smollm2, stdin=b"12 \x1b2J\x07\xff", expect=1)
    assert r"'\x1b2J\x07\xff' is not a token id" in error and error.count("\n") == 1
    error = quire.error("inspect", "no\nsuch\x1bfile", expect=1)
    assert r"no\x0asuch\x1bfile" in error and error.count("\n") == 1


def test_a_system_message_that_is_not_utf8_is_refused(quire, smollm2):
    error = quire.error("run", smollm2, "--system", b"\xff".decode(errors="surrogateescape"),
                        "-p", "Hi", expect=1)
    assert "not valid UTF-8" in error


def test_standard_input_has_a_name(quire, smollm2):
    assert "standard input is empty" in quire.error("run", smollm2, "-f", "-", stdin=b"\n", expect=1)


@pytest.mark.parametrize("args", [["--help"], ["run", "--help"], ["--version"]], ids=" ".join)
def test_help_that_cannot_be_written_is_a_failure(binary, args):
    for redirect in (">/dev/full", ">&-"):
        done = subprocess.run(["bash", "-c", f'exec "$@" {redirect}', "bash", binary, *args],
                              capture_output=True)
        assert done.returncode == 1
        assert done.stderr.startswith(b"quire: cannot write to standard output: ")
    reader_gone = 'set -o pipefail; "$@" | true'
    assert subprocess.run(["bash", "-c", reader_gone, "bash", binary, *args]).returncode == 0


def test_a_text_without_an_end_is_refused(quire, smollm2):
    for args in (["eval", smollm2, "--text"], ["run", smollm2, "-f"]):
        assert "/dev/zero holds more than the 256.0 MiB allowed" in quire.error(
            *args, "/dev/zero", expect=1)
