"""The benchmark for graph pooling of Bianchi et al.: its four published sets, and a generator of the same rule.

A graph consists of three regions of the plane: two half moons (kinds 0 and 1 of nodes), a Gaussian with an inner and an
outer half (2 and 3), and a blob (4), at three places. The class permutes the regions cyclically; node features are the
one-hot kind, edges join each point with its nearest neighbours. Neither the features alone nor the edges alone
determine the class: it depends on which regions are adjacent.
"""

from __future__ import annotations

import io
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from sklearn.neighbors import NearestNeighbors

from jbpool.checks import check_count, check_positive
from jbpool.data.arrays import Arrays, checked_csr, read_members
from jbpool.data.assemble import pack_graphs, packed_graphs, undirected
from jbpool.data.catalogue import GCB
from jbpool.data.datasets import GraphData, Split
from jbpool.data.download import Source, fetch
from jbpool.data.parsed import cached, check_counts
from jbpool.data.sets.pickles import read_pickle
from jbpool.errors import DataError, reported_as

PARSER = 1
URL = "https://github.com/FilippoMB/Benchmark_dataset_for_graph_classification/raw/master/datasets/"
PARTS = ("tr", "val", "te")
KINDS = 5
CLASSES = 3
PLACES = np.array([[0.0, 0.0], [2.0, -2.0], [4.0, 0.0]])
ORDERS = ((2, 0, 1), (1, 2, 0), (0, 1, 2))      # class -> places of the moons, the Gaussian and the blob
MOON_NOISE = 0.1


def source(name: str) -> Source:
    """Return the file of a published set; its counts are checked."""
    file = GCB[name].file
    return Source(f"gcb/{file}", (URL + file,), check=lambda path: _checked(name, path))


def load_gcb(name: str, root: str | Path | None = None) -> GraphData:
    """Load one of ``GCB`` with its official split, from the first data root that has it, else downloaded."""
    path = fetch(source(name), root, offline="jbpool classify --cfg gcb-sim (generated)")
    ends = np.cumsum((0, *GCB[name].counts))
    split = Split(*(torch.arange(start, end) for start, end in pairwise(ends.tolist())))
    arrays = _checked(name, path)
    del arrays["counts"]
    return packed_graphs(name, arrays, num_classes=CLASSES, official_split=split)


def _checked(name: str, path: Path) -> Arrays:
    arrays = cached(name, [path], PARSER, lambda: read_gcb(path))
    check_counts(path, name, "training, validation and test graphs", arrays["counts"].tolist(), GCB[name].counts)
    return arrays


def read_gcb(path: Path) -> Arrays:
    """Return the graphs of a file in the order training, validation, test; ``counts`` has their numbers."""
    graphs, labels, counts = [], [], []
    with reported_as(path, "not the arrays of the benchmark", "; download the file again"):
        for part in PARTS:
            members = read_members(path, [f"{part}_{what}.npy" for what in ("adj", "feat", "class")])
            adjacency, feat, one_hot = map(_read_npy, members.values())
            for matrix, rows, _ in zip(adjacency, feat, one_hot, strict=True):
                edges = checked_csr(matrix).tocoo()
                graphs.append((*undirected(edges.row, edges.col, len(rows)), np.asarray(rows, dtype=np.float32)))
            labels.append(one_hot.argmax(1))
            counts.append(len(feat))
        return {**pack_graphs(graphs), "label": np.concatenate(labels), "counts": np.array(counts)}


def _read_npy(content: bytes) -> np.ndarray:
    """Read the array of an .npy file from bytes, also one of objects."""
    file = io.BytesIO(content)
    np.lib.format.read_magic(file)
    _, _, dtype = np.lib.format.read_array_header_1_0(file)
    return read_pickle(file) if dtype.hasobject else np.load(io.BytesIO(content), allow_pickle=False)


def gcb_sim(
    num_graphs: int = 1800, max_nodes: int = 200, k: int = 3, spread: float = 0.2, seed: int = 0
) -> GraphData:
    """Generate graphs by the rule of the benchmark, in any number and size.

    The defaults correspond to ``gcb-hard``; ``k=5`` and ``spread=0.4`` to ``gcb-easy``, ``max_nodes=80`` to the small
    sets.

    Parameters
    ----------
    num_graphs : int, default 1800
        Number of graphs.
    max_nodes : int, default 200
        Graphs have half as many nodes at least, and fewer than this; numbers are rounded down to a multiple of three.
    k : int, default 3
        Every node is joined with its k nearest neighbours. A small k leaves regions disconnected.
    spread : float, default 0.2
        Variance of the Gaussian and half the standard deviation of the blob: overlap of the regions.
    seed : int, default 0
        Seed of the generator.
    """
    check_count(num_graphs, "num_graphs")
    check_count(k, "k")
    check_count(max_nodes, "max_nodes")
    if max_nodes // 2 < 6 or max_nodes // 2 - 2 <= k:
        raise DataError(f"max_nodes={max_nodes} with k={k}: give at least 12, and more than twice k + 2.")
    check_positive(spread, "spread")
    rng = np.random.default_rng(seed)
    label = rng.permutation(np.arange(num_graphs) % CLASSES)
    graphs = []
    for graph_label in label:
        count = int(rng.integers(max_nodes // 2, max_nodes)) // 3
        points, kind = _regions(rng, count, PLACES[list(ORDERS[graph_label])], spread)
        graphs.append((*nearest_neighbours(points / points.max(0), k), np.eye(KINDS, dtype=np.float32)[kind]))
    return packed_graphs("gcb-sim", {**pack_graphs(graphs), "label": label}, num_classes=CLASSES)


def _regions(
    rng: np.random.Generator, count: int, places: np.ndarray, spread: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return ``count`` points of each region around its place, ``(3 * count, 2)``, and their kinds."""
    upper = np.linspace(0, np.pi, count // 2)
    lower = np.linspace(0, np.pi, count - count // 2)
    moons = np.concatenate(
        [np.stack([np.cos(upper), np.sin(upper)], 1), np.stack([1 - np.cos(lower), 0.5 - np.sin(lower)], 1)]
    )
    moons += MOON_NOISE * rng.standard_normal(moons.shape)
    gaussian = spread**0.5 * rng.standard_normal((count, 2))
    outer = np.argsort(np.argsort((gaussian**2).sum(1))) >= count // 2      # by rank of the distance from the centre
    blob = 2 * spread * rng.standard_normal((count, 2))
    points = np.concatenate([region + place for region, place in zip((moons, gaussian, blob), places, strict=True)])
    return points, np.concatenate([np.arange(count) >= count // 2, 2 + outer, np.full(count, 4)]).astype(np.int64)


def nearest_neighbours(points: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return both directions of the edges from every point to its k nearest others; ``(N, 2)`` points."""
    neighbours = NearestNeighbors(n_neighbors=k).fit(points).kneighbors(return_distance=False)      # without itself
    return undirected(np.arange(len(points)).repeat(k), neighbours.ravel(), len(points))
