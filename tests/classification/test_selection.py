"""Pools without a loss in the classifier: the same as dense pooling by the same clusters, and scores that learn."""

import pytest
import torch
from zoo import ZOO, symmetric_weights, undirected

from jbpool import pool_by
from jbpool.classification.selection import SelectionPool, pooled_sparsely
from jbpool.names import SELECTIONS
from jbpool.nn.selection import graclus, random


@pytest.mark.parametrize("name", ZOO)
@pytest.mark.parametrize("choose", [graclus, lambda graph: random(graph, 0.5)], ids=["graclus", "random"])
def test_sparse_pooling_is_dense_pooling(choose, name):
    graph = ZOO[name]()
    feat, weight, cluster = torch.rand(graph.num_nodes, 3), symmetric_weights(graph), choose(graph)
    dense = pool_by(graph, feat, cluster, edge_weight=weight)
    coarse, rows = pooled_sparsely(graph, feat, cluster, weight)
    torch.testing.assert_close(rows, dense.feat)
    assert torch.equal(coarse.sizes, dense.sizes)
    adjacency = [torch.zeros(len(rows), len(rows)) for _ in range(2)]
    for matrix, of in zip(adjacency, (coarse, dense.graph), strict=True):
        matrix.index_put_((of.edge_index[1].long(), of.edge_index[0].long()), of.edge_weight, accumulate=True)
    torch.testing.assert_close(*adjacency)


@pytest.mark.parametrize("kind", SELECTIONS)
def test_scores_learn_and_other_pools_have_no_weights(kind):
    graph = undirected([0, 1, 2, 3, 4], [1, 2, 3, 4, 0])
    pool = SelectionPool(kind, 4)
    _, rows = pool(graph, torch.rand(graph.num_nodes, 4))
    assert bool(list(pool.parameters())) == (kind in ("topk", "sag"))
    for parameter in pool.parameters():
        (gradient,) = torch.autograd.grad(rows.sum(), parameter, retain_graph=True)
        assert gradient.abs().sum() > 0
