"""Tests that need a new process: signals, torchrun, imports of --help."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from commands import CASES, CLASSIFY, ROOT, assert_same_weights, call, launch, numbers, result_of, wait_for, weights

from jbpool.classification import run as classification_run


def test_help_needs_no_torch():
    for case in CASES.values():
        code = f"import sys, runpy; sys.argv = ['x', '--help']; sys.path.insert(0, {str(ROOT)!r})\ntry:\n    "
        code += f"runpy.run_path({case.script!r}, run_name='__main__')\n"
        code += "except SystemExit:\n    assert 'torch' not in sys.modules"
        result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert "--cfg" in result.stdout


LONG = {                                # longer than the half second before the first checkpoint
    "node_cluster": ("train.epochs=1000", "train.eval_every=20", "train.restarts=2"),
    "graph_classify": ("model.compare=[]", "train.epochs=60"),
}
SHORT = {"node_cluster": (), "graph_classify": ("model.compare=[]", "train.epochs=10")}


@pytest.mark.parametrize("name", CASES)
def test_kill_and_resume_equals_an_unbroken_run(name, tmp_path):
    """Killed at an arbitrary point; test_both_tasks.py stops runs at every checkpoint."""
    case, quiet = CASES[name], {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    arguments = case.arguments(*LONG[name])
    with launch(case, *arguments, "--out", "broken", cwd=tmp_path, **quiet) as process:
        wait_for(tmp_path / "broken" / "checkpoint.pt", process)
        process.send_signal(signal.SIGKILL)
    assert not (tmp_path / "broken" / "report.html").exists()
    for folder in ("broken", "whole"):
        call(case.command, *arguments, "--out", folder, "--resume", cwd=tmp_path)
    assert numbers(tmp_path / "broken") == numbers(tmp_path / "whole")
    assert_same_weights(tmp_path / "broken", tmp_path / "whole")
    history = [(tmp_path / folder / "history.csv").read_text() for folder in ("broken", "whole")]
    assert history[0] == history[1]


@pytest.mark.parametrize("name", CASES)
def test_ctrl_c_leaves_a_readable_folder(name, tmp_path):
    case = CASES[name]
    seeds = ",".join(map(str, range(20)))
    arguments = [*case.arguments(*SHORT[name]), "--seeds", seeds, "--out", "r"]
    # A shell starts background jobs with SIGINT ignored, which children inherit.
    restore = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)}
    with launch(case, *arguments, cwd=tmp_path, **restore) as process:
        wait_for(tmp_path / "r" / "result.json", process)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "finished work is in r; continue with --resume --out r." in error
    assert "Traceback" not in error
    assert 1 <= len(result_of(tmp_path / "r")["runs"]) < 20
    assert len((tmp_path / "r" / "history.csv").read_text().splitlines()) > 1
    assert (tmp_path / "r" / "report.html").exists()


# ---------------------------------------------------------------- several processes


def test_two_processes_do_what_one_does(tmp_path):
    """Batch normalisation, pools, an uneven last batch: the same weights up to rounding."""
    arguments = CLASSIFY.arguments("model.compare=[]", "model.dropout=0", "train.epochs=4", "train.batch_size=7")
    with launch(CLASSIFY, *arguments, "--out", "of2", cwd=tmp_path, processes=2) as process:
        alone = call(CLASSIFY.command, *arguments, "--out", "of1", cwd=tmp_path).out
        told, error = process.communicate(timeout=120)
    assert process.returncode == 0, error
    assert "2 processes" in told
    assert "processes" not in alone
    one, two = (weights(tmp_path / f"of{n}") for n in (1, 2))
    for key in one:
        torch.testing.assert_close(one[key], two[key], rtol=2e-3, atol=2e-4)
    assert numbers(tmp_path / "of1") == numbers(tmp_path / "of2")
    with np.load(tmp_path / "of1" / "predictions.npz") as a, np.load(tmp_path / "of2" / "predictions.npz") as b:
        np.testing.assert_allclose(a["scores"], b["scores"], rtol=1e-2, atol=1e-3)


def test_a_process_that_dies_takes_the_run_down(tmp_path):
    arguments = [*CLASSIFY.arguments("model.compare=[]", "train.epochs=60"), "--out", "r"]
    with launch(CLASSIFY, *arguments, cwd=tmp_path, processes=2, stdout=subprocess.DEVNULL) as process:
        wait_for(tmp_path / "r" / "checkpoint.pt", process)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        victim = next(pid for pid in children if b"RANK=1" in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"))
        os.kill(int(victim), signal.SIGKILL)
        _, error = process.communicate(timeout=60)
    assert process.returncode != 0
    assert "another process of this run has died" in error
    with launch(CLASSIFY, *arguments, "--resume", cwd=tmp_path, processes=2) as process:
        told, error = process.communicate(timeout=120)
    assert process.returncode == 0, error
    assert "60 epochs" in told


def test_too_few_graphs_for_the_processes(tmp_path, monkeypatch):
    monkeypatch.setattr(classification_run, "world_size", lambda: 2)
    outcome = call(CLASSIFY.command, *CLASSIFY.arguments("train.batch_size=1"), cwd=tmp_path, check=False)
    assert outcome.code == 2
    assert "train.batch_size=1 is less than the 2 processes" in outcome.err
