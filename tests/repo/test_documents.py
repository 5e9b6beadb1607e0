"""Documents tell the truth about the repository: commands exist, links lead somewhere."""

import re
import shlex
import subprocess

import pytest
from repository import ROOT, make_targets, name_of, tracked_files, with_suffix

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+\s+(.*)$", re.MULTILINE)
SHELL_BLOCK = re.compile(r"```(?:sh|console)\n(.*?)```", re.DOTALL)
INLINE_CODE = re.compile(r"`([^`\n]+)`")


def commands_of(text: str) -> list[str]:
    """Everything that a document shows as code, line by line."""
    lines = [line for block in SHELL_BLOCK.findall(text) for line in block.splitlines()]
    return [line.removeprefix("$ ").strip() for line in lines + INLINE_CODE.findall(text)]


def anchors_of(text: str) -> set[str]:
    """The anchors that a Markdown renderer gives the headings."""
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
            for heading in HEADING.findall(text)}


@pytest.mark.parametrize("file", with_suffix(".md"), ids=name_of)
def test_make_targets_in_documents_exist(file):
    unknown = []
    for command in commands_of(file.read_text()):
        if command.startswith("make "):
            words = shlex.split(command, comments=True)[1:]
            unknown += [w for w in words if re.fullmatch(r"[a-z][a-z-]*", w)
                        and w not in make_targets()]
    assert unknown == []


@pytest.mark.parametrize("file", with_suffix(".md"), ids=name_of)
def test_links_in_documents_resolve(file):
    broken = []
    for link in LINK.findall(file.read_text()):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (file.parent / path).resolve() if path else file
        if not target.exists():
            broken.append(link)
        elif anchor and anchor not in anchors_of(target.read_text()):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("file", with_suffix(".md"), ids=name_of)
def test_tools_in_documents_exist(file):
    named = {word for command in commands_of(file.read_text())
             for word in re.findall(r"(?:^|\s)((?:tools|tests|docs|src|bench|cmake)/[\w./-]+\w)", command)}
    # A program is named as it is built, without the .cc of its source.
    assert sorted(name for name in named
                  if not (ROOT / name).exists() and not (ROOT / f"{name}.cc").exists()) == []


def test_readme_gives_the_two_commands():
    commands = commands_of((ROOT / "README.md").read_text())
    assert any(c.startswith("make run") for c in commands)
    assert "make test" in commands


def test_help_lists_every_target():
    shown = subprocess.run(["make", "help"], cwd=ROOT, check=True, capture_output=True, text=True)
    listed = {line.split()[0] for line in shown.stdout.splitlines() if line.startswith("  ")}
    assert listed == make_targets()


def test_changelog_has_the_current_version():
    version = re.search(r"project\(quire VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
    headings = HEADING.findall((ROOT / "CHANGELOG.md").read_text())
    assert any(h.startswith("[Unreleased]") or h.startswith(f"[{version}]") for h in headings)


def test_license_is_apache_2():
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License" in text and "Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text


def test_nothing_names_a_path_of_one_machine():
    # Put together from parts, so that this file does not find itself.
    folders = [f"/{name}/" for name in ("root", "work", "home")]
    allowed_suffixes = {".gguf", ".bin", ".npz", ".png", ".gz"}
    found = []
    for file in tracked_files():
        if file.suffix in allowed_suffixes or name_of(file).startswith("tests/data/"):
            continue
        text = file.read_text(errors="replace")
        found += [f"{name_of(file)}: {folder}" for folder in folders
                  if re.search(rf"(?<![\w.~-]){folder}", text)]
    assert found == []
