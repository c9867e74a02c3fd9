"""The graph in a report: all nodes of a small one, a sample of a large one, a view to explore and a static picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from html import escape
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from jbpool.clustering.auto.views import FixedFeatures, with_features
from jbpool.clustering.scores import confusion, matched_classes
from jbpool.data import NodeData
from jbpool.data.assemble import undirected
from jbpool.data.datasets import to_csr_tensor
from jbpool.graph import Graph
from jbpool.ops.sparse import is_sparse
from jbpool.report.charts import COLOURS, evenly
from jbpool.report.graph_charts import plane
from jbpool.report.layout import positions
from jbpool.report.page import asset, class_names, pack

MAX_NODES = 20_000
MAX_EDGES = 60_000
LAYOUT_EDGES = 200_000          # that positions are computed from
AROUND_EDGES = 300_000          # to neighbours of a sample, over which its features are smoothed
READ_EDGES = 4_000_000          # held in memory at once
LEAST = 20                      # nodes of a cluster in a sample, if it has as many
STEPS = 4                       # smoothing steps of the features that positions depend on
STATIC_NODES, STATIC_EDGES = 4000, 4000         # in the picture where scripts or WebGL are missing, and in print
SCRIPTS = ("sigma.js", "unpack.js", "explore_parts.js", "explore.js")       # which a page with this view needs


class GraphView(NamedTuple):
    """Nodes and edges that a page shows, n of N nodes."""

    xy: np.ndarray                          # (n, 2) in [-1, 1]
    edges: np.ndarray                       # (m, 2) numbers of shown nodes, every edge once
    cluster: np.ndarray                     # (n,) 0 .. K-1
    cluster_names: Sequence[Any]            # (K,)
    cluster_sizes: Sequence[int]            # (K,) in the whole graph
    degree: np.ndarray                      # (n,) in the whole graph
    ids: Sequence[Any] | np.ndarray         # (n,) numbers or text
    confidence: np.ndarray | None = None    # (n,) in [0, 1]
    label: np.ndarray | None = None         # (n,) 0 .. C-1; -1: unknown
    class_names: Sequence[str] = ()         # (C,)
    class_sizes: Sequence[int] = ()         # (C,) in the whole graph
    matched: Sequence[int] = ()             # (K,) class of each cluster by the best matching; -1: none
    in_space: bool = False                  # whether xy are places of the user's
    sampled: str = ""                       # what is not shown, in a sentence; empty if everything is


def view_graph(
    data: NodeData, cluster: Tensor, names: list[int], confidence: Tensor | None = None, seed: int = 0
) -> GraphView:
    """Return the nodes and edges to show, and their positions.

    Nothing here costs more than a pass over the nodes, except for the nodes shown. ``cluster``: ``(N,)`` numbers 0 ..
    K-1, none empty; ``names``: their numbers in ``assign.csv``. The seed decides the sample and the positions.
    """
    place, num_nodes = cluster.numpy(), data.graph.num_nodes
    sizes = np.bincount(place, minlength=len(names))
    rng = np.random.default_rng(seed)
    nodes = np.arange(num_nodes) if num_nodes <= MAX_NODES else sample(place, sizes, MAX_NODES, rng)
    found = _edges(data, nodes, rng)
    edges = _some(found.inside, MAX_EDGES, rng)
    label = None if data.label is None else data.label.numpy()
    classes = [] if label is None else class_names(data.class_names, data.num_classes or 0)
    trust = None if confidence is None else confidence.numpy()[nodes]
    return GraphView(
        xy=_in_space(data.place[nodes]) if data.place is not None else
        positions(_smoothed(data, nodes, found.around, len(names), seed), _some(found.inside, LAYOUT_EDGES, rng), seed),
        edges=edges,
        cluster=place[nodes],
        cluster_names=names,
        cluster_sizes=sizes.tolist(),
        degree=_degrees(data, nodes),
        ids=nodes if data.ids is None else data.ids[nodes],
        confidence=trust if trust is not None and np.isfinite(trust).all() else None,
        label=None if label is None else label[nodes],
        class_names=classes,
        class_sizes=[] if label is None else np.bincount(label[label >= 0], minlength=len(classes)).tolist(),
        matched=[] if data.label is None else matched_classes(confusion(cluster, data.label), len(names)),
        in_space=data.place is not None,
        sampled=_omitted(num_nodes, len(nodes), found.total, len(edges)),
    )


def _in_space(place: np.ndarray) -> np.ndarray:
    """Return places ``(n, 2)`` in [-1, 1], in proportion; y grows upwards, in images downwards."""
    middle = (place.max(0) + place.min(0)) / 2
    return (place - middle) / max(float(np.abs(place - middle).max()), 1e-12) * [1, -1]


def sample(cluster: np.ndarray, sizes: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Return at most about ``count`` nodes, stratified by cluster; ``LEAST`` of each cluster that has that many."""
    floor = np.minimum(sizes, min(LEAST, count // len(sizes)))
    left = (count - floor.sum()) / max(int((sizes - floor).sum()), 1)                       # share of the others
    quota = floor + ((sizes - floor) * left).astype(int)
    order = rng.permutation(len(cluster))
    order = order[np.argsort(cluster[order], kind="stable")]                                # by cluster, each shuffled
    rank = np.arange(len(order)) - (np.cumsum(sizes) - sizes)[cluster[order]]
    return np.sort(order[rank < quota[cluster[order]]])


def _some(edges: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    return edges if len(edges) <= count else edges[np.sort(rng.choice(len(edges), count, replace=False))]


class _Edges(NamedTuple):
    """Edges around the nodes to show."""

    inside: np.ndarray              # (m, 2) among them, each once and by their places
    around: np.ndarray              # (E', 2) that end at one of them, by the numbers of the nodes
    total: int                      # how many there are inside; of very many, only a random part was kept


def _edges(data: NodeData, nodes: np.ndarray, rng: np.random.Generator) -> _Edges:
    """Return edges around these nodes, read a few million at a time."""
    place = np.full(data.graph.num_nodes, -1, dtype=np.int64)
    place[nodes] = np.arange(len(nodes))
    degree = _degrees(data, nodes).cumsum()
    total = int(degree[-1]) if len(nodes) else 0
    inside, around, count = [], [], 0
    for part in np.split(nodes, np.searchsorted(degree, np.arange(READ_EDGES, total, READ_EDGES))):
        edges = _edges_into(data.graph, part)
        within = place[edges]
        within = within[(within[:, 0] >= 0) & (within[:, 0] < within[:, 1])]
        count += len(within)
        share = min(1.0, READ_EDGES / max(total, 1))
        inside.append(_some(within, math.ceil(share * len(within)), rng))
        around.append(_some(edges, math.ceil(share * len(edges)), rng))
    return _Edges(np.concatenate(inside), np.concatenate(around), count)


def _degrees(data: NodeData, nodes: np.ndarray) -> np.ndarray:
    return data.graph.by_target.pointers.diff()[torch.from_numpy(nodes)].long().numpy()


def _edges_into(graph: Graph, nodes: np.ndarray) -> np.ndarray:
    """Return source and target of the edges that end in these nodes, ``(E', 2)``."""
    pointers, sources, _ = graph.by_target
    first = pointers[torch.from_numpy(nodes)].long().numpy()
    count = pointers.diff()[torch.from_numpy(nodes)].long().numpy()
    entry = np.repeat(first - (count.cumsum() - count), count) + np.arange(count.sum())
    return np.column_stack([sources[torch.from_numpy(entry)].long().numpy(), np.repeat(nodes, count)])


def _smoothed(data: NodeData, nodes: np.ndarray, around: np.ndarray, num_clusters: int, seed: int) -> np.ndarray:
    """Return smoothed and reduced features ``(n, D)`` of nodes; of a sample, smoothed over its neighbours only."""
    place = nodes
    if len(nodes) < data.graph.num_nodes:
        around = _some(around, AROUND_EDGES, np.random.default_rng(seed))
        near = np.unique(np.concatenate([nodes, around[:, 0]]))
        data, place = _part(data, near, np.searchsorted(near, around)), np.searchsorted(near, nodes)
    data = with_features(data, num_clusters)
    assert data.feat is not None
    fixed = FixedFeatures(data.feat.shape[1], STEPS, num_clusters=num_clusters)
    return fixed.fit(data.graph, data.feat, data.edge_weight, seed).numpy()[place]


def _part(data: NodeData, nodes: np.ndarray, edges: np.ndarray) -> NodeData:
    """Return the graph of some nodes and these edges among them, unweighted, with their features."""
    source, target = (torch.from_numpy(end) for end in undirected(edges[:, 0], edges[:, 1], len(nodes)))
    graph = Graph(torch.stack([source, target]), len(nodes))
    feat = feature_rows(data.feat, nodes)
    return replace(data, graph=graph, feat=feat, label=None, edge_weight=None, ids=None, first=None)


def feature_rows(feat: Tensor | None, nodes: np.ndarray) -> Tensor | None:
    """Return the features of some nodes, dense or CSR: ``(N, D)`` to ``(n, D)``."""
    if feat is None or not is_sparse(feat):
        return None if feat is None else feat[torch.from_numpy(nodes)]
    parts = (part.numpy() for part in (feat.values(), feat.col_indices(), feat.crow_indices()))
    return to_csr_tensor(scipy.sparse.csr_matrix(tuple(parts), shape=tuple(feat.shape))[nodes])


def _omitted(num_nodes: int, nodes: int, inside: int, edges: int) -> str:
    """Return what is not shown, in a sentence."""
    said = []
    if nodes < num_nodes:
        said.append(f"A random sample of the {num_nodes:,} nodes, stratified by cluster.")
        said.append("Degrees are those of the whole graph.")
    if edges < inside:
        said.append(f"A random sample of the {inside:,} edges between {'these' if nodes < num_nodes else 'the'} nodes.")
    return " ".join(said)


# ---------------------------------------------------------------- the section of a page


def graph_section(view: GraphView, title: str = "The graph") -> str:
    """Return the section of a page. The page needs the scripts ``SCRIPTS``."""
    nodes, edges = evenly(len(view.xy), STATIC_NODES), view.edges[evenly(len(view.edges), STATIC_EDGES)]
    picture = plane(view.xy, view.cluster, edges, nodes, view.cluster_names, "the graph in the plane")
    where = (
        "are where obsm['spatial'] has them" if view.in_space else
        "near each other have similar smoothed features or share edges"
    )  # fmt: skip
    note = (
        f"{len(view.xy):,} nodes and {len(view.edges):,} edges. Nodes {where}; edges within a cluster have its colour, "
        f"edges between clusters are grey. {view.sampled}"
    )
    return (
        f'<section class="wide graph-view"><h2>{escape(title)}</h2><div class="static">{picture}</div>'
        f'{asset("explore.html")}<p>{escape(note.strip())}</p>'
        f'<script type="text/plain" class="packed">{_packed(view)}</script></section>'
    )


def _packed(view: GraphView) -> str:
    ids = np.asarray(view.ids)
    by_number = ids.dtype.kind in "iu" and (len(ids) == 0 or 0 <= ids.min() <= ids.max() < 2**32)
    text: dict[str, Any] = {
        "clusters": _groups(view.cluster_names, view.cluster_sizes),
        "classes": _groups(view.class_names, view.class_sizes),
        "matched": list(map(int, view.matched)),
        "palette": COLOURS,
        "sampled": bool(view.sampled),
    }
    place = np.round((view.xy + 1) / 2 * 65535).clip(0, 65535).astype(np.uint16)            # (n, 2)
    edges = view.edges[np.lexsort(view.edges.T[::-1])]                                      # sorted: compresses better
    arrays = {
        "x": place[:, 0], "y": place[:, 1], "cluster": smallest(view.cluster), "degree": smallest(view.degree),
        "source": smallest(edges[:, 0]), "target": smallest(edges[:, 1]),
    }  # fmt: skip
    if by_number:
        arrays["id"] = ids.astype(np.uint32)
    else:
        text["ids"] = [str(name) for name in ids.tolist()]
    if view.confidence is not None:
        arrays["confidence"] = np.round(view.confidence.clip(0, 1) * 10000).astype(np.uint16)
    if view.label is not None:
        arrays["label"] = smallest(np.where(view.label < 0, len(view.class_names), view.label))
    return pack(text, arrays)


def _groups(names: Sequence[Any], sizes: Sequence[int]) -> list[dict[str, Any]]:
    return [{"name": str(name), "size": int(size)} for name, size in zip(names, sizes, strict=True)]


def smallest(array: np.ndarray) -> np.ndarray:
    """Return non-negative whole numbers in the smallest type that holds them."""
    return array.astype(np.min_scalar_type(int(array.max(initial=0))))
