"""Work in blocks of rows gives the same as one block, for graphs that hold their edges in any form."""

import pytest
import torch
from zoo import random_graph, symmetric_weights

from jbpool.graph import CsrRows, Graph
from jbpool.ops import adjacency
from jbpool.ops.adjacency import edge_blocks, smoothing_matrix


def by_target(graph):
    """The same graph without numbers of edges, as loaders build it: edges are in the order of their targets."""
    pointers, sources, _ = graph.by_target
    return Graph.from_rows(CsrRows(pointers, sources, None))


@pytest.fixture(params=["edge list", "by target"])
def graph(request, device):
    made = random_graph(40, 90, seed=3).to(device)
    return made if request.param == "edge list" else by_target(made)


@pytest.mark.parametrize("rows", [1, 7, 1000])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("transposed", [False, True])
def test_the_smoothing_matrix_is_the_dense_formula(graph, rows, weighted, transposed, monkeypatch):
    monkeypatch.setattr(adjacency, "BLOCK_ROWS", rows)
    weight = symmetric_weights(graph) if weighted else None
    source, target = graph.edge_index
    adj = torch.zeros(40, 40, dtype=torch.float64, device=graph.device)
    adj[source, target] = 1.0 if weight is None else weight.double()
    scale = torch.where(adj.sum(1) > 0, adj.sum(1).clamp_min(1e-30) ** -0.5, 0)
    expected = 0.7 * scale[:, None] * adj * scale
    expected.diagonal().add_(0.3)
    found = smoothing_matrix(graph, weight, torch.float64, 0.7, transposed).to_dense()
    assert torch.allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("rows", [1, 7, 1000])
def test_edge_blocks_hold_every_edge_once_with_its_number(graph, rows, monkeypatch):
    monkeypatch.setattr(adjacency, "BLOCK_ROWS", rows)
    blocks = list(edge_blocks(graph))
    assert len(blocks) == -(-40 // rows)
    source, target, edges = (torch.cat(parts) for parts in zip(*blocks, strict=True))
    assert edges.sort()[0].tolist() == list(range(graph.num_edges))
    assert torch.equal(graph.edge_index[0][edges], source)
    assert torch.equal(graph.edge_index[1][edges], target)
