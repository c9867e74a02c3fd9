"""Operations between processes: with two over gloo, after one of them has died, and with a single one."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from commands import ROOT
from torch import nn

from jbpool.engine.processes import gather, mean_gradients, mean_over_processes, rank, total_over_processes, world_size

SCRIPT = Path(__file__).with_name("two_processes.py")
pytestmark = pytest.mark.xdist_group("processes")           # they are started once


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """What each of two processes saw."""
    out = tmp_path_factory.mktemp("processes")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2", "OMP_NUM_THREADS": "1"}
    env = {**os.environ, **common, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(SCRIPT), str(out)]
    both = [subprocess.Popen(command, env={**env, "RANK": str(n)}, stderr=subprocess.PIPE, text=True) for n in (0, 1)]
    errors = [process.communicate(timeout=120)[1] for process in both]
    assert [process.returncode for process in both] == [0, 1], errors
    return [json.loads((out / f"{n}.json").read_text()) for n in (0, 1)]


@pytest.mark.parametrize("mine", [0, 1])
def test_values_are_gathered_by_rank(seen, mine):
    assert seen[mine]["ranks"] == [0, 1]
    assert seen[mine]["world_size"] == 2
    assert seen[mine]["gathered"] == [{"name": "rank 0", "size": 0}, {"name": "rank 1", "size": 1}]
    assert seen[mine]["mean"] == 1.5


@pytest.mark.parametrize("mine", [0, 1])
def test_gradients_are_averaged(seen, mine):
    """Also of a parameter that one process did not use; frozen parameters have no gradient."""
    shared, sometimes, frozen = seen[mine]["gradients"]
    assert shared == [[2.0, 2.0], [2.0, 2.0]]
    assert sometimes == [[2.0, 2.0], [2.0, 2.0]]
    assert frozen is None


@pytest.mark.parametrize("mine", [0, 1])
def test_a_total_is_the_sum_of_all_processes(seen, mine):
    assert seen[mine]["total"]["value"] == [3.0, 30.0]
    assert seen[mine]["total"]["input"] == [1.0 * (mine + 1), 10.0 * (mine + 1)]        # not overwritten


@pytest.mark.parametrize("operation", ["barrier", "mean", "gather", "gradients"])
def test_a_process_left_alone_says_so(seen, operation):
    message, has_cause = seen[0][f"{operation} alone"]
    assert message == "another process of this run has died; --resume continues from the checkpoint."
    assert has_cause


def test_a_single_process_changes_nothing():
    parameter, unused = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(3))
    (2 * parameter).sum().backward()
    mean_gradients([parameter, unused])
    assert parameter.grad.tolist() == [2.0, 2.0, 2.0]
    assert unused.grad is None
    assert total_over_processes(torch.tensor([1.0, 2.0])).tolist() == [1.0, 2.0]
    assert (rank(), world_size(), gather("x")) == (0, 1, ["x"])
    assert mean_over_processes(torch.tensor(2.5)) == 2.5
