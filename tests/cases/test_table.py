"""The table of docs/public-failures.md names tests that exist, and every case in this folder."""

import fnmatch
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TABLE = (ROOT / "docs/public-failures.md").read_text()
CPP_TEST = re.compile(r"(?:TEST(?:_[FP])?|RC_GTEST_PROP)\((\w+),\s*(\w+)")


def test_every_test_that_the_table_names_exists():
    cpp = {f"{suite}.{name}" for folder in ("src", "tests") for file in ROOT.glob(f"{folder}/**/*_test.cc")
           for suite, name in CPP_TEST.findall(file.read_text())}
    python = {name for file in ROOT.glob("tests/**/test_*.py")
              for name in re.findall(r"def (test_\w+)", file.read_text())}
    missing, suite = [], ""
    for row in re.findall(r"^\| B\d.*$", TABLE, re.MULTILINE):
        for word in re.findall(r"`([^`]+)`", row.split("|")[3]):
            if word.startswith("."):  # another test of the suite named before
                word = suite + word
            suite = word.partition(".")[0]
            known = python if word.startswith("test_") else cpp
            if not fnmatch.filter(known, word):
                missing.append(word)
    assert missing == []


def test_the_table_has_every_case_that_is_tested_here():
    named = {f"B{number}" for file in Path(__file__).parent.glob("test_*.py")
             for name in re.findall(r"def test_(b\w+)", file.read_text())
             for number in re.findall(r"b(\d+[a-z]?)_", name)}
    rows = {case for row in re.findall(r"^\| (B[^|]*)\|", TABLE, re.MULTILINE)
            for case in re.findall(r"B\d+[a-z]?", row)}
    assert named and named <= rows
