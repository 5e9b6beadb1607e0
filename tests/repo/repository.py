"""What the repository tests share: the files that git knows and a few ways to read them."""

import re
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# Lowest first: a layer includes only itself and those before it.
LAYERS = ("base", "kernels", "kv", "text", "model", "sample", "sched", "engine", "plan", "serve",
          "cli")
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


@cache
def tracked_files() -> tuple[Path, ...]:
    """Committed and new files, not what git ignores."""
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                            cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return tuple(sorted({ROOT / name for name in listed.split("\0")
                         if name and (ROOT / name).is_file()}))


def with_suffix(*suffixes: str) -> list[Path]:
    return [file for file in tracked_files() if file.suffix in suffixes]


def name_of(file: Path) -> str:
    return str(file.relative_to(ROOT))


@cache
def make_targets() -> frozenset[str]:
    """The targets that the Makefile itself declares as commands."""
    text = (ROOT / "Makefile").read_text()
    names = re.findall(r"^\.PHONY:(.*)$", text, re.MULTILINE)
    return frozenset(" ".join(names).split())
