"""quire bench: what it measures, prints and refuses. How fast it is, no test says."""

import json
import os
import pty
import signal
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TINY = ROOT / "tests/data/tiny/llama_q8_0.gguf"
SMALL = ["--prompt", "20", "--depth", "0,17", "--batch", "1,3", "--generate", "4", "--repeat", "2"]


def measure(quire, *args):
    return json.loads(quire("bench", TINY, *SMALL, "--json", *args).stdout)


def test_every_case_is_measured(quire):
    out = measure(quire, "--threads", "1", "--page-size", "32", "--kv-type", "bf16")
    assert out["settings"]["threads"] == 1 and out["settings"]["page_size"] == 32
    assert out["settings"]["kv_type"] == "bf16" and out["settings"]["repeat"] == 2
    assert out["model"]["file"] == str(TINY) and out["model"]["architecture"] == "llama"
    assert out["machine"]["cpu"] and out["machine"]["isa"]
    assert out["roofline"]["threads"] == 1
    cases = [(r["work"], r.get("prompt"), r.get("depth"), r.get("batch")) for r in out["results"]]
    assert cases == [("prefill", 20, None, None), ("decode", None, 0, 1), ("decode", None, 0, 3),
                     ("decode", None, 17, 1), ("decode", None, 17, 3)]
    for result in out["results"]:
        rate = result["tokens_per_s"]
        assert len(result["seconds"]) == len(rate["samples"]) == 2
        assert 0 < rate["min"] <= rate["median"] <= rate["max"]
        assert result["roofline"]["bound"] in ("memory", "compute")


def test_the_work_per_token_is_that_of_the_model(quire):
    out = measure(quire)
    # 2 layers of 2 KV heads of 16 elements in f16, K and V; 64 hidden, ffn 96, 270 tokens.
    assert out["model"]["kv_bytes_per_token"] == 2 * 2 * 2 * 16 * 2
    results = {(r["work"], r.get("depth"), r.get("batch")): r["per_token"] for r in out["results"]}
    # Only rows with logits need the last layer behind its K and V, and the LM head.
    k_and_v = 64 * 32 * 2
    behind = 64 * 64 * 2 + 3 * 64 * 96
    layers = 2 * k_and_v + behind
    assert results["prefill", None, None]["int8_macs"] == layers + (behind + 270 * 64) / 20
    assert results["decode", 17, 3]["int8_macs"] == layers + behind + 270 * 64
    # Each of 4 steps at depth 17 sees 18 to 21 tokens.
    assert results["decode", 17, 1]["kv_bytes"] == 19.5 * 256
    assert results["decode", 17, 3]["kv_bytes"] == 19.5 * 256
    assert results["decode", 17, 1]["weight_bytes"] == out["model"]["weight_bytes"]
    assert results["decode", 17, 3]["weight_bytes"] * 3 == out["model"]["weight_bytes"]
    assert all(r["f32_macs"] == 0 for r in results.values())


def test_the_table_is_markdown(quire):
    done = quire("bench", TINY, *SMALL)
    lines = done.stdout.decode().splitlines()
    table = [line for line in lines if line.startswith("|")]
    assert len(table) == 2 + 5
    assert len({len(line) for line in table}) == 1 and len({line.count("|") for line in table}) == 1
    assert table[2].split("|")[1].strip() == "prefill 20"
    assert table[-1].split("|")[1].strip() == "decode 4 at depth 17, batch 3"
    assert lines[0].startswith("- model: llama_q8_0.gguf, llama")
    assert done.stderr == b""  # no bar where nobody looks


def test_none_leaves_a_kind_of_work_out(quire):
    assert {r["work"] for r in measure(quire, "--prompt", "none")["results"]} == {"decode"}
    assert {r["work"] for r in measure(quire, "--depth", "none")["results"]} == {"prefill"}


def test_the_limits_alone_need_no_model(quire):
    out = json.loads(quire("bench", "--roofline", "--json", "--threads", "2").stdout)
    assert [r["threads"] for r in out["roofline"]] == [1, 2]
    for roofline in out["roofline"]:
        bf16 = roofline.pop("bf16_macs_per_s")  # null where the CPU has no such instruction
        assert bf16 is None or bf16 > 0
        assert all(value > 0 for value in roofline.values()) and len(roofline) == 5
    lines = quire("bench", "--roofline", "--threads", "1").stdout.decode().splitlines()
    assert len([line for line in lines if line.startswith("|")]) == 2 + 1


