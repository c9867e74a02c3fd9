"""Fixtures: unusual graphs, pools, a batch, a fixed random seed."""

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
