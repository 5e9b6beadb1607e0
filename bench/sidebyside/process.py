"""Runs a process and says what it cost."""

import os
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from .machine import busy_now

ROOT = Path(__file__).resolve().parents[2]
TIME_LIMIT_S = 1800


@dataclass(frozen=True)
class Finished:
    """What a process left: its output, and what it cost."""
    status: int
    output: str
    errors: str
    wall_s: float
    cpu_s: float
    peak_rss_bytes: int
    others_cpu: float | None

    def refusal(self) -> str:
        """Why it failed, in its own words."""
        lines = [line.strip() for line in self.errors.splitlines() if line.strip()]
        return lines[-1] if lines else f"exit status {self.status}"


def run_process(command: list, stdin: str = "", env: dict | None = None) -> Finished:
    with tempfile.TemporaryFile("w+") as given, tempfile.TemporaryFile("w+") as out, \
            tempfile.TemporaryFile("w+") as err:
        given.write(stdin)
        given.seek(0)
        busy, started = busy_now(), time.monotonic()
        child = subprocess.Popen(command, stdin=given, stdout=out, stderr=err, cwd=ROOT,
                                 env={**os.environ, **(env or {})})
        guard = threading.Timer(TIME_LIMIT_S, child.kill)
        guard.start()
        try:
            # Not wait(): only wait4 tells what this child used. A child's peak starts at what
            # its parent has, which is less than any engine needs.
            _, status, usage = os.wait4(child.pid, 0)
        except BaseException:
            child.kill()
            child.wait()
            raise
        finally:
            guard.cancel()
        child.returncode = os.waitstatus_to_exitcode(status)
        wall = time.monotonic() - started
        cpu = usage.ru_utime + usage.ru_stime
        others = max(0.0, busy_now() - busy - cpu) / (wall * (os.cpu_count() or 1))
        out.seek(0)
        err.seek(0)
        return Finished(child.returncode, out.read(), err.read(), wall, cpu,
                        usage.ru_maxrss * 1024, min(1.0, others))
