"""The whole program with made-up builds of quire: no peer and no speed is needed."""

import json
import sys
from dataclasses import replace

import pytest
from sidebyside import cli
from sidebyside.engines import Peer, Reply, Task, checked, make_engine, measure
from sidebyside.process import run_process
from sidebyside.result import faults
from sidebyside.works import WORKS, Job, Work

FAKE = '''#!{python}
import json, os, sys
arguments = sys.argv[1:]
command = arguments.pop(0)
if command == "--version":
    print("quire 9.9")
elif command == "tokenize":  # a token is a word, its id the word's length
    print(json.dumps([len(word) for word in sys.stdin.read().split()]))
elif command == "detokenize":
    sys.stdout.write("".join("x" * n + " " for n in json.load(sys.stdin)))
elif {fails}:
    sys.exit("quire: error: made to fail")
option = lambda name: arguments[arguments.index(name) + 1]
if command == "bench":
    dry = "--dry-run" in arguments
    tokens = dict(bytes=10, int8_macs=20, f32_macs=0)
    decode = dict(work="decode", depth=int(option("--depth")), batch=int(option("--batch")),
                  generate=int(option("--generate")), per_token=tokens,
                  roofline=dict(bound="memory", tokens_per_s={speed}))
    if not dry:
        assert "--greedy" in arguments and "--no-limits" in arguments
        decode["tokens_per_s"] = dict(median=decode["batch"] * {speed} / 2)
    prefill = dict(work="prefill", per_token=tokens,
                   roofline=dict(bound="compute", tokens_per_s=2 * {speed}))
    peaks = dict(memory_bytes_per_s=1, cache_bytes_per_s=2, int8_macs_per_s=3, f32_macs_per_s=4)
    print(json.dumps(dict(model=dict(weight_bytes=1000, kv_bytes_per_token=10, load_s=0.5),
                          roofline=peaks if dry else None,
                          results=[prefill, decode] if dry else [decode])))
elif command == "run":
    n = int(option("-n"))
    kv, isa = option("--kv-type"), os.environ.get("QUIRE_ISA", "")
    assert (kv, isa) in [("f16", ""), ("bf16", ""), ("f16", "avx2")]
    print(json.dumps({{
        "error": None, "prompt_tokens": len(open(option("-f")).read().split()),
        "tokens": list(range(n)), "timings": {{"load_s": 0.25, "prefill_tokens_per_s": {speed},
                                             "decode_tokens_per_s": {speed} / 2}}}}))
'''


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """Makes a build of quire; the text to cut prompts from is made up, too."""
    text = tmp_path / "text.txt"
    text.write_text("some words or others\n" * 3000)
    monkeypatch.setattr(cli, "TEXT", text)

    def make(name: str, speed: float = 100.0, fails: bool = False):
        file = tmp_path / name
        file.write_text(FAKE.format(python=sys.executable, speed=speed, fails=fails))
        file.chmod(0o755)
        return file
    return make


def run(tmp_path, *options) -> tuple[int, dict | None]:
    folder = tmp_path / "out"
    status = cli.main([*map(str, options), "--output", str(folder)])
    files = list(folder.glob("*.json"))
    return status, json.loads(files[0].read_text()) if files else None


def test_two_builds_are_compared(fake, tmp_path, capsys):
    status, result = run(tmp_path, "--quire", fake("new", 150.0), "--compare", fake("old", 100.0),
                         "--rounds", 2, "--work", "smollm2-decode", "--work", "*-512", "--work",
                         "*-4096")
    assert status == 0 and faults(result) == []
    assert [(s["round"], s["engine"]) for s in result["samples"] if s["work"] == "smollm2-decode"
            ] == [(0, "quire"), (0, "other"), (1, "other"), (1, "quire")]
    for entry in result["summary"]:
        assert entry["ratios"]["quire"]["other"]["ratio"] == 1.5
    decode = next(e for e in result["summary"] if e["work"] == "smollm2-decode")
    assert decode["cells"]["quire"]["median"] == 75.0  # its decode figure, not its prefill's
    assert "1.50x other (1.50 to 1.50; 1.50)" in capsys.readouterr().out


