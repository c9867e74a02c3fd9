"""Previous and fixed clusters, beside Leiden and label propagation: two tables, mean of the draws.

    python scripts/reproduce/anchors.py                    five draws; Leiden needs igraph, starmap h5py
    python scripts/reproduce/anchors.py --draws 1          faster

First table: clusters of a graph, then of what is left of it when some nodes or edges are removed, with another seed.
Adjusted Rand index with the old clusters; "of a range": their number is chosen, too. Second table: a share of each
class is fixed; share of the other nodes in the right cluster, without fixed nodes by the best matching. Label
propagation goes along the edges.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

import numpy as np
import torch
from scipy import sparse
from sklearn.metrics import adjusted_rand_score
from suite import cells, neighbours, row

from jbpool import JBClustering
from jbpool.clustering.embed.spectral import adjacency_matrix
from jbpool.clustering.scores import accuracy, confusion
from jbpool.data import load_nodes

PREVIOUS = ("cora", "acm", "digits")
FIXED = ("cora", "dblp", "digits", "starmap 6, log", "starmap 15, log")


class Known(NamedTuple):
    """A graph whose classes are known."""

    name: str
    adjacency: sparse.csr_matrix        # (N, N)
    feat: np.ndarray                    # (N, D)
    label: np.ndarray                   # (N,)
    num_classes: int


def graphs(names: tuple[str, ...]) -> Iterator[Known]:
    """Yield real sets, tables and cells by their names."""
    drawn = {data.name: data for group in (neighbours, cells) for data in group(0)}
    for name in names:
        data = drawn[name] if name in drawn else load_nodes(name)
        assert data.feat is not None
        assert data.label is not None
        adjacency, label = adjacency_matrix(data.graph, data.edge_weight), data.label.numpy()
        yield Known(data.name, adjacency, data.feat.to_dense().numpy(), label, int(label.max()) + 1)


def leiden(adjacency: sparse.csr_matrix, start: np.ndarray | None = None) -> np.ndarray:
    """Return the clusters of largest modularity that Leiden finds, from ``start``."""
    import igraph

    graph = igraph.Graph(adjacency.shape[0], np.transpose(sparse.triu(adjacency, 1).nonzero()).tolist())
    start = None if start is None else start.tolist()
    return np.array(graph.community_leiden("modularity", n_iterations=-1, initial_membership=start).membership)


def propagated(adjacency: sparse.csr_matrix, fixed: np.ndarray, num_clusters: int, rounds: int = 1000) -> np.ndarray:
    """Return the cluster of most weight after every node took the mean of its neighbours again and again."""
    share = sparse.diags(1 / np.maximum(adjacency.sum(1).A1, 1)) @ adjacency            # (N, N), rows sum to 1
    held = np.eye(num_clusters)[fixed] * (fixed >= 0)[:, None]                          # (N, K)
    mass = held
    for _ in range(rounds):
        mass = np.where(fixed[:, None] >= 0, held, share @ mass)
    return mass.argmax(1)


def keep_ids(known: Known, removed: float, of_edges: bool, draws: int) -> np.ndarray:
    """Return the means of: index with previous clusters, same numbers, both where the number is chosen, and the indices
    without previous clusters, of Leiden from its own ones, and of Leiden anew."""
    def fit(adjacency: sparse.csr_matrix, rows: np.ndarray, seed: int, previous: np.ndarray | None = None,
            number: int | tuple[int, int] = known.num_classes) -> np.ndarray:  # fmt: skip
        model = JBClustering(number, random_state=seed)
        return model.fit(adjacency, features=known.feat[rows], previous=previous).labels_

    everyone, whole = np.arange(len(known.label)), known.adjacency
    old, chosen, other = fit(whole, everyone, 0), fit(whole, everyone, 0, number=(2, 30)), leiden(whole)
    scores = []
    for draw in range(draws):
        rng, rows, part = np.random.default_rng(draw), everyone, whole
        if of_edges:
            upper = sparse.triu(whole, 1).tocoo()
            left = rng.permutation(upper.nnz)[round(removed * upper.nnz) :]
            upper = sparse.coo_matrix((upper.data[left], (upper.row[left], upper.col[left])), whole.shape)
            part = (upper + upper.T).tocsr()
        else:
            rows = np.sort(rng.permutation(everyone)[round(removed * len(everyone)) :])
            part = whole[rows][:, rows]
        kept, free = fit(part, rows, draw + 1, old[rows]), fit(part, rows, draw + 1, chosen[rows], (2, 30))
        alone = fit(part, rows, draw + 1)
        pairs = (old, kept), (chosen, free), (old, alone), (other, leiden(part, other[rows])), (other, leiden(part))
        with_previous, of_range, *others = [adjusted_rand_score(before[rows], after) for before, after in pairs]
        same, same_of_range = (float((after == before[rows]).mean()) for before, after in pairs[:2])
        scores.append([with_previous, same, of_range, same_of_range, *others])
    return np.mean(scores, axis=0)


def fix(known: Known, share: float, draws: int) -> np.ndarray:
    """Return the means of the share of right nodes: with fixed ones, by label propagation, and without."""
    adjacency, label, num_classes = known.adjacency, known.label, known.num_classes
    model = JBClustering(num_classes, random_state=0)
    alone = model.fit(adjacency, features=known.feat).labels_
    scores = []
    for draw in range(draws):
        rng, fixed = np.random.default_rng(draw), np.full(len(label), -1)
        for number in range(num_classes):
            members = np.flatnonzero(label == number)
            fixed[rng.choice(members, max(1, round(share * len(members))), replace=False)] = number
        rest = fixed < 0
        around = model.fit(adjacency, features=known.feat, fixed=fixed).labels_
        right = [(cluster == label)[rest].mean() for cluster in (around, propagated(adjacency, fixed, num_classes))]
        table = confusion(torch.from_numpy(alone[rest]), torch.from_numpy(label[rest]))
        scores.append([*right, accuracy(table)])
    return np.mean(scores, axis=0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=5)
    draws = parser.parse_args().draws
    warnings.simplefilter("ignore", UserWarning)                                        # halves that hardly agree
    print("| graph | removed | previous | same number | of a range | same number | without | ", end="")
    print("Leiden, its own | Leiden anew |\n|" + "---|" * 9)
    for known in graphs(PREVIOUS):
        for removed, of_edges in product((0.01, 0.05, 0.1), (False, True)):
            scores = keep_ids(known, removed, of_edges, draws)
            what = f"{removed:.0%} of the {'edges' if of_edges else 'nodes'}"
            print(row(known.name, what, *(f"{score:.3f}" for score in scores)), flush=True)
    print("\n| graph | fixed | with fixed nodes | label propagation | without |\n|" + "---|" * 5)
    for known in graphs(FIXED):
        for share in (0.01, 0.05):
            scores = fix(known, share, draws)
            print(row(known.name, f"{share:.0%}", *(f"{score:.3f}" for score in scores)), flush=True)


if __name__ == "__main__":
    main()
