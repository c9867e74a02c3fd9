"""Tests that need a new process: signals, torchrun, imports of --help."""

import csv
import os
import random
import signal
from pathlib import Path

import numpy as np
import pytest
import torch
from commands import (
    CASES,
    CLASSIFY,
    CLUSTER,
    assert_same_weights,
    call,
    launch,
    launch_ranks,
    numbers,
    result_of,
    run_ranks,
    settings,
    wait_for,
    weights,
)  # fmt: skip

from jbpool.classification import run as classification_run

KILLED = Path(__file__).with_name("killed_run.py")
AGENT = Path(__file__).with_name("torchrun_agent.py")
SOAK = int(os.environ.get("KILLS", "0"))


# One is killed between two checkpoints. ``KILLS=20`` (make soak) kills so many of each task at random steps.
KILLS = [(name, random.Random(number).randrange(140)) for name in CASES for number in range(SOAK)]


@pytest.mark.parametrize(("name", "step"), KILLS or [("node_cluster", 90)])
def test_killed_and_resumed_a_run_equals_an_unbroken_one(name, step, tmp_path):
    """test_stops.py stops runs of both tasks at every file."""
    case = CASES[name]
    more = ["train.eval_every=20", "train.restarts=2"] if case is CLUSTER else ["train.epochs=40"]
    command, arguments = case.command.__name__, case.arguments(*more)
    killed = launch(KILLED, command, 0, step, *arguments, "--out", "broken", cwd=tmp_path)
    _, error = killed.communicate(timeout=120)
    assert killed.returncode == -signal.SIGKILL, error
    assert not (tmp_path / "broken" / "report.html").exists()
    for folder in ("broken", "whole"):
        call(case.command, *arguments, "--out", folder, "--resume", cwd=tmp_path)
    assert numbers(tmp_path / "broken") == numbers(tmp_path / "whole")
    assert_same_weights(tmp_path / "broken", tmp_path / "whole")
    history = [(tmp_path / folder / "history.csv").read_text() for folder in ("broken", "whole")]
    assert history[0] == history[1]


def test_ctrl_c_leaves_a_readable_folder(tmp_path):
    """The signal and the exit code of a process; test_both_tasks.py and test_stops.py interrupt both tasks."""
    seeds = ",".join(map(str, range(400)))
    arguments = [*CLASSIFY.arguments("model.compare=[]", "train.epochs=10"), "--seeds", seeds, "--out", "r"]
    process = launch(CLASSIFY.script, *arguments, cwd=tmp_path)
    wait_for(tmp_path / "r" / "result.json", process)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "finished work is in r; continue with --resume --out r --folds 0." in error
    assert "Traceback" not in error
    assert 1 <= len(result_of(tmp_path / "r")["runs"]) < 400
    assert len((tmp_path / "r" / "history.csv").read_text().splitlines()) > 1
    assert (tmp_path / "r" / "report.html").exists()


# ---------------------------------------------------------------- several processes


TWO = CLASSIFY.arguments("model.compare=[]", "model.dropout=0", "train.epochs=4", "train.batch_size=7")


def test_two_processes_do_what_one_does_even_if_one_dies(tmp_path):
    """Batch normalisation, pools, an uneven last batch: the same weights up to rounding."""
    both = launch_ranks(KILLED, "classify", 1, 9, *TWO, "--out", "of2", cwd=tmp_path)
    alone = call(CLASSIFY.command, *TWO, "--out", "of1", cwd=tmp_path).out
    errors = [process.communicate(timeout=120)[1] for process in both]
    assert [process.returncode for process in both] == [1, -signal.SIGKILL], errors
    assert "another process of this run has died; --resume continues from the checkpoint." in errors[0]
    assert (tmp_path / "of2" / "checkpoint.pt").exists()
    both = launch_ranks(CLASSIFY.script, *TWO, "--out", "of2", "--resume", cwd=tmp_path)
    printed, errors = zip(*(process.communicate(timeout=120) for process in both), strict=True)
    assert [process.returncode for process in both] == [0, 0], errors
    printed = printed[0]
    assert "2 processes" in printed
    assert "4 epochs" in printed
    assert "processes" not in alone
    one, two = (weights(tmp_path / f"of{n}") for n in (1, 2))
    for key in one:
        torch.testing.assert_close(one[key], two[key], rtol=2e-3, atol=2e-4)
    assert numbers(tmp_path / "of1") == numbers(tmp_path / "of2")
    with np.load(tmp_path / "of1" / "predictions.npz") as a, np.load(tmp_path / "of2" / "predictions.npz") as b:
        np.testing.assert_allclose(a["scores"], b["scores"], rtol=1e-2, atol=1e-3)


