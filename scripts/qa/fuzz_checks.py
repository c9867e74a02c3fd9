"""What every dataset promises, checked by ``scripts/qa/fuzz.py`` on mutants that are accepted."""

from __future__ import annotations

import torch

from jbpool.data import GraphData, NodeData


def check_nodes(data: NodeData) -> None:
    """What every ``NodeData`` promises, and what a run first does with it."""
    graph, nodes = data.graph, data.graph.num_nodes
    source, target = graph.edge_index
    assert nodes > 0, "no nodes"
    assert bool((source != target).all()), "a self loop"
    pairs = set(zip(source.tolist(), target.tolist(), strict=True))
    assert len(pairs) == graph.num_edges, "an edge twice"
    assert all((b, a) in pairs for a, b in pairs), "an edge in one direction"
    if data.feat is not None:
        assert data.feat.shape[0] == nodes, "rows of features"
        values = data.feat.values() if data.feat.layout == torch.sparse_csr else data.feat
        assert values.dtype == torch.float32, "type of features"
        assert bool(values.isfinite().all()), "features that are not finite"
    if data.label is not None:
        assert data.label.shape == (nodes,), "labels"
        assert data.num_classes is not None
        assert -1 <= int(data.label.min()) <= int(data.label.max()) < data.num_classes, "range of labels"
    if data.edge_weight is not None:
        assert len(data.edge_weight) == graph.num_edges, "weights"
        assert bool((data.edge_weight.isfinite() & (data.edge_weight > 0)).all()), "weights that are not positive"
    assert data.ids is None or len(set(data.ids.tolist())) == nodes, "node ids"
    assert data.summary.isprintable(), "the summary is not one line"
    assert data.fingerprint


def check_graphs(data: GraphData) -> None:
    """What every ``GraphData`` promises: all graphs can be batched."""
    assert len(data) > 0, "no graphs"
    batch = data.batch(torch.arange(len(data)))
    assert batch.graph.num_nodes == len(batch.feat) == int(data.sizes.sum()), "nodes"
    assert bool(batch.feat.isfinite().all()), "features that are not finite"
    assert batch.edge_weight is None or bool((batch.edge_weight.isfinite() & (batch.edge_weight >= 0)).all()), "weights"
    assert batch.edge_feat is None or bool(batch.edge_feat.isfinite().all()), "edge features that are not finite"
    assert -1 <= int(data.label.min()) <= int(data.label.max()) < max(data.num_classes, 1), "range of labels"
    assert data.ids is None or len(set(data.ids.tolist())) == len(data), "graph ids"
    assert data.fingerprint
