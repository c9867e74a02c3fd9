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
) -> GraphView | None:
    """Return the nodes and edges to show, and their positions, in the first process; in others None.

    Nothing here costs more than a pass over the nodes, except for the nodes shown. ``cluster``: ``(n,)`` numbers 0 ..
    K-1, none empty; ``names``: their numbers in ``assign.csv``. The seed decides the sample and the positions.
    """
    shares, rng = data.graph.shares, np.random.default_rng(seed)
    sizes = shares.counts(cluster, len(names)).numpy()
    nodes = np.arange(len(cluster))
    if shares.num_rows > MAX_NODES:
        own = cluster.bincount(minlength=len(names))
        before = shares.stacked(own)[: shares.place].sum(0).numpy()
        nodes = sample(cluster.numpy(), sizes, MAX_NODES, rng, before)
    every = np.concatenate(shares.gather(nodes + shares.start))                             # (m,) numbers of nodes
    found = _edges(data, nodes, every, rng)
    feat = None if data.place is not None else _smoothed(data, every, found.around, len(names), seed)
    classes = [] if data.label is None else class_names(data.class_names, data.num_classes or 0)
    label = torch.full_like(cluster, -1) if data.label is None else data.label
    class_sizes = shares.counts(label, len(classes)).tolist()
    matched = [] if data.label is None else matched_classes(confusion(cluster, label, shares), len(names))
    trust = np.full(len(cluster), np.nan) if confidence is None else confidence.numpy()
    place = np.zeros((len(cluster), 2)) if data.place is None else data.place
    own_rows = cluster.numpy(), label.numpy(), trust, _degrees(data, np.arange(len(cluster))), data.own_ids, place
    parts = shares.to_first([rows[nodes] for rows in own_rows])
    inside = shares.to_first(found.inside)
    if not parts:
        return None
    shown, labels, trust, degree, ids, place = (np.concatenate(rows) for rows in zip(*parts, strict=True))
    among = np.concatenate(inside)
    edges = _some(among, MAX_EDGES, rng)
    return GraphView(
        xy=_in_space(place) if feat is None else positions(feat, _some(among, LAYOUT_EDGES, rng), seed),
        edges=edges,
        cluster=shown,
        cluster_names=names,
        cluster_sizes=sizes.tolist(),
        degree=degree,
        ids=ids,
        confidence=trust if np.isfinite(trust).all() else None,
        label=None if data.label is None else labels,
        class_names=classes,
        class_sizes=class_sizes,
        matched=matched,
        in_space=data.place is not None,
        sampled=_omitted(shares.num_rows, len(every), found.total, len(edges)),
    )


def _in_space(place: np.ndarray) -> np.ndarray:
    """Return places ``(n, 2)`` in [-1, 1], in proportion; y grows upwards, in images downwards."""
    middle = (place.max(0) + place.min(0)) / 2
    return (place - middle) / max(float(np.abs(place - middle).max()), 1e-12) * [1, -1]


