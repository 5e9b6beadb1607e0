"""What the figures were measured on."""

import os
import platform
import re
import subprocess
from pathlib import Path

# What decides which kernels an engine takes.
ISA_FLAGS = ("avx2", "f16c", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8",
             "asimddp", "i8mm", "sve")


def cpu_facts(cpuinfo: str) -> tuple[str, list[str]]:
    """The name and the instruction sets of the first CPU of /proc/cpuinfo."""
    def field(name: str) -> str:
        found = re.search(rf"^{name}\s*:\s*(.*)$", cpuinfo, re.MULTILINE)
        return found[1].strip() if found else ""
    flags = (field("flags") or field("Features")).split()
    return field("model name") or platform.machine(), [f for f in ISA_FLAGS if f in flags]


def describe_machine() -> dict:
    cpu, isa = cpu_facts(Path("/proc/cpuinfo").read_text())
    return {"cpu": cpu, "cpus": os.cpu_count(),
            "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            "kernel": platform.release(), "isa": isa, "load_average": list(os.getloadavg())}


def describe_commit(root: Path, quire: Path) -> dict:
    def output(*command) -> str:
        return subprocess.run(command, cwd=root, capture_output=True, text=True).stdout.strip()
    changed = output("git", "status", "--porcelain", "--untracked-files=no")
    return {"commit": output("git", "rev-parse", "HEAD"), "modified": bool(changed),
            "version": output(quire, "--version")}


def busy_seconds(stat: str, ticks_per_s: int) -> float:
    """CPU seconds that anyone spent since the machine started, from /proc/stat."""
    # user nice system idle iowait irq softirq steal; the guests' time is in user's already.
    times = [int(word) for word in stat.splitlines()[0].split()[1:9]]
    return (sum(times) - times[3] - times[4]) / ticks_per_s


def busy_now() -> float:
    return busy_seconds(Path("/proc/stat").read_text(), os.sysconf("SC_CLK_TCK"))


def file_name(date: str, machine: dict) -> str:
    """<date>-<machine> without anything that a file name should not have."""
    words = f"{machine['cpu']} {machine['cpus']} cpus".lower()
    return f"{date.replace(':', '')}-{re.sub('[^a-z0-9]+', '-', words).strip('-')}"
