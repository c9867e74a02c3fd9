"""One of several processes, each with some rows of a graph; test_several_processes.py starts them.

Everything is compared with what one process gets from the whole graph, which all of them know.
"""

import json
import sys
from pathlib import Path

import networkx
import numpy as np
import torch

from jbpool import processes
from jbpool.clustering.auto import bounded_heads
from jbpool.clustering.auto.bounded_heads import hard_clusters, trained_heads
from jbpool.clustering.auto.halves import Halves
from jbpool.clustering.auto.views import FixedFeatures, edge_view
from jbpool.clustering.auto.weighting import are_counts, auto_weights, scale_warning
from jbpool.data import NodeData, load_nodes
from jbpool.graph import Graph
from jbpool.processes import RowShares, process_group, rank

CLOSE = {"atol": 1e-5, "rtol": 1e-5}


def planted(graph, label) -> NodeData:
    return of_networkx(graph, None, label)


def of_networkx(graph, feat=None, label=None) -> NodeData:
    graph = Graph.from_networkx(networkx.convert_node_labels_to_integers(graph))
    weight = graph.edge_weight
    graph = graph.weighted(None)
    return NodeData(graph, feat, label, None if label is None else int(label.max()) + 1, "some", weight)


def blocks(sizes, within, between, seed=0) -> tuple[networkx.Graph, torch.Tensor]:
    rates = np.full((len(sizes),) * 2, between) + (within - between) * np.eye(len(sizes))
    graph = networkx.stochastic_block_model(sizes, rates, seed=seed)
    label = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    order = np.random.default_rng(seed).permutation(len(label))                     # node i becomes order[i]
    graph = networkx.relabel_nodes(networkx.Graph(graph.edges), dict(enumerate(order.tolist())))
    shuffled = networkx.Graph()
    shuffled.add_nodes_from(range(len(label)))
    shuffled.add_edges_from(graph.edges)
    return shuffled, label[torch.from_numpy(order).argsort()]


def weighted() -> NodeData:
    graph, label = blocks([150, 150, 100], 0.06, 0.03)
    for a, b, edge in graph.edges.data():
        edge["weight"] = (4.0 if label[a] == label[b] else 1.0) + (a + b) % 3
    return of_networkx(graph, label=label)


def with_measurements() -> NodeData:
    graph, label = blocks([160, 120, 100, 80], 0.07, 0.02)
    feat = torch.randn(4, 12, generator=torch.Generator().manual_seed(1))[label]
    return of_networkx(graph, feat + torch.randn(460, 12, generator=torch.Generator().manual_seed(2)), label)


def components() -> NodeData:
    """Six cliques of unequal size, and nodes without edges."""
    parts = [networkx.complete_graph(size) for size in (40, 30, 30, 20, 20, 20)]
    graph = networkx.disjoint_union_all([*parts, networkx.empty_graph(15)])
    order = np.random.default_rng(0).permutation(len(graph))
    label = torch.arange(7).repeat_interleave(torch.tensor([40, 30, 30, 20, 20, 20, 15]))
    return of_networkx(networkx.from_numpy_array(networkx.to_numpy_array(graph)[order][:, order]), None,
                       label[torch.from_numpy(order)])


CASES = {
    "words": lambda: load_nodes("cora-sim"),
    "weighted": weighted,
    "measurements": with_measurements,
    "hard": lambda: planted(*blocks([200, 120, 100], 0.05, 0.02)),
    "components": components,
    "three nodes": lambda: of_networkx(networkx.path_graph(3)),
}

def divided(data: NodeData) -> NodeData:
    """The rows of this process, in blocks so small that all have some; the last of four has none of three nodes."""
    return data.part(RowShares.of_this_run(data.graph.num_nodes))


def same(data: NodeData, part: NodeData) -> dict[str, bool]:
    shares = part.graph.shares
    rows = slice(shares.start, shares.stop)
    seen = {
        "edge view": close(edge_view(part.graph, 4, part.edge_weight), edge_view(data.graph, 4, data.edge_weight)[rows])
    }
    one, several = (Halves(some.graph, some.feat, 4, some.edge_weight) for some in (data, part))
    seen["halves"] = torch.equal(one.agreement(3), several.agreement(3))
    seen["crossing"] = np.isclose(one.crossing(2), several.crossing(2), atol=1e-6, equal_nan=True).item()
    if data.feat is not None and part.feat is not None:
        seen["weights"] = torch.equal(auto_weights(part.feat, shares), auto_weights(data.feat))
        seen["counts"] = are_counts(part.feat, shares) == are_counts(data.feat)
        seen["warning"] = scale_warning(part.feat, shares) == scale_warning(data.feat)
        whole, mine = (FixedFeatures(data.feat.shape[1], num_clusters=5) for _ in range(2))
        view = whole.fit(data.graph, data.feat, data.edge_weight)
        seen["view"] = close(mine.fit(part.graph, part.feat, part.edge_weight), view[rows])
        seen["columns"] = close(FixedFeatures(data.feat.shape[1], 3).fit(part.graph, part.feat, part.edge_weight),
                                FixedFeatures(data.feat.shape[1], 3).fit(data.graph, data.feat, data.edge_weight)[rows])
    else:
        view = edge_view(data.graph, 3, data.edge_weight)
    return seen | heads(view, view[rows], shares)


def heads(view: torch.Tensor, mine: torch.Tensor, shares: RowShares) -> dict[str, bool]:
    """Trained on all nodes, and on a sample of them."""
    seen = {}
    for bounded_heads.TRAIN_NODES in (2**16, 200):
        (one, losses), (several, shared) = (
            trained_heads(rows, 3, 3, torch.Generator().manual_seed(0), *more, epochs=10)
            for rows, more in ((view, ()), (mine, (shares,)))
        )
        name = f"of {bounded_heads.TRAIN_NODES}"
        seen[f"losses {name}"] = close(shared, losses)
        seen[f"prototypes {name}"] = close(several.prototypes, one.prototypes, atol=1e-4)
        found = hard_clusters(several, mine, shares)
        seen[f"clusters {name}"] = torch.equal(found, hard_clusters(one, view)[:, shares.start : shares.stop])
    return seen


def close(mine: torch.Tensor, whole: torch.Tensor, **more) -> bool:
    return mine.shape == whole.shape and torch.allclose(mine, whole, **{**CLOSE, **more})


if __name__ == "__main__":
    processes.ROWS = 64
    with process_group(torch.device("cpu")):
        seen = {name: same(data := make(), divided(data)) for name, make in CASES.items()}
        (Path(sys.argv[1]) / f"{rank()}.json").write_text(json.dumps(seen))
