"""Graphs whose rows are divided between processes, and what every step finds; as a script, one of several processes.

``run_by_several`` compares what it finds with what one process finds in the whole graph.
"""

import math
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from jbpool import processes
from jbpool.clustering import picture, report
from jbpool.clustering.auto import bounded_heads, halves, paths, recipe
from jbpool.clustering.auto.anchors import Anchors, changes, continued, seeded
from jbpool.clustering.auto.bounded_heads import hard_clusters, trained_heads
from jbpool.clustering.auto.merging import Partition, unions
from jbpool.clustering.auto.paths import closure
from jbpool.clustering.auto.recipe import choose, find_clusters, main_clusters, remarks
from jbpool.clustering.auto.refinement import Evidence, refine
from jbpool.clustering.auto.views import FixedFeatures, edge_view
from jbpool.clustering.auto.weighting import are_counts, auto_weights
from jbpool.clustering.explain import explain
from jbpool.clustering.report import Findings
from jbpool.data import NodeData, load_nodes
from jbpool.graph import Graph
from jbpool.ops.components import components
from jbpool.processes import RowShares, process_group, rank, world_size

BLOCK = 64              # rows: so few that every process has some


def of_networkx(graph: networkx.Graph, feat=None) -> NodeData:
    """With its nodes in random order."""
    order = np.random.default_rng(0).permutation(len(graph)).tolist()
    shuffled = networkx.Graph()
    shuffled.add_nodes_from(sorted(order))
    shuffled.add_edges_from((order[a], order[b], edge) for a, b, edge in graph.edges(data=True))
    rows = None if feat is None else feat[torch.tensor(order).argsort()]
    drawn = Graph.from_networkx(shuffled)
    return NodeData(drawn.weighted(None), rows, None, None, "some", drawn.edge_weight)


def blocks(sizes, within, between) -> networkx.Graph:
    rates = np.full((len(sizes),) * 2, between) + (within - between) * np.eye(len(sizes))
    return networkx.Graph(networkx.stochastic_block_model(sizes, rates, seed=0))


def weighted() -> NodeData:
    graph = blocks([150, 150, 100], 0.06, 0.03)
    for a, b, edge in graph.edges.data():
        edge["weight"] = (4.0 if graph.nodes[a]["block"] == graph.nodes[b]["block"] else 1.0) + (a + b) % 3
    return of_networkx(graph)


def measurements() -> NodeData:
    sizes, generator = [160, 120, 100, 80], torch.Generator().manual_seed(1)
    means = torch.randn(4, 12, generator=generator).repeat_interleave(torch.tensor(sizes), 0)
    return of_networkx(blocks(sizes, 0.07, 0.02), means + torch.randn(460, 12, generator=generator))


def parts() -> NodeData:
    """Six cliques of unequal size, a path through all processes, and nodes without edges."""
    cliques = [networkx.complete_graph(size) for size in (40, 30, 30, 20, 20, 20)]
    return of_networkx(networkx.disjoint_union_all([*cliques, networkx.path_graph(40), networkx.empty_graph(15)]))


CASES = {
    "words": lambda: load_nodes("cora-sim"),
    "weighted": weighted,
    "measurements": measurements,
    "hard": lambda: of_networkx(blocks([200, 120, 100], 0.05, 0.025)),
    "components": parts,
    "six nodes": lambda: of_networkx(networkx.path_graph(6)),
}


ROWS = "rows of "       # what has a row for each node of a process


