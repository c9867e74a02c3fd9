"""Standard output that is closed early or cannot be written, and progress bars."""

import errno
import subprocess
import sys
from pathlib import Path

import pytest
from tqdm import tqdm

import jbpool
from jbpool.console import Bar, exit_on_broken_pipe, plural, print_scores, progress_bar, watched

ROOT = Path(jbpool.__file__).parent.parent

CHILD = "import sys, jbpool.console; sys.exit(jbpool.console.exit_on_broken_pipe(lambda: print('x') or 0))"


def test_a_reader_that_stops_reading():
    """Nothing is printed at exit either, when Python flushes its streams."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    child = subprocess.Popen([sys.executable, "-c", CHILD], cwd=ROOT, **pipes)
    child.stdout.close()
    assert child.stderr.read() == b""
    child.stderr.close()
    assert child.wait() == 141


def test_output_that_cannot_be_written():
    with open("/dev/full", "wb") as full:
        child = subprocess.run([sys.executable, "-c", CHILD], cwd=ROOT, stdout=full, stderr=-1, check=False)
    assert child.returncode == 1
    assert child.stderr == b"the output cannot be written: No space left on device\n"


def test_other_errors_of_the_system_are_not_blamed_on_the_output(capsys):
    def main():
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    with pytest.raises(OSError, match="Cannot allocate memory"):
        exit_on_broken_pipe(main)


def test_progress_outside_a_terminal_is_whole_lines(monkeypatch, capsys):
    monkeypatch.setattr("jbpool.console.LINE_SECONDS", 0)
    with Bar(total=4, desc="seed 0", unit=" epochs") as bar:
        for loss in (0.5, 0.25):
            bar.set_postfix(loss=loss, refresh=False)
            bar.update(2)
        tqdm.write("a message")
    out, err = capsys.readouterr()
    assert out == "a message\n"
    assert "\r" not in err
    _, first, second = err.splitlines()                                     # 0 of 4 first: no time between lines here
    assert first.startswith("seed 0:  50%| 2/4 [")
    assert first.endswith("loss=0.5]")
    assert second.startswith("seed 0: 100%| 4/4 [")


def test_short_work_outside_a_terminal_shows_nothing(capsys):
    for bar in (progress_bar("reading", 3, "rows"), Bar(total=3, desc="seed 0")):
        with bar:
            bar.update(3)
    with watched("smoothing") as watch:
        watch(1, 2)
    assert capsys.readouterr().err == ""


def test_progress_in_a_terminal_is_one_line_that_is_redrawn(monkeypatch, capsys):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with Bar(total=4, desc="seed 0", leave=False) as bar:
        bar.update(2)
    err = capsys.readouterr().err
    assert "0/4" in err
    assert "\n" not in err


def test_plural():
    assert [plural(number, "seed") for number in (0, 1, 2)] == ["0 seeds", "1 seed", "2 seeds"]


def test_whole_numbers_are_printed_as_such(capsys):
    runs = [{"nmi": 0.5, "used_clusters": 4, "epochs": 3}, {"nmi": 0.75, "used_clusters": 4, "epochs": 5}]
    mean, std = {"nmi": 0.625, "used_clusters": 4.0, "epochs": 4.0}, {"nmi": 0.125, "used_clusters": 0.0, "epochs": 1.4}
    print_scores("jb", {"runs": runs, "mean": mean, "std": std}, None)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert lines == [["nmi", "0.625", "+-", "0.125"], ["used_clusters", "4"], ["epochs", "4.000", "+-", "1.400"]]