def sample(
    cluster: np.ndarray, sizes: np.ndarray, count: int, rng: np.random.Generator, before: np.ndarray | int = 0
) -> np.ndarray:
    """Return at most about ``count`` nodes, stratified by cluster; ``LEAST`` of each cluster that has that many.

    Of a divided graph, the share of this process: ``sizes`` are those in all processes, ``before`` ``(K,)`` in earlier
    ones.
    """
    floor = np.minimum(sizes, min(LEAST, count // len(sizes)))
    left = (count - floor.sum()) / max(int((sizes - floor).sum()), 1)                       # share of the others
    quota = floor + ((sizes - floor) * left).astype(int)
    own = np.bincount(cluster, minlength=len(sizes))
    quota = (before + own) * quota // np.maximum(sizes, 1) - before * quota // np.maximum(sizes, 1)
    order = rng.permutation(len(cluster))
    order = order[np.argsort(cluster[order], kind="stable")]                                # by cluster, each shuffled
    rank = np.arange(len(order)) - (np.cumsum(own) - own)[cluster[order]]
    return np.sort(order[rank < quota[cluster[order]]])


def _some(edges: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    return edges if len(edges) <= count else edges[np.sort(rng.choice(len(edges), count, replace=False))]


class _Edges(NamedTuple):
    """Edges around the nodes to show."""

    inside: np.ndarray              # (m, 2) among them, each once and by their places: those that end in this process
    around: np.ndarray              # (E', 2) that end at one of this process, by the numbers of the nodes
    total: int                      # how many there are inside; of very many, only a random part was kept


def _edges(data: NodeData, nodes: np.ndarray, every: np.ndarray, rng: np.random.Generator) -> _Edges:
    """Return edges around these nodes of this process, read a few million at a time. ``every``: those of all."""
    shares, degree = data.graph.shares, _degrees(data, nodes).cumsum()
    total = shares.total(int(degree[-1]) if len(nodes) else 0)
    inside, around, count = [], [], 0
    for part in np.split(nodes, np.searchsorted(degree, np.arange(READ_EDGES, total, READ_EDGES))):
        edges = _edges_into(data.graph, part)
        within = np.searchsorted(every, edges[edges[:, 0] < edges[:, 1]])
        within = within[np.isin(edges[edges[:, 0] < edges[:, 1], 0], every)]
        count += len(within)
        share = min(1.0, READ_EDGES / max(total, 1))
        inside.append(_some(within, math.ceil(share * len(within)), rng))
        around.append(_some(edges, math.ceil(share * len(edges)), rng))
    return _Edges(np.concatenate(inside), np.concatenate(around), shares.total(count))


def _degrees(data: NodeData, nodes: np.ndarray) -> np.ndarray:
    return data.graph.by_target.pointers.diff()[torch.from_numpy(nodes)].long().numpy()


def _edges_into(graph: Graph, nodes: np.ndarray) -> np.ndarray:
    """Return source and target of the edges that end in these nodes, ``(E', 2)``."""
    pointers, sources, _ = graph.by_target
    first = pointers[torch.from_numpy(nodes)].long().numpy()
    count = pointers.diff()[torch.from_numpy(nodes)].long().numpy()
    entry = np.repeat(first - (count.cumsum() - count), count) + np.arange(count.sum())
    source = graph.halo.numbers[sources[torch.from_numpy(entry)].long()].long().numpy()
    return np.column_stack([source, np.repeat(nodes + graph.shares.start, count)])


def _smoothed(
    data: NodeData, nodes: np.ndarray, around: np.ndarray, num_clusters: int, seed: int
) -> np.ndarray | None:
    """Return smoothed and reduced features ``(m, D)`` of nodes; of a sample, smoothed over its neighbours only.

    In the first process; in others None.
    """
    shares, few = data.graph.shares, len(nodes) < data.graph.shares.num_rows
    if few:
        share = math.ceil(AROUND_EDGES * len(around) / max(1, shares.total(len(around))))
        around = np.concatenate(shares.gather(_some(around, share, np.random.default_rng(seed))))
        near = np.unique(np.concatenate([nodes, around[:, 0]]))
        parts = shares.to_first(_numpy_rows(data, near[(near >= shares.start) & (near < shares.stop)] - shares.start))
        if not parts:
            return None
        data = _part(data, near, np.searchsorted(near, around), parts)
    data = with_features(data, num_clusters)
    assert data.feat is not None
    fixed = FixedFeatures(data.feat.shape[1], STEPS, num_clusters=num_clusters)
    rows = fixed.fit(data.graph, data.feat, data.edge_weight, seed).numpy()
    if few:
        return rows[np.searchsorted(near, nodes)]
    whole = shares.to_first(rows)
    return np.concatenate(whole) if whole else None


def _part(data: NodeData, nodes: np.ndarray, edges: np.ndarray, parts: list[Any]) -> NodeData:
    """Return the graph of some nodes and these edges among them, unweighted; ``parts``: their features."""
    source, target = (torch.from_numpy(end) for end in undirected(edges[:, 0], edges[:, 1], len(nodes)))
    graph, feat = Graph(torch.stack([source, target]), len(nodes)), None
    if data.feat is not None:
        sparse = is_sparse(data.feat)
        feat = to_csr_tensor(scipy.sparse.vstack(parts)) if sparse else torch.from_numpy(np.concatenate(parts))
    return replace(data, graph=graph, feat=feat, label=None, edge_weight=None, ids=None, first=None)


def _numpy_rows(data: NodeData, nodes: np.ndarray) -> Any:
    """Return the features of some nodes as they are sent."""
    if data.feat is None:
        return None
    if not is_sparse(data.feat):
        return data.feat[torch.from_numpy(nodes)].numpy()
    parts = (part.numpy() for part in (data.feat.values(), data.feat.col_indices(), data.feat.crow_indices()))
    return scipy.sparse.csr_matrix(tuple(parts), shape=tuple(data.feat.shape))[nodes]


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
