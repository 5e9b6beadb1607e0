"""Completions are generated, so they must work in the shell, not just look right."""

import shutil
import subprocess

import pytest


def complete_in_bash(script, line):
    """What bash offers for the last word of the line."""
    words = line.split(" ")
    quoted = " ".join(f"'{word}'" for word in words)
    program = (f"{script}\nCOMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _quire; "
               'printf "%s\\n" "${COMPREPLY[@]}"')
    done = subprocess.run(["bash", "--norc", "-c", program], check=True, capture_output=True,
                          text=True)
    return sorted(done.stdout.split())


@pytest.fixture(scope="module")
def bash_script(quire):
    return quire("completions", "bash").stdout.decode()


@pytest.mark.parametrize("line, offered", [
    ("quire t", ["tokenize"]),
    ("quire ", ["bench", "completions", "detokenize", "eval", "inspect", "run", "serve", "tokenize"]),
    ("quire run m.gguf --kv-type ", ["bf16", "f16", "f32"]),
    ("quire run m.gguf --page-size 1", ["128", "16"]),
    ("quire run --repeat", ["--repeat-penalty"]),
    ("quire eval --kl", ["--kl-reference"]),
    ("quire bench --ro", ["--roofline"]),
    ("quire run m.gguf --temp ", []),
    ("quire completions ", ["bash", "fish", "zsh"]),
])
def test_bash(bash_script, line, offered):
    assert complete_in_bash(bash_script, line) == offered


def test_bash_offers_files(bash_script, tmp_path, monkeypatch):
    (tmp_path / "model.gguf").touch()
    monkeypatch.chdir(tmp_path)
    assert complete_in_bash(bash_script, "quire run mod") == ["model.gguf"]
    assert complete_in_bash(bash_script, "quire run -f mod") == ["model.gguf"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_every_option_of_the_help(quire, shell):
    script = quire("completions", shell).stdout.decode()
    for command in ["run", "eval", "bench", "tokenize"]:
        text = quire(command, "--help").stdout.decode()
        for word in text.split():
            name = word.split(",")[-1]
            if word.startswith("-") and name.startswith("--") and name[2:].isalpha():
                assert name[2:] in script, name
    if binary := shutil.which(shell):  # not everybody has them
        subprocess.run([binary, "-n"], input=script, text=True, check=True)
