"""Generated data: attributed block models, simulated citation graphs, and graphs classified by their coarse shape.

All data are drawn from one seeded ``numpy`` generator: the same seed gives the same data.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse
import torch

from jbpool.checks import check_cluster_sizes, check_count, check_fraction, check_positive
from jbpool.data.assemble import pack_graphs, packed_graphs, undirected
from jbpool.data.catalogue import CITATION, SIMULATED
from jbpool.data.datasets import GraphData, NodeData, row_normalized, to_csr_tensor
from jbpool.errors import DataError
from jbpool.graph import Graph

# Words per paper, measured on the real datasets.
_WORDS = {"cora": 18.2, "citeseer": 31.7, "pubmed": 50.1, "dblp": 5.2}


def sbm(
    num_nodes: int = 1000,
    num_clusters: int = 4,
    cluster_sizes: Sequence[float] | None = None,
    avg_degree: float = 10.0,
    mixing: float = 0.2,
    num_features: int = 128,
    words: float = 12.0,
    feature_noise: float = 0.5,
    seed: int = 0,
    name: str = "sbm",
) -> NodeData:
    """Generate an attributed, degree-corrected stochastic block model.

    Parameters
    ----------
    num_nodes : int, default 1000
        Number of nodes.
    num_clusters : int, default 4
        Number of clusters.
    cluster_sizes : sequence of float, optional
        Proportions of the clusters, which sum to one. Default: equal sizes.
    avg_degree : float, default 10
        Average degree.
    mixing : float, default 0.2
        Share of edges whose second node is drawn from the whole graph instead of the cluster.
    num_features : int, default 128
        Size of the vocabulary; each cluster has an equal part of its own.
    words : float, default 12
        Average number of words per node.
    feature_noise : float, default 0.5
        Share of words drawn from the whole vocabulary instead of the cluster's part.
    seed : int, default 0
        Seed of the generator.
    name : str, default "sbm"
        Name of the dataset.
    """
    check_count(num_nodes, "num_nodes")
    check_count(num_clusters, "num_clusters")
    check_count(num_features, "num_features")
    for value, what in ((mixing, "mixing"), (feature_noise, "feature_noise")):
        if value != 1:
            check_fraction(value, what)
    if avg_degree != 0:
        check_positive(avg_degree, "avg_degree")
    check_positive(words, "words")
    equal = [1 / num_clusters] * num_clusters
    share = check_cluster_sizes(equal if cluster_sizes is None else cluster_sizes, num_clusters).numpy()
    if num_nodes < num_clusters:
        raise DataError(f"num_nodes={num_nodes} is less than num_clusters={num_clusters}: give more nodes.")
    rng = np.random.default_rng(seed)
    label = rng.permutation(np.repeat(np.arange(num_clusters), _shares_to_counts(share, num_nodes)))
    source, target = _block_edges(rng, label, round(num_nodes * avg_degree / 2), mixing)
    feat = _bags_of_words(rng, label, num_clusters, num_features, words, feature_noise)
    graph = Graph(torch.from_numpy(np.stack([source, target])), num_nodes)
    return NodeData(graph, to_csr_tensor(row_normalized(feat)), torch.from_numpy(label), num_clusters, name)


def simulated(name: str, seed: int = 0) -> NodeData:
    """Generate ``cora-sim`` and so on: a block model with as many nodes, edges, features, classes as the real set.

    For runs of realistic size without the files. Scores on it say nothing about the real dataset.
    """
    real = SIMULATED[name]
    nodes, edges, sizes = CITATION[real].nodes, CITATION[real].edges, CITATION[real].class_sizes
    return sbm(
        nodes, len(sizes), [size / nodes for size in sizes], edges / nodes, num_features=CITATION[real].features,
        words=_WORDS[real], feature_noise=0.7, seed=seed, name=name,
    )  # fmt: skip


def _shares_to_counts(share: np.ndarray, total: int) -> np.ndarray:
    """Round ``share * total`` to whole numbers that sum to ``total`` (largest remainder)."""
    exact = share * total
    counts = np.floor(exact).astype(np.int64)
    rest = np.argsort(counts - exact, kind="stable")[: total - counts.sum()]
    counts[rest] += 1
    return counts


def _block_edges(
    rng: np.random.Generator, label: np.ndarray, count: int, mixing: float
) -> tuple[np.ndarray, np.ndarray]:
    """Draw ``count`` undirected edges, mostly within a cluster; nodes have heavy-tailed propensities."""
    num_nodes = len(label)
    sizes = np.bincount(label)
    if count > num_nodes * (num_nodes - 1) // 4 or (1 - mixing) * count > (sizes * (sizes - 1)).sum() / 4:
        raise DataError(f"{count} edges are too many for clusters of these sizes; lower avg_degree or raise mixing.")
    propensity = rng.random(num_nodes) ** -0.4                      # Pareto with exponent 2.5: few hubs, many leaves
    by_cluster = np.argsort(label, kind="stable")
    weight = np.cumsum(propensity[by_cluster])
    end = weight[np.cumsum(sizes) - 1]
    start = np.concatenate([[0.0], end[:-1]])

    def draw(low: np.ndarray | float, high: np.ndarray | float, size: int) -> np.ndarray:
        """Draw nodes by propensity, between two points of the cumulative sum."""
        point = low + (high - low) * rng.random(size)
        return by_cluster[np.minimum(np.searchsorted(weight, point, side="right"), num_nodes - 1)]

    codes: np.ndarray = np.empty(0, dtype=np.int64)
    for _ in range(200):                    # usually a few rounds; hubs can exhaust a small, dense cluster
        size = 2 * (count - len(codes)) + 16
        one = draw(0.0, weight[-1], size)
        anywhere = rng.random(size) < mixing
        low, high = np.where(anywhere, 0.0, start[label[one]]), np.where(anywhere, weight[-1], end[label[one]])
        other = draw(low, high, size)
        code = (np.minimum(one, other) * num_nodes + np.maximum(one, other))[one != other]
        codes = np.concatenate([codes, code])
        _, first = np.unique(codes, return_index=True)
        codes = codes[np.sort(first)]
        if len(codes) >= count:
            break
    else:
        raise DataError("the clusters are too small for so many internal edges; lower avg_degree or raise mixing.")
    return undirected(*np.divmod(codes[:count], num_nodes), num_nodes)


def _bags_of_words(
    rng: np.random.Generator, label: np.ndarray, num_clusters: int, num_features: int, words: float, noise: float
) -> scipy.sparse.csr_matrix:
    """Draw one binary bag of words per node; the first words of each cluster's part are the most frequent."""
    num_nodes = len(label)
    length = 1 + rng.poisson(max(words - 1, 0), num_nodes)
    row = np.repeat(np.arange(num_nodes), length)
    part = num_features / num_clusters
    own = (label[row] + rng.random(len(row)) ** 2) * part
    common = rng.random(len(row)) * num_features
    word = np.where(rng.random(len(row)) < noise, common, own).astype(np.int64).clip(0, num_features - 1)
    word = rng.permutation(num_features)[word]
    matrix = scipy.sparse.csr_matrix((np.ones(len(row)), (row, word)), shape=(num_nodes, num_features))
    matrix.data[:] = 1
    return matrix