def test_a_prompt_is_computed_once_for_all_that_is_measured_of_it(fake, tmp_path):
    status, result = run(tmp_path, "--quire", fake("new"), "--engines", "quire", "--rounds", 1,
                         "--work", "smollm2-*-4096")
    assert status == 0
    prefill, decode = result["samples"]
    assert (prefill["work"], decode["work"]) == ("smollm2-prefill-4096", "smollm2-decode-4096")
    assert (prefill["tokens_per_s"], decode["tokens_per_s"]) == (100.0, 50.0)
    assert prefill["wall_s"] == decode["wall_s"]  # one process
    assert result["works"][0]["context"] == result["works"][1]["context"] == 4352


def test_several_sequences_are_measured_by_quire_bench(fake, tmp_path):
    status, result = run(tmp_path, "--quire", fake("new"), "--engines", "quire,quire-bf16",
                         "--rounds", 1, "--work", "smollm2-batch-16")
    assert status == 0 and faults(result) == []
    assert [s["tokens_per_s"] for s in result["samples"]] == [800.0, 800.0]
    assert result["works"][0]["batch"] == 16


def test_every_variant_is_an_engine_and_its_settings_are_kept(fake, tmp_path):
    status, result = run(tmp_path, "--quire", fake("new"), "--rounds", 1, "--engines",
                         "quire,quire-bf16,quire-avx2", "--work", "smollm2-decode")
    assert status == 0
    assert result["settings"]["engines"] == {
        "quire": {"kv_type": "f16", "isa": None}, "quire-bf16": {"kv_type": "bf16", "isa": None},
        "quire-avx2": {"kv_type": "f16", "isa": "avx2"}}
    assert [s["error"] for s in result["samples"]] == [None] * 3


def test_limits_are_measured_in_every_round(fake, tmp_path):
    status, result = run(tmp_path, "--quire", fake("new"), "--engines", "quire", "--rounds", 2,
                         "--work", "smollm2-*-4096")
    assert status == 0
    assert [(x["round"], x["work"], x["bound"], x["tokens_per_s"]) for x in result["limits"]] == [
        (turn, work, bound, speed) for turn in (0, 1) for work, bound, speed in (
            ("smollm2-prefill-4096", "compute", 200.0), ("smollm2-decode-4096", "memory", 100.0))]
    cell = result["summary"][1]["cells"]["quire"]
    assert cell["of_limit"] == 0.5
    needs = result["works"][1]["needs"]
    assert (needs["weight_bytes"], needs["kv_bytes"]) == (1000, 10 * (4096 + 32))
    assert cell["peak_of_needed"] == cell["peak_rss_bytes"] / (1000 + 10 * (4096 + 32))


def test_json_goes_to_standard_output(fake, tmp_path, capsys):
    status, result = run(tmp_path, "--quire", fake("new"), "--engines", "quire", "--json",
                         "--rounds", 1, "--work", "gemma3-decode", "--threads", 3)
    assert status == 0
    assert json.loads(capsys.readouterr().out) == result
    assert result["settings"]["threads"] == 3 and result["quire"]["version"] == "quire 9.9"


def test_a_failure_is_shown_once_and_ends_in_failure(fake, tmp_path, capsys):
    status, result = run(tmp_path, "--quire", fake("new", fails=True), "--engines", "quire",
                         "--rounds", 3, "--work", "smollm2-decode")
    assert status == 1 and faults(result) == []
    assert len(result["samples"]) == 1  # it is not tried again
    assert result["limits"] == [] and result["works"][0]["needs"] is None
    said = capsys.readouterr()
    assert "failed: quire: error: made to fail" in said.out
    assert said.err.count("no limits of the machine") == 1


def test_an_interruption_keeps_what_was_measured(fake, tmp_path, capsys, monkeypatch):
    real, calls = cli.measure, []

    def measure(*arguments):
        calls.append(arguments)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(*arguments)
    monkeypatch.setattr(cli, "measure", measure)
    status, result = run(tmp_path, "--quire", fake("new"), "--engines", "quire", "--rounds", 9,
                         "--work", "smollm2-decode")
    assert status == 130 and len(result["samples"]) == 2 and faults(result) == []
    assert "interrupted" in capsys.readouterr().err


