"""What the clusters of a graph are: sizes, features, nodes to look at, neighbours, and which of them merge first.

Everything comes from one pass over the edges, ``ClusterSums``, and two over the features: O(E + nnz K) time, and memory
for a few numbers per node and for tables of clusters by features and by clusters.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from jbpool.clustering.auto.merging import Blocks, unions
from jbpool.clustering.auto.refinement import are_measurements
from jbpool.clustering.scores import ClusterSums
from jbpool.data import NodeData
from jbpool.ops.sparse import is_sparse
from jbpool.processes import RowShares

if TYPE_CHECKING:
    import pandas as pd

NODES = 5               # nodes of a kind that are named per cluster
FEATURES = 8
NEAR = 3                # clusters
MERGED = 400            # clusters that are merged into a tree, at most: every union looks at all pairs
BLOCK = 1 << 22         # values of the features looked at together


@dataclass(frozen=True)
class Trait:
    """A feature that sets a cluster apart. Words and flags have lift and frequency, measurements a difference."""

    feature: str | int                  # its name, else its column
    lift: float | None = None           # frequency in the cluster / frequency in all nodes
    frequency: float | None = None      # share of the cluster's nodes whose value is not zero
    difference: float | None = None     # mean of the cluster - mean of all nodes, in standard deviations of all nodes


@dataclass(frozen=True)
class Neighbour:
    """A cluster that shares edges with another one."""

    cluster: int
    ratio: float                        # weight of the edges between both / expected of the edges that leave the other


@dataclass(frozen=True)
class ClusterSummary:
    """What a cluster is. Nodes are given by their names, else by their numbers."""

    cluster: int
    size: int
    inside: float | None                # share of the weight of its edges that stays inside; None without edges
    density: float | None               # edges inside / pairs of nodes; None for a single node
    confidence: float | None            # mean
    features: tuple[Trait, ...]         # that set it apart, the clearest first
    central: tuple[Any, ...]            # nodes with most edge weight inside
    typical: tuple[Any, ...]            # nodes with the features of the cluster, else with the highest confidence
    uncertain: tuple[Any, ...]          # nodes with the lowest confidence
    closest: tuple[Neighbour, ...]      # clusters that share more edges with it than expected; at least one, if any
    sides: tuple[int, int] | None       # nodes of the first and of the second column, of a bipartite graph


class Merges(NamedTuple):
    """Which clusters merge first, as in scikit-learn's ``children_``.

    Numbers below K are clusters, by their places in the list of summaries; K + i is the union of row i.
    """

    children: np.ndarray                # (K - 1, 2) int
    cost: np.ndarray                    # (K - 1,) bits per node that the union adds to the description of the edges


class Explained(NamedTuple):
    """Summaries of the clusters that are not empty, in the order of their numbers, and their hierarchy."""

    clusters: list[ClusterSummary]
    merges: Merges | None               # None beyond MERGED clusters
    between: Tensor | None              # (K, K) weight of the edges between them; None for very many


@torch.no_grad()
def explain(
    data: NodeData, cluster: Tensor, confidence: Tensor | None = None, sums: ClusterSums | None = None
) -> Explained:
    """Describe the clusters of a graph, by the names of its nodes and features where it has them.

    Parameters
    ----------
    data : NodeData
        The graph, as ``load_nodes`` returns it.
    cluster : Tensor
        ``(n,)`` numbers of clusters; some may be empty. -1: in none.
    confidence : Tensor, optional
        ``(n,)``.
    sums : ClusterSums, optional
        Those of these clusters, where they are at hand.
    """
    cluster, shares = cluster.cpu().long(), data.graph.shares
    used = shares.counts(cluster, shares.largest(cluster) + 1)
    numbers = used.nonzero().squeeze(1)                                         # (K,)
    place, sizes = torch.full_like(cluster, -1), used[numbers]                  # (n,) 0 .. K-1, none empty
    place[cluster >= 0] = torch.searchsorted(numbers, cluster[cluster >= 0])
    sums = ClusterSums.of(data.graph, cluster, edge_weight=data.edge_weight) if sums is None else sums
    inside, between = sums.node_inside, None if sums.between is None else sums.between[numbers][:, numbers]
    trust, means, certain = None, None, place >= 0
    if confidence is not None:
        trust = confidence.cpu().float()
        means = shares.add_up(place[place >= 0].bincount(trust[place >= 0].double(), len(sizes))) / sizes
    traits: list[tuple[Trait, ...]] = [()] * len(numbers)
    order = [inside] if trust is None else [trust, inside]                      # typical nodes are the first by these
    if data.feat is not None and data.feat.shape[1]:
        find = _measurements if are_measurements(data.feat, shares) else _words
        names = range(data.feat.shape[1]) if data.feat_names is None else data.feat_names
        traits, fit = find(data.feat.cpu(), place, sizes, names, shares)        # (n,) to the features of the cluster
        order = [fit]
        certain = certain if trust is None else certain & (trust >= _medians(trust, place, sizes, shares)[place])
    central = _first(data, place, inside > 0, [inside], len(sizes))
    typical = _first(data, place, certain, order, len(sizes))
    uncertain = [()] * len(sizes) if trust is None else _first(data, place, place >= 0, [-trust], len(sizes))
    first = torch.zeros_like(place) if data.first is None else torch.from_numpy(data.first).long()
    of_first = shares.counts(torch.where(first > 0, place, -1), len(sizes)).tolist()
    summaries = []
    for k, (number, size) in enumerate(zip(numbers.tolist(), sizes.tolist(), strict=True)):
        volume = float(sums.volume[number])
        summaries.append(
            ClusterSummary(
                cluster=number,
                size=size,
                inside=float(sums.inside[number]) / volume if volume > 0 else None,
                density=float(sums.num_inside[number]) / (size * (size - 1)) if size > 1 else None,
                confidence=None if means is None else float(means[k]),
                features=traits[k],
                central=central[k],
                typical=typical[k],
                uncertain=uncertain[k],
                closest=() if between is None else _closest(between, k, numbers),
                sides=None if data.first is None else (of_first[k], size - of_first[k]),
            )
        )
    merges = None
    if between is not None and len(numbers) <= MERGED:
        weight = between * (sums.num_edges / between.sum().clamp_min(1e-300))           # mean 1 per edge
        merges = _merges(Blocks(weight, sums.connected[numbers]), shares.num_rows)
    return Explained(summaries, merges, between)


def as_table(explained: Explained) -> pd.DataFrame:
    """Return the summaries as a table; a column for every part of the features that they have."""
    import pandas as pd

    table = pd.DataFrame([vars(summary) for summary in explained.clusters]).set_index("cluster")
    traits = table.pop("features")
    parts = {"features": [tuple(trait.feature for trait in some) for some in traits]}
    for kind in ("lift", "frequency", "difference"):
        values = [tuple(getattr(trait, kind) for trait in some) for some in traits]
        if any(value is not None for some in values for value in some):
            parts[kind] = values
    for place, (kind, values) in enumerate(parts.items(), 4):
        table.insert(place, kind, values)
    table["closest"] = [tuple(neighbour.cluster for neighbour in some) for some in table["closest"]]
    return table.drop(columns="sides") if table["sides"].isna().all() else table


def as_json(explained: Explained) -> dict[str, Any]:
    """Return the summaries and the hierarchy as plain values, for ``result.json``."""
    clusters = [asdict(summary) for summary in explained.clusters]
    for entry in clusters:
        entry |= {kind: [_plain(node) for node in entry[kind]] for kind in ("central", "typical", "uncertain")}
        traits = entry["features"]
        entry["features"] = [{key: value for key, value in trait.items() if value is not None} for trait in traits]
    merges = explained.merges
    tree = None if merges is None else {"children": merges.children.tolist(), "cost": merges.cost.tolist()}
    return {"clusters": clusters, "merges": tree}


def _plain(name: Any) -> str | int | float:
    """Return the name of a node as JSON has it: a number or text."""
    name = name.item() if isinstance(name, np.generic) else name
    return name if isinstance(name, (int, float, str)) else str(name)


# ---------------------------------------------------------------- edges


def _closest(between: Tensor, k: int, numbers: Tensor) -> tuple[Neighbour, ...]:
    """Return clusters by the weight of the edges from cluster k to them, over the weight expected by their volumes."""
    leaving, volume = between[k].clone(), between.sum(1)
    leaving[k], volume[k] = 0, 0
    if leaving.sum() <= 0:
        return ()
    ratio = leaving / leaving.sum() / (volume / volume.sum()).clamp_min(1e-300)
    order = ratio.sort(descending=True, stable=True).indices[:NEAR].tolist()
    chosen = [place for place in order if leaving[place] > 0 and (place == order[0] or ratio[place] > 1)]
    return tuple(Neighbour(int(numbers[place]), float(ratio[place])) for place in chosen)


def _merges(clusters: Blocks, num_nodes: int) -> Merges:
    """Unite the two clusters whose union costs least, again and again, without moving a node."""
    count = len(clusters.size)
    names, children, saved = list(range(count)), [], []
    for blocks, pair in unions(clusters):
        saved.append(blocks.saved)
        if pair is not None:
            children.append(sorted(names[place] for place in pair))
            names[pair[0]] = count + len(children) - 1
            del names[pair[1]]
    cost = -np.diff(saved) / math.log(2) / num_nodes
    return Merges(np.array(children, dtype=np.int64).reshape(-1, 2), cost)


# ---------------------------------------------------------------- nodes


def _first(
    data: NodeData, place: Tensor, some: Tensor, values: list[Tensor], count: int
) -> list[tuple[Any, ...]]:
    """Return the names of the nodes of each cluster with the highest values, of equal ones the first.

    ``some``: ``(n,)`` the nodes to choose from. ``values``: ``(n,)`` each; later ones decide between equal ones.
    """
    def best(cluster: np.ndarray, values: list[np.ndarray]) -> np.ndarray:
        """Return the places of the first nodes of each cluster, in order."""
        order = np.lexsort([*(-value for value in reversed(values)), cluster])
        rank = np.arange(len(order)) - np.searchsorted(cluster[order], cluster[order])
        return order[rank < NODES]

    nodes = some.nonzero().squeeze(1).numpy()
    cluster, known = place.numpy()[nodes], [value.double().numpy()[nodes] for value in values]
    chosen = best(cluster, known)
    mine = cluster[chosen], [value[chosen] for value in known], data.own_ids[nodes[chosen]].tolist()
    clusters, parts, names = zip(*data.graph.shares.gather(mine), strict=True)
    cluster, known = np.concatenate(clusters), [np.concatenate(part) for part in zip(*parts, strict=True)]
    found: list[list[Any]] = [[] for _ in range(count)]
    every = [name for some in names for name in some]
    for at in best(cluster, known):
        found[cluster[at]].append(every[at])
    return [tuple(some) for some in found]


def _medians(value: Tensor, place: Tensor, sizes: Tensor, shares: RowShares) -> Tensor:
    """Return the lower median of values ``(n,)``, float32 and not negative, of each cluster: ``(K,)``.

    Found byte by byte: the bits of such values are in the same order.
    """
    bits, known, count = value.clamp_min(0).view(torch.int32).long(), place >= 0, len(sizes)
    rank, prefix = (sizes - 1) // 2, torch.zeros_like(sizes)
    for shift in (24, 16, 8, 0):
        same = known & (bits >> shift + 8 == prefix[place])
        byte = place[same] * 256 + (bits[same] >> shift & 255)
        upto = shares.add_up(byte.bincount(minlength=256 * count)).view(count, 256).cumsum(1)
        next_byte = (upto <= rank[:, None]).sum(1)
        rank = rank - torch.where(next_byte > 0, upto.gather(1, (next_byte - 1).clamp_min(0)[:, None]).squeeze(1), 0)
        prefix = prefix * 256 + next_byte
    return prefix.int().view(torch.float32)


# ---------------------------------------------------------------- features


def _words(
    feat: Tensor, place: Tensor, sizes: Tensor, names: Sequence[Any] | np.ndarray, shares: RowShares
) -> tuple[list[tuple[Trait, ...]], Tensor]:
    """Describe words and flags by how often they occur, whatever their values."""
    count = torch.zeros(len(sizes), feat.shape[1], dtype=torch.float64)                     # (K, D) nodes
    for own, block in _blocks(feat, place, len(sizes)):
        count += torch.from_numpy(_onehot(own, len(sizes)).T @ (block != 0))
    count = shares.add_up(count)
    frequency, common = count / sizes[:, None], count.sum(0) / sizes.sum()
    lift = frequency / common.clamp_min(1e-300)
    # As if every cluster had one node more, with the words of all nodes.
    gain = torch.where(common > 0, (count + common) / (sizes[:, None] + 1) / common.clamp_min(1e-300), 1).log()
    merit = frequency * gain            # saved per node: rare words have a high lift by chance, but save little
    traits = []
    for k, columns in enumerate(_largest(merit)):
        chosen = [w for w in columns if merit[k, w] > 0]
        traits.append(tuple(Trait(_name(names[w]), float(lift[k, w]), float(frequency[k, w])) for w in chosen))
    fit = [np.zeros(0)]
    for own, block in _blocks(feat, place, len(sizes)):
        present = block != 0
        length = np.sqrt(np.maximum(present.sum(1), 1))                                     # of unit rows
        fit.append((present @ gain.T.numpy())[np.arange(len(own)), own] / length)
    return traits, torch.from_numpy(np.concatenate(fit))


def _measurements(
    feat: Tensor, place: Tensor, sizes: Tensor, names: Sequence[Any] | np.ndarray, shares: RowShares
) -> tuple[list[tuple[Trait, ...]], Tensor]:
    """Describe measurements by how far the means of the clusters are from the mean of all nodes."""
    total = torch.zeros(len(sizes), feat.shape[1], dtype=torch.float64)
    square = torch.zeros(feat.shape[1], dtype=torch.float64)
    for own, block in _blocks(feat, place, len(sizes)):
        total += torch.from_numpy(_onehot(own, len(sizes)).T @ block)
        square += torch.from_numpy((block**2).sum(0))
    total = shares.add_up(total)
    mean, square = total.sum(0) / sizes.sum(), shares.add_up(square) / sizes.sum()
    variance = square - mean.square()
    scale = torch.where(variance > 1e-14 * square, variance.clamp_min(1e-300).rsqrt(), 0)   # 0: a constant column
    difference = (total / sizes[:, None] - mean) * scale                                    # (K, D)
    traits = []
    for k, columns in enumerate(_largest(difference.abs())):
        chosen = [w for w in columns if difference[k, w] != 0]
        traits.append(tuple(Trait(_name(names[w]), difference=float(difference[k, w])) for w in chosen))
    # Squared distance to the mean of the cluster: of a row of zeros, then what the other values change.
    zero = -mean * scale - difference                                                       # (K, D)
    step, weight, start = (2 * scale * zero).T.numpy(), scale.square().numpy(), zero.square().sum(1).numpy()
    fit = [np.zeros(0)]
    for own, block in _blocks(feat, place, len(sizes)):
        fit.append(-start[own] - block**2 @ weight - (block @ step)[np.arange(len(own)), own])
    return traits, torch.from_numpy(np.concatenate(fit))


def _largest(values: Tensor) -> list[list[int]]:
    """Return the columns of the largest values of each row, of equal ones the first."""
    return values.sort(dim=1, descending=True, stable=True).indices[:, :FEATURES].tolist()


def _name(name: Any) -> str | int:
    return name if isinstance(name, int) else str(name)


def _blocks(feat: Tensor, place: Tensor, count: int) -> Iterator[tuple[np.ndarray, Any]]:
    """Yield blocks of rows: their clusters ``(n,)``, and their features ``(n, D)`` in float64, dense or CSR."""
    parts = (feat.values(), feat.col_indices(), feat.crow_indices()) if is_sparse(feat) else (feat,)
    arrays = tuple(part.numpy() for part in parts)
    rows = scipy.sparse.csr_array(arrays, shape=tuple(feat.shape)) if is_sparse(feat) else arrays[0]
    step = max(1, BLOCK // max(feat.shape[1], count))
    for first in range(0, len(place), step):
        yield place[first : first + step].numpy(), rows[first : first + step].astype(np.float64)


def _onehot(place: np.ndarray, count: int) -> np.ndarray:
    return (place[:, None] == np.arange(count)).astype(np.float64)                          # (n, K)
