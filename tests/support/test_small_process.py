"""A peak is the command's own, whatever the process that asks for it holds."""

import resource
import sys

import small_process

MIB = 1 << 10  # KiB


def python(source, **kwargs):
    return small_process.run([sys.executable, "-I", "-S", "-c", source], **kwargs)


def test_what_the_caller_holds_is_not_counted():
    held = b"x" * (300 << 20)
    assert 1 * MIB < small_process.run(["/bin/true"]).peak_kib < 50 * MIB
    del held


def test_what_the_command_holds_is_counted():
    assert 200 * MIB < python("b'x' * (200 << 20)").peak_kib < 300 * MIB


def test_input_output_and_exit_code_are_the_commands(tmp_path):
    (tmp_path / "in").write_bytes(b"given")
    with (tmp_path / "in").open() as file:
        done = python("import sys; sys.stderr.write('err'); sys.exit(print(input()) or 7)",
                      stdin=file)
    assert (done.returncode, done.stdout, done.stderr) == (7, b"given\n", b"err")
    assert python("import os; os.kill(os.getpid(), 9)").returncode == -9


def test_limits_are_the_commands():
    limits = {resource.RLIMIT_AS: 512 << 20}
    assert python("b'x' * (400 << 20)", limits=limits).returncode == 0
    assert b"MemoryError" in python("b'x' * (600 << 20)", limits=limits).stderr