@pytest.mark.parametrize("options, says", [
    (["--engines", "quire,vllm"], "no engine 'vllm'"),
    (["--engines", "quire-f64"], "no variant 'quire-f64'"),
    (["--engines", "openvino-avx2"], "no variant 'openvino-avx2'"),
    (["--engines", "other"], "--compare names"),
    (["--work", "nothing"], "no work is named 'nothing'"),
    (["--engines", "quire", "--quire", "no/such/file"], "no/such/file is no program"),
])
def test_what_is_wrong_is_said(options, says, tmp_path, capsys):
    status, result = run(tmp_path, *options)
    assert status == 1 and result is None
    assert says in capsys.readouterr().err


def test_a_missing_model_is_said(fake, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(cli.MODELS, "smollm2", "models/none.gguf")
    status, _ = run(tmp_path, "--quire", fake("new"), "--engines", "quire")
    assert status == 1
    assert "models/none.gguf is missing; `make models` fetches it" in capsys.readouterr().err


def test_list_shows_every_work(capsys):
    assert cli.main(["--list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [
        work.name for work in WORKS]


def test_counts_that_differ_are_no_figures():
    job = Job((Work("x", "smollm2", 512, 3),))
    good = Reply(None, prompt_tokens=512, decode_steps=3)
    assert checked(job, good) is None
    assert checked(job, replace(good, prompt_tokens=511)) == "511 prompt tokens instead of 512"
    assert checked(job, replace(good, decode_steps=2)) == "2 steps done instead of 3"
    assert checked(job, Reply("refused")) == "refused"


PEER = """import json, sys
r = json.load(sys.stdin)
assert (r["kv_type"], r["threads"], r["context"]) == ("bf16", 3, 256)
n = r["decode_steps"] + 1
print(json.dumps({"load_s": 1.0, "prompt_tokens": len(r["prompts"][0]), "prefill_s": 2.0,
                  "decode_s": 4.0,
                  "tokens": [[7] * (n - {less} * (p == [3, 4])) for p in r["prompts"]]}))
"""


@pytest.mark.parametrize("less, speed, error", [
    (0, 2 * 8 / 4.0, None), (1, None, "sequences with [8, 9] tokens, 2 of 2")])
def test_a_peer_computes_all_sequences_together(less, speed, error, tmp_path, monkeypatch):
    engine = make_engine("openvino-bf16", {}, [])
    assert isinstance(engine, Peer)
    engine.python, engine.driver = sys.executable, tmp_path / "driver.py"
    engine.driver.write_text(PEER.replace("{less}", str(less)))
    task = Task(Job((Work("x", "smollm2", 2, 8, 2),)), tmp_path, [[1, 2], [3, 4]], 3)
    sample, = measure(engine, "openvino-bf16", task, 5)
    assert (sample["tokens_per_s"], sample["error"]) == (speed, error)
    assert (sample["engine"], sample["round"]) == ("openvino-bf16", 5)


def test_a_process_is_accounted_for():
    done = run_process([sys.executable, "-c", "import sys; x = bytearray(sys.stdin.read(), 'ascii')"
                        " * (50 << 20); print('out'); sys.exit('err')"], stdin="a")
    assert (done.status, done.output, done.errors) == (1, "out\n", "err\n")
    assert 50 << 20 < done.peak_rss_bytes < 1 << 30
    assert 0 < done.cpu_s and 0 < done.wall_s and 0 <= done.others_cpu <= 1


@pytest.mark.parametrize("body, reply", [
    ("print('chatter'); return {'load_s': r['x'] + 1}", {"load_s": 3}),
    ("raise RuntimeError('first\\n  last\\n\\n')", {"error": "RuntimeError: last"}),
])
def test_a_driver_answers_with_one_line(body, reply, tmp_path):
    driver = tmp_path / "driver.py"
    driver.write_text(f"import sys\nsys.path.insert(0, {str(cli.ROOT / 'bench/peers')!r})\n"
                      f"from protocol import serve\ndef work(r):\n    {body}\nserve(work)\n")
    done = run_process([sys.executable, driver], json.dumps({"x": 2}))
    assert json.loads(done.output) == reply and done.output.count("\n") == 1
    assert "chatter" not in done.output
