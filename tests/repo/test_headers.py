"""Every header compiles by itself, whatever was included before it."""

import os
import shlex
import subprocess
from concurrent.futures import ThreadPoolExecutor

from repository import INCLUDE, ROOT, name_of, with_suffix

COMPILER = shlex.split(os.environ.get("CXX", "g++"))
# The repository's own flags; warnings in headers are the business of the build.
FLAGS = ["-std=c++20", "-fsyntax-only", "-Isrc", "-I.", "-Irust/quire_bridge/include",
         '-DQUIRE_TEST_DATA=""', '-DQUIRE_MODELS=""', "-x", "c++"]


def compile_alone(header: str) -> str:
    """What the compiler says of a file that only includes `header`."""
    done = subprocess.run([*COMPILER, *FLAGS, "-"], input=f'#include "{header}"\n', cwd=ROOT,
                          capture_output=True, text=True)
    return done.stderr if done.returncode else ""


def test_headers_compile_alone():
    """A header whose source includes it first is proved by `make lint`, which compiles each source for
    itself; the rest are compiled here.

    Files named *_inl.h are no headers but parts of the kernel sources, one copy per tier.
    """
    alone = []
    for file in with_suffix(".h"):
        if not name_of(file).startswith("src/") or file.name.endswith("_inl.h"):
            continue
        include = str(file.relative_to(ROOT / "src"))
        source = file.with_suffix(".cc")
        if not source.is_file() or INCLUDE.findall(source.read_text())[:1] != [include]:
            alone.append(include)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        said = dict(zip(alone, pool.map(compile_alone, alone)))
    assert {header: text for header, text in said.items() if text} == {}


def test_a_broken_header_is_found(tmp_path):
    broken = tmp_path / "broken.h"
    broken.write_text("#pragma once\ninline std::string name() { return {}; }\n")
    assert "std" in compile_alone(str(broken))


def test_headers_have_an_include_guard():
    assert [name_of(f) for f in with_suffix(".h") if "#pragma once" not in f.read_text()
            and "#ifndef" not in f.read_text()] == []
