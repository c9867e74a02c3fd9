"""A process that gives no sign of life ends the others; one that is busy, or has ended, does not."""

import signal
from pathlib import Path

import pytest
from commands import launch_ranks

from jbpool.liveness import BEAT, MESSAGE, PATIENCE

SCRIPT = Path(__file__).with_name("silent_process.py")


def run(what, who, cwd):
    started = launch_ranks(SCRIPT, what, who, cwd=cwd)
    errors = [process.communicate(timeout=120)[1] for process in started]
    return [process.returncode for process in started], errors


@pytest.mark.parametrize("who", [0, 1])
def test_a_process_that_is_stopped_ends_the_other(tmp_path, who):
    """The first process has the store of the signs, too."""
    codes, errors = run("stopped", who, tmp_path)
    assert (codes[who], codes[1 - who]) == (-signal.SIGKILL, 1), errors
    died = "another process of this run has died; --resume continues from the checkpoint."
    assert errors[1 - who].splitlines() in ([MESSAGE], [died])          # whichever comes first


def test_a_process_that_is_busy_or_has_ended_stops_no_other(tmp_path):
    """Also where a call holds Python's lock for longer than the silence that is borne."""
    codes, errors = run("busy", 1, tmp_path)
    assert codes == [0, 0], errors


def test_it_takes_less_than_a_minute():
    assert BEAT * (PATIENCE + 2) < 60
