"""Runs a command and tells the most memory it had.

A process counts the memory of the one it was started from into its own peak, so neither a test nor
pytest may start what is measured: a Python of its own does, which has only a few megabytes.
"""

import os
import resource
import subprocess
import sys
import tempfile
from typing import NamedTuple

# Python ignores two signals, and would pass that on.
_LAUNCHER = """import os, signal, sys
pid = os.posix_spawn(sys.argv[2], sys.argv[2:], os.environ,
                     setsigdef=[signal.SIGPIPE, signal.SIGXFSZ])
_, status, usage = os.wait4(pid, 0)
with open(sys.argv[1], "w") as out:
    print(os.waitstatus_to_exitcode(status), usage.ru_maxrss, file=out)
"""


class Measured(NamedTuple):
    returncode: int  # as of subprocess: minus the signal
    stdout: bytes
    stderr: bytes
    peak_kib: int  # resident, as Linux counts; at least the launcher's few megabytes


def run(command, stdin=subprocess.DEVNULL, limits=None):
    """`command[0]` is a path, `limits` maps resource.RLIMIT_... to what the command may have."""
    def limit():
        for kind, most in (limits or {}).items():
            resource.setrlimit(kind, (most, most))

    with tempfile.NamedTemporaryFile("r") as report:
        done = subprocess.run([sys.executable, "-I", "-S", "-c", _LAUNCHER, report.name,
                               *map(os.fspath, command)], stdin=stdin, capture_output=True,
                              preexec_fn=limit)
        assert done.returncode == 0, done.stderr.decode()
        returncode, peak = map(int, report.read().split())
    return Measured(returncode, done.stdout, done.stderr, peak)
