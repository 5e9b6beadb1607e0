"""Options of `quire serve`: the command line counts most, then the environment, then the file."""

import tomllib
from pathlib import Path

import pytest

TINY = Path(__file__).resolve().parents[2] / "tests/data/tiny/llama_q8_0.gguf"


def settings(quire, *args):
    """What --print-config says is set; the rest of it is comments."""
    return tomllib.loads(quire("serve", TINY, *args, "--print-config").stdout.decode())


def config(tmp_path, text):
    file = tmp_path / "serve.toml"
    file.write_text(text)
    return file


def test_sources_count_in_order(quire, tmp_path, monkeypatch):
    file = config(tmp_path, 'port = 1\nmax-running = 2\nmax-waiting = 3\nmodel-name = ["a", "b c"]\n'
                            'host = "::1"\nno-prefix-cache = true\nno-chunked-prefill = false\n')
    monkeypatch.setenv("QUIRE_MAX_RUNNING", "20")
    monkeypatch.setenv("QUIRE_PORT", "30")
    assert settings(quire, "--config", file, "--port", "400") == {
        "port": 400, "max-running": 20, "max-waiting": 3, "model-name": ["a", "b c"],
        "host": "::1", "no-prefix-cache": True}


def test_no_other_command_reads_the_environment(quire, monkeypatch):
    """Kubernetes sets QUIRE_PORT so for a service that is called quire."""
    monkeypatch.setenv("QUIRE_PORT", "tcp://10.0.0.1:8080")
    monkeypatch.setenv("QUIRE_SCHEDULER", "slurm")
    assert quire("--help").returncode == 0
    assert quire("inspect", TINY).returncode == 0
    assert "--port" in quire.error("serve", TINY, "--scheduler", "static", "--print-config", expect=2)


def test_what_is_printed_can_be_read(quire, tmp_path):
    given = settings(quire, "--port", "0", "--scheduler", "static", "--model-name", "it's")
    text = quire("serve", TINY, "--port", "0", "--scheduler", "static", "--model-name", "it's",
                 "--print-config").stdout.decode()
    assert settings(quire, "--config", config(tmp_path, text)) == given
    assert given["model-name"] == ["it's"]


@pytest.mark.parametrize("text, named", [
    ("nonsense = 1", "nonsense"), ("port = 99999", "port"), ("[serve]\nport = 1", "[serve]"),
    ("no-prefix-cache = 7", "no-prefix-cache"), ("help = true", "help"), ("config = 'a'", "config"),
    ("scheduler = 'best'", "scheduler"), ("kv-type = 'f8'", "kv-type"), ("port = 'x'", "port"),
])
def test_a_bad_file_is_refused_by_name(quire, tmp_path, text, named):
    error = quire.error("serve", TINY, "--config", config(tmp_path, text), expect=2)
    assert "serve.toml" in error and named in error and len(error.splitlines()) == 1


def test_a_file_that_is_not_there(quire, tmp_path):
    assert "absent.toml" in quire.error("serve", TINY, "--config", tmp_path / "absent.toml",
                                        expect=2)


@pytest.mark.parametrize("args", [["--port", "65536"], ["--max-running", "0"], ["--host", ""],
                                  ["--kv-allocation", "none"], ["--drain-timeout", "-1"]])
def test_bad_values_are_wrong_usage_or_refused(quire, args):
    error = quire.error("serve", TINY, *args, expect=1 if args[0] == "--host" else 2)
    assert len(error.splitlines()) <= 2


def test_a_port_in_use_is_one_sentence(quire):
    import socket
    with socket.create_server(("127.0.0.1", 0)) as taken:
        error = quire.error("serve", TINY, "--port", taken.getsockname()[1], expect=1)
    assert "in use" in error and len(error.splitlines()) == 1


def test_keys_and_certificates_are_checked_at_the_start(quire, tmp_path):
    assert "absent" in quire.error("serve", TINY, "--api-key-file", tmp_path / "absent", expect=1)
    assert "absent" in quire.error("serve", TINY, "--port", "0", "--tls-cert", tmp_path / "absent",
                                   "--tls-key", tmp_path / "absent", expect=1)
