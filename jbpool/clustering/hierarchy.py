"""Clusters at several levels: unions above those that were found, and, of clusters too large, parts below."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from jbpool.checks import check_count
from jbpool.clustering.auto.recipe import choose, find_clusters
from jbpool.clustering.auto.views import edge_view
from jbpool.clustering.explain import Merges
from jbpool.clustering.picture import feature_rows
from jbpool.data import NodeData
from jbpool.errors import DataError
from jbpool.graph import Graph

if TYPE_CHECKING:
    import pandas as pd

STARTS = 2                  # of every view of a cluster that is divided
MOST_PARTS = 30             # that a cluster is divided into at once
REPRODUCIBLE = 0.2          # agreement of halves below which parts are noise


class Community(NamedTuple):
    """A cluster, a union of clusters or a part of one."""

    level: int                      # 0: in no other one
    cluster: int                    # its number; clusters that were found keep theirs
    parent: int                     # number of the one that contains it; -1: none
    nodes: np.ndarray               # (n,) numbers of its nodes
    balanced: bool                  # whether it is a piece of equal size, since nothing reproducible divides its parent


def hierarchy(
    data: NodeData, cluster: Tensor, merges: Merges | None, max_size: int | None = None, seed: int = 0
) -> list[Community]:
    """Return communities from the coarsest union down: those with the same parent share its nodes between them.

    ``cluster``: ``(N,)``, -1 for none. ``max_size``: nodes of the smallest communities, at most.
    """
    max_size = None if max_size is None else check_count(max_size, "max_size")
    numbers = cluster[cluster >= 0].unique().tolist()
    nodes = {number: (cluster == number).nonzero().squeeze(1).numpy() for number in numbers}
    parent, balanced = dict.fromkeys(numbers, -1), set()
    fresh = max(numbers, default=-1) + 1
    for children in () if merges is None else merges.children.tolist():
        pair = [list(parent)[place] for place in children]              # places count clusters, then unions
        nodes[fresh], parent[fresh] = np.sort(np.concatenate([nodes[child] for child in pair])), -1
        parent.update(dict.fromkeys(pair, fresh))
        fresh += 1
    large = [number for number in numbers if max_size is not None and len(nodes[number]) > max_size]
    while large and max_size is not None:
        whole = large.pop()
        parts, even = _divided(data, nodes[whole], max_size, seed)
        for part in parts:
            nodes[fresh], parent[fresh] = part, whole
            balanced |= {fresh} if even else set()
            large += [fresh] if len(part) > max_size else []
            fresh += 1
    level = {number: len(list(_ancestors(number, parent))) for number in parent}
    order = sorted(parent, key=lambda number: (level[number], number))
    return [Community(level[k], k, parent[k], nodes[k], k in balanced) for k in order]


def as_table(communities: list[Community], ids: np.ndarray) -> pd.DataFrame:
    """Return a row for each, with the ids of its nodes."""
    import pandas as pd

    table = pd.DataFrame(communities, columns=list(Community._fields))
    table.insert(3, "size", table["nodes"].map(len))
    return table.assign(nodes=[ids[community.nodes].tolist() for community in communities])


def by_level(table: pd.DataFrame, ids: np.ndarray) -> pd.DataFrame:
    """Return the cluster of every node at each level, the last one that it is in; ``table``: as of ``as_table``."""
    import pandas as pd

    place, cluster, levels = pd.Index(ids), np.full(len(ids), -1), {}
    for level, rows in table.groupby("level"):
        for number, nodes in zip(rows["cluster"], rows["nodes"], strict=True):
            cluster[place.get_indexer(nodes)] = number
        levels[f"level {level}"] = cluster.copy()
    return pd.DataFrame(levels)


def _ancestors(number: int, parent: dict[int, int]) -> Iterator[int]:
    while (number := parent[number]) >= 0:
        yield number


def _divided(data: NodeData, nodes: np.ndarray, max_size: int, seed: int) -> tuple[list[np.ndarray], bool]:
    """Divide a cluster by the recipe, else evenly along its edges. Returns: the parts, and whether they are even."""
    part, count = subgraph(data, nodes), -(-len(nodes) // max_size)
    most = min(count, MOST_PARTS)
    try:
        choice = choose(part.graph, part.feat, most, most, part.edge_weight, seed)
        if choice.reproducibility is None or choice.reproducibility >= REPRODUCIBLE:
            label = find_clusters(part.graph, part.feat, choice, part.edge_weight, seed, STARTS).cluster.numpy()
            label[label < 0] = np.bincount(label[label >= 0]).argmin()          # its edges all leave the cluster
            groups = [nodes[label == number] for number in np.unique(label)]
            if len(groups) > 1:
                return groups, False
    except DataError:                                               # nothing distinguishes the nodes
        pass
    rows = edge_view(part.graph, 2, part.edge_weight, seed)
    order = torch.atan2(rows[:, -1], rows[:, 0]).argsort(stable=True).numpy()
    return [np.sort(piece) for piece in np.array_split(nodes[order], count)], True


def subgraph(data: NodeData, nodes: np.ndarray) -> NodeData:
    """Return some nodes of a graph, the edges among them and their features; without names and labels."""
    place = torch.full((data.graph.num_nodes,), -1)
    place[torch.from_numpy(nodes)] = torch.arange(len(nodes))
    ends = place[data.graph.edge_index.long()]                                  # (2, E)
    kept = (ends >= 0).all(0)
    weight = None if data.edge_weight is None else data.edge_weight[kept]
    graph, feat = Graph(ends[:, kept], len(nodes)), feature_rows(data.feat, nodes)
    return replace(data, graph=graph, feat=feat, edge_weight=weight, label=None, ids=None, first=None)
