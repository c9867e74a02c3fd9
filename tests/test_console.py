"""Standard output that is closed early or cannot be written, and progress bars."""

import errno
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

import jbpool
from jbpool import cli
from jbpool.console import Bar, exit_on_broken_pipe

ROOT = Path(jbpool.__file__).parent.parent

both = pytest.mark.parametrize("command", [cli.cluster, cli.classify], ids=["cluster", "classify"])


@pytest.fixture
def output(monkeypatch):
    """A function that makes a file descriptor the standard output of this process."""

    def use(descriptor):
        monkeypatch.setattr(sys, "stdout", stack.enter_context(os.fdopen(descriptor, "w")))

    with ExitStack() as stack:
        yield use


@both
def test_a_reader_that_stops_reading(command, output, capsys):
    read, write = os.pipe()
    os.close(read)
    output(write)
    assert command(["--list"]) == 141
    assert capsys.readouterr().err == ""


def test_a_process_whose_reader_stops_reading():
    """Nothing is printed at exit either, when Python flushes its streams."""
    code = "import sys, jbpool.console; sys.exit(jbpool.console.exit_on_broken_pipe(lambda: print('x') or 0))"
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    child = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, **pipes)
    child.stdout.close()
    assert child.stderr.read() == b""
    child.stderr.close()
    assert child.wait() == 141


@both
def test_output_that_cannot_be_written(command, output, capsys):
    output(os.open("/dev/full", os.O_WRONLY))
    assert command(["--list"]) == 1
    (printed,) = capsys.readouterr().err.splitlines()
    assert printed.endswith("No space left on device")


def test_other_errors_of_the_system_are_not_blamed_on_the_output(capsys):
    def main():
        print("x")
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    with pytest.raises(OSError, match="Cannot allocate memory"):
        exit_on_broken_pipe(main)
    assert capsys.readouterr() == ("x\n", "")


def test_ctrl_c_while_a_bar_is_made(monkeypatch):
    """What is half made is deleted without an error: it would be printed after the line that ends the command."""

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Bar, "_get_free_pos", interrupt)
    with pytest.raises(KeyboardInterrupt):              # what __del__ raises is a warning, and warnings are errors
        Bar(total=3)
