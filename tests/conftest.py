"""Fixtures: unusual graphs, pools, a batch, a fixed random seed, two processes."""

import json
from pathlib import Path

import dgl
import pytest
import torch
from zoo import POOLS, ZOO


@pytest.fixture(autouse=True)
def _same_seed_for_every_test():
    torch.manual_seed(0)


@pytest.fixture(params=ZOO)
def odd_graph(request):
    return ZOO[request.param]()


@pytest.fixture(params=POOLS)
def make_pool(request):
    """A function (in_feats, num_clusters[, hidden_feats]) -> pool, for every pool and form."""
    return POOLS[request.param]


@pytest.fixture
def batch():
    """One graph of each unusual kind."""
    return dgl.batch([make() for make in ZOO.values()])


@pytest.fixture(scope="session")
def two_processes(tmp_path_factory):
    """What each of two processes saw. Tests that need it are in the xdist_group "processes"."""
    from commands import launch_ranks  # not in all sessions: it imports both tasks

    out = tmp_path_factory.mktemp("processes")
    both = launch_ranks(Path(__file__).with_name("two_processes.py"), out, cwd=out)
    errors = [process.communicate(timeout=120)[1] for process in both]
    assert [process.returncode for process in both] == [0, 1], errors
    return [json.loads((out / f"{n}.json").read_text()) for n in (0, 1)]
