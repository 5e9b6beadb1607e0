"""The whole program with made-up builds of quire: no peer and no speed is needed."""

import json
import sys

import pytest
from sidebyside import cli
from sidebyside.engines import Task, checked, run_process
from sidebyside.result import faults
from sidebyside.works import WORKS

FAKE = '''#!{python}
import json, sys
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
else:
    option = lambda name: arguments[arguments.index(name) + 1]
    n = int(option("-n"))
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
                         "--rounds", 2, "--work", "smollm2-*")
    assert status == 0 and faults(result) == []
    assert [(s["round"], s["engine"]) for s in result["samples"] if s["work"] == "smollm2-decode"
            ] == [(0, "quire"), (0, "other"), (1, "other"), (1, "quire")]
    for entry in result["summary"]:
        assert entry["ratios"]["other"]["ratio"] == 1.5
    decode = next(e for e in result["summary"] if e["work"] == "smollm2-decode")
    assert decode["cells"]["quire"]["median"] == 75.0  # its decode figure, not its prefill's
    assert "1.50x other (1.50 to 1.50; 1.50)" in capsys.readouterr().out
    assert len(list((tmp_path / "out").glob("*-smollm2-depth.svg"))) == 1


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
    assert "failed: quire: error: made to fail" in capsys.readouterr().out


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
    task = Task(WORKS[0], "", None, [], 1)
    good = {"error": None, "prompt_tokens": 512, "tokens": [7], "tokens_per_s": 9.0}
    assert checked(task, good) is None
    assert checked(task, good | {"prompt_tokens": 511}) == "511 prompt tokens instead of 512"
    assert checked(task, good | {"tokens": [7, 8]}) == "2 tokens generated instead of 1"
    assert checked(task, good | {"tokens_per_s": 0.0}) == "it reported no speed"
    assert checked(task, {"error": "refused"}) == "refused"


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