# Links between six groups of nodes: trees with five links each, which differ only in their coarse shape.
_SHAPES = {
    "path": ((0, 1), (1, 2), (2, 3), (3, 4), (4, 5)),
    "star": ((0, 1), (0, 2), (0, 3), (0, 4), (0, 5)),
    "fork": ((0, 1), (1, 2), (2, 3), (3, 4), (3, 5)),
}


def motifs(num_graphs: int = 900, noise: float = 0.3, seed: int = 0) -> GraphData:
    """Generate small graphs of six dense groups, classified by the links between the groups: a path, a star or a fork.

    In every graph each group has one of six colours at random; the features of a node are its one-hot colour plus
    normal noise. Groups, links and colours have the same distribution in all classes: only the coarse graphs differ.

    Parameters
    ----------
    num_graphs : int, default 900
        Number of graphs.
    noise : float, default 0.3
        Standard deviation of the noise.
    seed : int, default 0
        Seed of the generator.
    """
    check_count(num_graphs, "num_graphs")
    rng = np.random.default_rng(seed)
    label = rng.permutation(np.arange(num_graphs) % len(_SHAPES))
    shapes = list(_SHAPES.values())
    graphs = [_motif(rng, 6, shapes[graph_label]) for graph_label in label]
    return _packed("motifs", graphs, 6, noise, rng, label, list(_SHAPES), "acc")