def found(data: NodeData) -> dict[str, Any]:
    """What every step finds in the rows of this process."""
    graph, feat, weight, shares = data.graph, data.feat, data.edge_weight, data.graph.shares
    evidence, view = Evidence(graph, feat, weight), edge_view(graph, 3, weight)
    some = torch.arange(shares.start, shares.stop) % 3
    few = torch.where(torch.arange(shares.start, shares.stop) % 2 == 0, some, -1)
    found = {
        ROWS + "edges": view,
        "remarks": remarks(shares, feat),
        "closure": closure(graph, some), ROWS + "components": components(graph), "main": main_clusters(graph, some),
    }  # fmt: skip
    if feat is not None:
        columns = FixedFeatures(feat.shape[1], 3).fit(graph, feat, weight)
        found |= {"weights": auto_weights(feat, shares), "counts": are_counts(feat, shares), ROWS + "columns": columns}
        view = FixedFeatures(feat.shape[1], num_clusters=3).fit(graph, feat, weight)
        found[ROWS + "features"] = view
    for bounded_heads.TRAIN_NODES in (200, 2**16):
        heads, losses = trained_heads(view, 3, 3, torch.Generator().manual_seed(0), shares, epochs=10)
        found[f"losses {bounded_heads.TRAIN_NODES}"] = losses
        for number, cluster in enumerate(hard_clusters(heads, view, shares)):
            found[ROWS + f"head {number} of {bounded_heads.TRAIN_NODES}"] = cluster
    for name, refined in {
        "refined": refine(evidence, some, 3), "continued": continued(evidence, few, 4)[1],
        "seeded": seeded(evidence, view, some, few, 4)[1],
    }.items():  # fmt: skip
        found |= {ROWS + name: refined.cluster, f"{name}, saved": refined.saved}
        found[f"{name}, model"] = torch.cat([part.double().flatten() for part in refined.model.state_dict().values()])
    united = list(unions(Partition(evidence, some), 1))
    found |= {"unions": [pair for _, pair in united], "saved by them": [blocks.saved for blocks, _ in united]}
    found |= {"changes": changes(some, few.where(few > 0, -1), shares)}
    choice = choose(graph, feat, 2, min(5, shares.num_rows // 2), weight)
    best = find_clusters(graph, feat, choice, weight, starts=3, anchors=Anchors(few))
    trials = [(trial["view"], trial["start"], trial["moved"]) for trial in best.trials]
    found |= {"choice": [choice.num_clusters, choice.by, choice.reproducibility, choice.notes]}
    found |= {ROWS + "clusters": best.cluster, ROWS + "confidence": best.confidence, "loss": best.loss}
    return found | {"saved": best.saved, "trials": trials, "notes": best.notes}


def equal(one: Any, other: Any) -> bool:
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(equal(*pair) for pair in zip(one, other, strict=True))
    if isinstance(one, torch.Tensor):
        close = {"atol": 1e-5, "rtol": 1e-5} if one.is_floating_point() else {"atol": 0, "rtol": 0}
        return one.shape == other.shape and torch.allclose(one, other, **close, equal_nan=True)
    if isinstance(one, float):
        return math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-6) or (math.isnan(one) and math.isnan(other))
    return one == other


def different(expected: dict[str, Any], cases: list[str]) -> list[str]:
    """The steps that found something else in the rows of this process than in the whole graph."""
    names = []
    for case in cases:
        data = CASES[case]().of_this_run()
        shares = data.graph.shares
        here, rows = found(data), slice(shares.start, shares.stop)
        for name, value in expected[case].items():
            if not equal(value[rows] if name.startswith(ROWS) else value, here[name]):
                names.append(f"{case}: {name}")
    return names


# ---------------------------------------------------------------- memory, without measuring it


LONG, LAST = 2**15, 512            # nodes of a ring, and those of the last process


class Limited(TorchDispatchMode):
    """Refuses tensors that are as long as the graph has nodes."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for found in tree_leaves(result):
            if isinstance(found, torch.Tensor) and found.dtype != torch.uint8:      # those are pickled, and bounded
                assert max(found.shape, default=0) < LONG, (function, found.shape)
        return result


def few_rows_suffice() -> None:
    """The last process of a ring has few rows, and no tensor of it is as long as the graph, from edges to report."""
    alone = RowShares.of_this_run(LONG)
    bounds = [0, *(LONG - LAST * left for left in range(alone.processes - 1, -1, -1))]
    shares = RowShares(bounds, alone.place)
    nodes = torch.arange(shares.start, shares.stop)
    columns = torch.stack([(nodes - 1) % LONG, (nodes + 1) % LONG], 1).sort(1).values.flatten()
    feat = shares.drawn(lambda count, random: torch.randn(count, 3, generator=random), 0)
    bounded_heads.TRAIN_NODES = halves.SAMPLE = picture.MAX_NODES = report.COMPARED_NODES = 1000
    bounded_heads.CANDIDATES, paths.PATHS, picture.AROUND_EDGES, recipe.RANGE = 500, 500, 500, (2, 4)
    graph = Graph.of_rows(shares, torch.arange(len(nodes) + 1) * 2, columns)        # looks for the rows of each process
    with Limited() if shares.place == shares.processes - 1 else nullcontext():
        data = NodeData(graph, feat, nodes % 3, 3, "ring")
        choice = choose(graph, feat, 2, 4)
        best = find_clusters(graph, feat, choice, starts=2)
        explained = explain(data, best.cluster, best.confidence)
        runs = {"runs": [{"seed": 0, "loss": best.loss, "score": best.saved}], "mean": {}, "std": {}}
        Findings.of(data, "auto", runs, {0: best.cluster}, {0: best.confidence}, explained, [], {})


if __name__ == "__main__":
    folder, processes.ROWS = Path(sys.argv[1]), BLOCK
    with process_group(torch.device("cpu")):
        expected = torch.load(folder / "one.pt", weights_only=False)
        (folder / f"{rank()}.txt").write_text("\n".join(different(expected, sys.argv[2].split(","))))
        if world_size() == 2:
            few_rows_suffice()
