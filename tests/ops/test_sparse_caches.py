"""Every cache has a name and can be emptied."""

import dgl
import pytest
import torch
from zoo import random_graph

from jbpool import DeltaConv, JBPool
from jbpool.ops import sparse as caches
from jbpool.ops.adjacency import _operators, smooth, sparse_operator
from jbpool.ops.coarsen import _complete_graphs
from jbpool.ops.sparse import _features


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
def test_clear_empties_all_of_them_and_changes_no_result():
    graph, feat = random_graph(20, 50), torch.rand(20, 7).to_sparse_csr()
    conv, pool = DeltaConv(7, 3), JBPool(3, 2)
    before = pool(graph, conv(graph, feat))
    assert len(_operators) > 0
    assert len(_features) > 0
    assert _complete_graphs.cache_info().currsize > 0
    assert set(caches.CACHES) == {"operators", "sparse_features", "pooled_topologies"}
    caches.clear()
    assert len(_operators) == len(_features) == _complete_graphs.cache_info().currsize == 0
    after = pool(graph, conv(graph, feat))
    assert torch.equal(after.loss, before.loss)
    assert torch.equal(after.edge_weight, before.edge_weight)
    pool(before.graph, before.feat, before.edge_weight)


def test_one_cache_by_its_name():
    graph, feat = random_graph(20, 50), torch.rand(20, 3)
    JBPool(3, 2)(graph, feat)
    caches.clear("operators")
    assert len(_operators) == 0
    assert _complete_graphs.cache_info().currsize > 0
    with pytest.raises(ValueError, match="Did you mean 'operators'"):
        caches.clear("operator")


@pytest.mark.parametrize("change", ["add_edges", "remove_edges", "add_nodes", "remove_nodes"])
def test_every_way_to_change_a_graph_in_place_is_noticed(change):
    graph = dgl.graph(([0, 1, 1, 2], [1, 0, 2, 1]))
    before = sparse_operator(graph, None, torch.float32)
    assert sparse_operator(graph, None, torch.float32) is before
    arguments = {"add_edges": ([0, 2], [2, 0]), "remove_edges": ([2, 3],), "add_nodes": (2,), "remove_nodes": ([2],)}
    getattr(graph, change)(*arguments[change])
    assert sparse_operator(graph, None, torch.float32) is not before
    assert smooth(graph, torch.rand(graph.num_nodes(), 2)).shape[0] == graph.num_nodes()