@pytest.mark.parametrize("args, words", [
    (["--kv-memory", "4KiB"], ["prefill 20 needs 8.0 KiB", "4.0 KiB", "--kv-memory"]),
    (["--depth", "9999999", "--batch", "1024"], ["depth 9999999, batch 1024", "available"]),
])
def test_kv_memory_that_does_not_suffice_is_refused_before_measuring(quire, args, words):
    text = quire.error("bench", TINY, *SMALL, *args, expect=1)
    assert len(text.splitlines()) == 1 and all(word in text for word in words), text


def test_a_dry_run_computes_nothing_but_limits(quire):
    out = measure(quire, "--dry-run")
    assert len(out["results"]) == 5 and out["roofline"]["int8_macs_per_s"] > 0
    whole = {(r["work"], r.get("depth"), r.get("batch")): r["per_token"]
             for r in measure(quire)["results"]}
    for result in out["results"]:
        assert "seconds" not in result and "tokens_per_s" not in result
        case = result["work"], result.get("depth"), result.get("batch")
        assert result["per_token"] == whole[case]
        assert set(result["roofline"]) == {"bound", "tokens_per_s"}
        assert result["roofline"]["tokens_per_s"] > 0
    text = quire("bench", TINY, *SMALL, "--dry-run").stdout.decode()
    header = next(line for line in text.splitlines() if line.startswith("|"))
    assert [cell.strip() for cell in header.strip("|").split("|")] == ["work", "limit", "bound by"]


def test_limits_can_be_left_out(quire):
    out = measure(quire, "--no-limits", "--greedy")
    assert out["roofline"] is None and out["settings"]["greedy"] is True
    assert all("roofline" not in r and r["tokens_per_s"]["median"] > 0 for r in out["results"])
    assert "limit" not in quire("bench", TINY, *SMALL, "--no-limits").stdout.decode()
    assert "--dry-run" in quire.error("bench", TINY, "--no-limits", "--dry-run", expect=2)
    assert "--greedy" in quire.error("bench", "--roofline", "--greedy", expect=2)


def test_limits_and_a_model_exclude_each_other(quire):
    assert "MODEL" in quire.error("bench", TINY, "--roofline", expect=2)
    assert "--depth" in quire.error("bench", "--roofline", "--depth", "0", expect=2)


def test_an_unknown_instruction_set_is_one_sentence(quire, monkeypatch):
    monkeypatch.setenv("QUIRE_ISA", "avx1024")
    assert "QUIRE_ISA: instruction set \"avx1024\"" in quire.error("bench", "--roofline", expect=1)
    assert "QUIRE_ISA: instruction set \"avx1024\"" in quire.error("bench", TINY, expect=1)


def test_the_instruction_set_in_use_is_named(quire, monkeypatch):
    monkeypatch.setenv("QUIRE_ISA", "scalar")
    assert measure(quire)["machine"]["isa"] == "scalar"


class Terminal:
    """The binary with a terminal as standard error, to see its bar."""

    def __init__(self, *command):
        self.screen, terminal = pty.openpty()
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=terminal)
        os.close(terminal)
        self.seen = b""

    def wait_for(self, text):
        while text not in self.seen:
            self.seen += os.read(self.screen, 4096)  # fails when the program ended without it

    def interrupt(self):
        """What it then writes to standard output."""
        self.process.send_signal(signal.SIGINT)
        out, _ = self.process.communicate(timeout=60)
        os.close(self.screen)
        return out


def test_ctrl_c_prints_what_was_measured(binary):
    terminal = Terminal(binary, "bench", TINY, "--prompt", "16", "--depth", "0", "--batch", "1",
                        "--generate", "200000", "--json")
    terminal.wait_for(b"limits [")
    terminal.wait_for(b"decode 200000 at depth 0")
    out = terminal.interrupt()
    assert terminal.process.returncode == 130
    assert [r["work"] for r in json.loads(out)["results"]] == ["prefill"]


def test_ctrl_c_ends_the_limits(binary):
    terminal = Terminal(binary, "bench", "--roofline", "--threads", "2", "--json")
    terminal.wait_for(b"measuring [")
    out = terminal.interrupt()
    assert terminal.process.returncode == 130
    assert out == b"" or len(json.loads(out)["roofline"]) == 1