def test_a_process_that_torchrun_stops_says_why(tmp_path):
    """torchrun sends SIGTERM to the others when one process has died."""
    arguments = [*CLASSIFY.arguments("train.epochs=1000"), "--out", "r"]
    (process,) = launch_ranks(CLASSIFY.script, *arguments, cwd=tmp_path, processes=1)
    wait_for(tmp_path / "r" / "checkpoint.pt", process)
    process.send_signal(signal.SIGTERM)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "another process of this run has died, so this one stops; --resume continues" in error
    assert "Traceback" not in error


def test_a_stop_that_python_drops_is_repeated(tmp_path):
    """The signal may arrive in a destructor, where exceptions are dropped."""
    script = tmp_path / "stopped.py"
    script.write_text("""
import time
from jbpool import processes

class Destroyed:
    def __del__(self):
        processes.stop_with_the_others()

Destroyed()
print("dropped", flush=True)
time.sleep(30)
print("not stopped")
""")
    process = launch(script, cwd=tmp_path)
    printed, error = process.communicate(timeout=60)
    assert process.returncode == 1
    assert printed == "dropped\n"
    assert error.splitlines() == [
        "another process of this run has died, so this one stops; --resume continues from the checkpoint."
    ]


def test_only_the_first_process_needs_the_folder_that_is_resumed(tmp_path):
    """As on two machines: the second has another working directory."""
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        folder.mkdir()
    for more in (["0"], ["0,1", "--resume"]):
        started = launch_ranks(CLASSIFY.script, *TWO[:-1], *more, "--out", "r", cwd=folders)
        printed = [process.communicate(timeout=120) for process in started]
        assert [process.returncode for process in started] == [0, 0], printed
    call(CLASSIFY.command, *TWO[:-1], "0,1", "--out", "alone", cwd=tmp_path)
    assert numbers(folders[0] / "r") == numbers(tmp_path / "alone")
    assert not (folders[1] / "r").exists()


def test_torchrun(tmp_path):
    """Its agent, with processes that are forked; those of the command import everything anew."""
    process = launch(AGENT, KILLED, "classify", 1, 9, *TWO, "--out", "r", cwd=tmp_path)
    _, error = process.communicate(timeout=120)
    assert process.returncode != 0
    assert "another process of this run has died" in error
    process = launch(AGENT, CLASSIFY.script, *TWO, "--out", "r", "--resume", cwd=tmp_path)
    printed, error = process.communicate(timeout=120)
    assert process.returncode == 0, error
    assert "2 processes" in printed


def test_two_processes_follow_one_on_a_real_set(shared, tmp_path):
    """Rounding of batch normalisation in float32 parts the losses by some 1e-4; biases in front of it would by more.

    Later, single ReLUs switch at different steps: docs/howto/processes.md says how far runs part by then.
    """
    changes = settings(f"dataset.root={shared}", "train.epochs=1", "train.batch_size=64", "model.dropout=0")
    arguments = ["--cfg", "mutag", *changes, "--folds", "0", "--seeds", "0,1,2,3,4,5,6,7,8,9"]
    run_ranks(CLASSIFY.script, *arguments, "--out", "of2", cwd=tmp_path, processes=2)
    call(CLASSIFY.command, *arguments, "--out", "of1", cwd=tmp_path)
    one, two = (list(csv.DictReader((tmp_path / f"of{n}" / "history.csv").read_text().splitlines())) for n in (1, 2))
    losses = [[float(row[key]) for row in rows for key in ("loss", "pool_loss")] for rows in (one, two)]
    assert len(losses[0]) == 20
    np.testing.assert_allclose(*losses, rtol=0, atol=5e-4)


def test_too_few_graphs_for_the_processes(tmp_path, monkeypatch):
    monkeypatch.setattr(classification_run, "world_size", lambda: 2)
    outcome = call(CLASSIFY.command, *CLASSIFY.arguments("train.batch_size=1"), cwd=tmp_path, check=False)
    assert outcome.code == 2
    assert "train.batch_size=1 is less than the 2 processes" in outcome.err