def trees(num_graphs: int = 1200, noise: float = 0.3, seed: int = 0) -> GraphData:
    """Generate small graphs of four to eight dense groups joined by a random tree, with two numbers to predict.

    ``distance`` is the mean number of links between two groups, a matter of the coarse graph; ``degree`` is the mean
    degree of the nodes. Nodes have the features of ``motifs``, with eight colours. Parameters as in ``motifs``.
    """
    check_count(num_graphs, "num_graphs")
    rng = np.random.default_rng(seed)
    graphs, targets = [], []
    for _ in range(num_graphs):
        count = int(rng.integers(4, 9))
        bend = rng.choice([0.2, 1.0, 5.0])                             # from stars to paths
        links = [(int(node * rng.random() ** (1 / bend)), node) for node in range(1, count)]
        graphs.append(_motif(rng, count, links))
        source, _, group = graphs[-1]
        targets.append((_mean_distance(count, links), len(source) / len(group)))
    return _packed("trees", graphs, 8, noise, rng, np.array(targets), ["distance", "degree"], "rmse")


_SKIPS = (2, 3, 4, 5, 6, 9, 11, 12, 13, 16)


def csl(num_graphs: int = 150, seed: int = 0) -> GraphData:
    """Generate circular skip links: rings of 41 nodes with a link from every node to the r-th next; the class is r.

    All nodes have four neighbours and the same feature, so a network of messages alone gives every graph the same
    score (Murphy et al., "Relational Pooling for Graph Representations", ICML 2019).

    Parameters
    ----------
    num_graphs : int, default 150
        Number of graphs.
    seed : int, default 0
        Seed of the order of the nodes.
    """
    check_count(num_graphs, "num_graphs")
    rng = np.random.default_rng(seed)
    label, nodes = np.arange(num_graphs) % len(_SKIPS), np.arange(41)
    graphs = []
    for skip in np.array(_SKIPS)[label]:
        order = rng.permutation(41)
        ends = order[np.concatenate([np.roll(nodes, -1), np.roll(nodes, -skip)])]
        graphs.append((*undirected(np.tile(order, 2), ends, 41), np.ones((41, 1), dtype=np.float32)))
    arrays = pack_graphs(graphs) | {"label": label}
    return packed_graphs("csl", arrays, num_classes=len(_SKIPS), class_names=[f"skip {skip}" for skip in _SKIPS])


def _mean_distance(count: int, links: Sequence[tuple[int, int]]) -> float:
    """Return the mean number of links between two different nodes of a tree, whose links lead to later nodes."""
    distance = np.zeros((count, count))
    for old, new in links:
        distance[new, :new] = distance[:new, new] = distance[old, :new] + 1
    return distance.sum() / (count * (count - 1))


def _packed(
    name: str, graphs: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]], colours: int, noise: float,
    rng: np.random.Generator, label: np.ndarray, names: list[str], metric: str,
) -> GraphData:  # fmt: skip
    """Return graphs of ``_motif`` whose groups have random colours, a noisy feature per colour."""
    arrays = pack_graphs([(source, target, rng.permutation(colours)[group]) for source, target, group in graphs])
    feat = np.eye(colours)[arrays["feat"]]
    arrays |= {"feat": (feat + noise * rng.standard_normal(feat.shape)).astype(np.float32), "label": label}
    return packed_graphs(name, arrays, num_classes=len(names), metric=metric, class_names=names)


def _motif(
    rng: np.random.Generator, count: int, shape: Sequence[tuple[int, int]]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return one graph: ``count`` groups of 5 to 9 nodes, two edges for each link of the shape, nodes in random order.

    Returns the source and target of its edges, and the group of every node.
    """
    group_sizes = rng.integers(5, 10, count)
    first = np.cumsum(group_sizes) - group_sizes
    pairs = []
    for start, size in zip(first, group_sizes, strict=True):
        one, other = np.triu_indices(size, 1)
        keep = (rng.random(len(one)) < 0.6) | (other == one + 1)        # a path keeps every group connected
        pairs.append(np.stack([one[keep], other[keep]]) + start)
    for a, b in shape:
        one, other = rng.integers(group_sizes[a], size=2), rng.integers(group_sizes[b], size=2)
        pairs.append(np.stack([one + first[a], other + first[b]]))
    size = int(group_sizes.sum())
    order = rng.permutation(size)
    one, other = order[np.concatenate(pairs, axis=1)]
    group = np.empty(size, dtype=np.int64)
    group[order] = np.repeat(np.arange(count), group_sizes)
    source, target = undirected(one, other, size)
    return source, target, group
