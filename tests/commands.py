"""Helpers to run both tasks, in this process or in a new one."""

import contextlib
import io
import json
import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import pytest
import torch
from forked import Forked

from jbpool import cli
from jbpool.classification.graph_classify import GRAPH_CLASSIFY
from jbpool.clustering.node_cluster import NODE_CLUSTER
from jbpool.engine.config import load_config
from jbpool.engine.task import Task

ROOT = Path(__file__).parent.parent
SHARED = Path(os.environ.get("JBPOOL_DATA") or "no-datasets").absolute()        # make sets it
CPU = torch.device("cpu")
TIMED = ("seconds", "seconds_per_step")


@dataclass(frozen=True)
class Case:
    """A task with settings for a run of about a second."""

    task: Task
    command: Callable                   # of jbpool.cli
    changes: tuple[str, ...]            # for --set
    score: str                          # a key of result.json
    predictions: str                    # the file of clusters or predictions
    more: tuple[str, ...] = ()          # further arguments

    def arguments(self, *changes: str) -> list[str]:
        return [*settings(*self.changes, *changes), *self.more]

    def config(self, *changes: str):
        return load_config(self.task, None, [*self.changes, *changes])

    @property
    def script(self) -> str:
        return str(ROOT / "tasks" / f"{self.task.name}.py")


CLUSTER = Case(
    NODE_CLUSTER, cli.cluster, score="nmi", predictions="assign.npz",
    changes=("dataset.num_nodes=300", "train.epochs=150", "train.lr=5e-3", "train.seeds=[0]", "train.restarts=1"),
)  # fmt: skip
CLASSIFY = Case(
    GRAPH_CLASSIFY, cli.classify, score="test", predictions="predictions.npz", more=("--folds", "0"),
    changes=("dataset.num_graphs=60", "train.epochs=3", "train.folds=2", "model.hidden=16", "train.batch_size=16"),
)  # fmt: skip
CASES = {case.task.name: case for case in (CLUSTER, CLASSIFY)}


def settings(*changes: str) -> list[str]:
    return [word for change in changes for word in ("--set", change)]


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


def call(command: Callable, *args, cwd: Path, check: bool = True) -> Outcome:
    """A command of ``jbpool.cli`` in this process, with its own working directory and cache."""
    out, err = io.StringIO(), io.StringIO()
    before = Path.cwd()
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.dict(os.environ, XDG_CACHE_HOME=str(cwd / "cache")))
        stack.enter_context(contextlib.redirect_stdout(out))
        stack.enter_context(contextlib.redirect_stderr(err))
        stack.callback(os.chdir, before)
        os.chdir(cwd)
        try:
            code = command([str(arg) for arg in args])
        except SystemExit as stop:                      # as Python ends a program: a text is printed
            code = stop.code
            if isinstance(code, str):
                print(code, file=err)
                code = 1
    assert not check or code == 0, out.getvalue() + err.getvalue()
    return Outcome(code, out.getvalue(), err.getvalue())


def environment(cwd: Path) -> dict[str, str]:
    """For a new process: the same number of threads, so that results agree to the bit."""
    threads = str(torch.get_num_threads())
    path = {"PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(cwd / "cache")}
    return {**os.environ, **path, "OMP_NUM_THREADS": threads}


def launch(script: str | Path, *args, cwd: Path) -> Forked:
    """A script in a new process."""
    return Forked(script, args, cwd, environment(cwd))


def launch_ranks(script: str | Path, *args, cwd: Path | list[Path], processes: int = 2) -> list[Forked]:
    """A script in processes that know of each other, without ``torchrun``; each may have its own folder."""
    folders = cwd if isinstance(cwd, list) else [cwd] * processes
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(processes)}
    ranks = [{"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(processes)]
    pairs = zip(folders, ranks, strict=True)
    return [Forked(script, args, folder, {**environment(folder), **common, **rank}) for folder, rank in pairs]


def run_ranks(script: str | Path, *args, cwd: Path, processes: int) -> None:
    """``launch_ranks``, until all processes have succeeded."""
    started = launch_ranks(script, *args, cwd=cwd, processes=processes)
    printed = [process.communicate(timeout=300) for process in started]
    codes = [process.returncode for process in started]
    assert codes == [0] * processes, (codes, printed)


def wait_for(path: Path, process: Forked, seconds: float = 90) -> None:
    """Wait until a running process has written a file."""
    deadline = time.monotonic() + seconds
    while not path.exists():
        if process.poll() is not None:
            pytest.fail(f"the run ended before there was a {path.name}: {process.communicate()}")
        assert time.monotonic() < deadline
        time.sleep(0.01)


def run_task(case: Case, config, folder: Path, data=None, **more):
    """``run`` of a task on the data of its configuration."""
    return case.task.run(config, data or case.task.load_data(config), folder, CPU, **more)


def result_of(folder: Path) -> dict:
    return json.loads((folder / "result.json").read_text())


def numbers(folder: Path) -> dict[str, list[dict]]:
    """Method -> its runs, without times."""
    result = result_of(folder)
    methods = {result["method"]: result["runs"], **{name: part["runs"] for name, part in result["compared"].items()}}
    return {
        name: [{key: value for key, value in run.items() if key not in TIMED} for run in runs]
        for name, runs in methods.items()
    }


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return torch.load(folder / "model.pt", weights_only=True)["state"]


def assert_same_weights(one: Path, other: Path) -> None:
    one, other = weights(one), weights(other)
    assert one.keys() == other.keys()
    assert all(torch.equal(one[key], other[key]) for key in one)
