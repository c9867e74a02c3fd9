"""Clusters without labels on many kinds of graphs, beside k-means, spectral clustering and Leiden: one table.

    python scripts/reproduce/suite.py                                 every group of graphs, 3 seeds
    python scripts/reproduce/suite.py --only sets lfr --seeds 1       some groups
    python scripts/reproduce/suite.py --ranges                        another table: how many clusters are found
    python scripts/reproduce/suite.py --confidence                    another table: confidence beside right nodes
    python scripts/reproduce/suite.py --csv runs/suite.csv            append every graph, method and seed

Scores are NMI with the labels, times are processor seconds (steady with OMP_NUM_THREADS=1); both are means over seeds.
Block models, heavy-tailed and random graphs are drawn anew for every seed; edges have no weights. K is the number of
classes; Leiden, which needs igraph, finds its own, and without labels K is searched from 2 to 60 (at most N / 3). The
table of ranges is of one seed; agreement and levels are those of the end 30, NMI and seconds those of 60, and ``!``
marks a number that does not stand out. Cells need h5py. Confidence is shown in bins, over the nodes of all seeds: its
mean / share of nodes in the right cluster (number of nodes). Real sets are read from the data roots.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import networkx as nx
import numpy as np
import pandas as pd
import torch
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csc_array
from scipy.spatial import Delaunay
from sklearn import datasets, metrics, neighbors, preprocessing
from sklearn.cluster import KMeans, SpectralClustering
from sklearn.decomposition import PCA
from tqdm import tqdm

from jbpool.clustering.auto.number import Choice
from jbpool.clustering.auto.recipe import choose, find_clusters
from jbpool.clustering.baselines import BASELINES
from jbpool.clustering.embed.spectral import adjacency_matrix, kmeans
from jbpool.clustering.scores import confusion
from jbpool.data import DataError, NodeData, load_nodes
from jbpool.data.assemble import node_data, symmetric_adjacency
from jbpool.data.download import find

SETS = ("cora", "citeseer", "pubmed", "dblp", "acm", "amazon-photo", "cora-ml")
TABLES = {"digits": datasets.load_digits, "wine": datasets.load_wine, "breast cancer": datasets.load_breast_cancer}
CELLS = "starmap_BY3_1k.h5ad", "Starmap_BY3_1k_meta_annotated_18oct22.csv", "10x_pbmc68k_reduced.h5ad"
DIMENSIONS = 16                             # of the features of block models
SLOW = 6000                                 # nodes above which spectral clustering is left out
BOUNDS = (0.5, 0.7, 0.85, 0.95)             # between the bins of confidence
SCORES = "| graph | nodes | edges | K | auto | k-means | spectral | Leiden | K of Leiden |" + "\n|" + "---|" * 9
RANGES = "| graph | K | found for ends 15, 30, 60 | by | agreement | levels | NMI, seconds |" + "\n|" + "---|" * 7
CONFIDENCE = "| graph | 0-0.5 | 0.5-0.7 | 0.7-0.85 | 0.85-0.95 | 0.95-1 | calibration error |" + "\n|" + "---|" * 7

# ---------------------------------------------------------------- graphs: a group is a function of the seed


def as_data(name: str, one: np.ndarray, other: np.ndarray, num_nodes: int, label=None, feat=None) -> NodeData:
    """Make a symmetric graph without weights and self loops from the two ends of each edge, ``(E,)``."""
    adjacency = symmetric_adjacency(one, other, None, num_nodes)
    label = None if label is None else torch.from_numpy(np.unique(label, return_inverse=True)[1])
    return node_data(name, adjacency, label=label, feat=None if feat is None else torch.from_numpy(feat).float())


def from_networkx(name: str, graph: nx.Graph, label: Sequence | None = None) -> NodeData:
    """Convert a graph of networkx; labels are in the order of its nodes."""
    one, other = np.array(nx.convert_node_labels_to_integers(graph).edges()).T          # (E,)
    return as_data(name, one, other, len(graph), label)


def sbm(sizes: Sequence[int], inside: float, between: float, seed: int, apart: float = 0, more: str = "") -> NodeData:
    """Draw a block model with ``inside`` neighbours in the own block and probability ``between`` for other nodes."""
    rng, num_nodes, feat = np.random.default_rng(seed), sum(sizes), None
    label = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))                    # (N,)
    chance = np.full((len(sizes), len(sizes)), between)                                 # (K, K)
    np.fill_diagonal(chance, inside / np.array(sizes))
    one, other = np.nonzero(np.triu(rng.random((num_nodes, num_nodes)) < chance[label][:, label], 1))
    if apart:                                               # features: class means, this far apart, and unit noise
        means = rng.standard_normal((len(sizes), DIMENSIONS))                           # (K, D)
        means *= apart / np.sqrt(2) / np.linalg.norm(means, axis=1, keepdims=True)
        feat = means[label] + rng.standard_normal((num_nodes, DIMENSIONS))              # (N, D)
    return as_data(f"sbm {'/'.join(map(str, sizes))}{more}", one, other, num_nodes, label, feat)


def sets(seed: int) -> Iterator[NodeData]:
    """Yield the real sets whose files are found."""
    for name in SETS:
        try:
            yield load_nodes(name)
        except DataError as error:
            print(f"{name} is skipped: {error}", file=sys.stderr)


def neighbours(seed: int) -> Iterator[NodeData]:
    """Yield graphs of 10 nearest neighbours, with and without the features that they come from."""
    for name, load in TABLES.items():
        rows, label = load(return_X_y=True)                                             # (N, D), (N,)
        for kind, feat in {name: rows, f"{name} standardised": preprocessing.scale(rows)}.items():
            if kind != "digits standardised":
                near = neighbors.kneighbors_graph(feat, 10).tocoo()
                yield as_data(kind, near.row, near.col, len(label), label, feat)
                yield as_data(f"{kind}, no features", near.row, near.col, len(label), label)


def cells(seed: int) -> Iterator[NodeData]:
    """Yield neighbours in space of cells of a cortex (layers, three kinds of features), and blood cells."""
    cortex, table, blood = (find(f"h5ad/{name}") for name in CELLS)
    if importlib.util.find_spec("h5py") is None or cortex is None or table is None or blood is None:
        print("cells are skipped: h5py is not installed, or their files are in no data root.", file=sys.stderr)
        return
    import h5py

    known = pd.read_csv(table, index_col=0)                                             # of some of the cells
    with h5py.File(cortex) as file:
        ids = pd.Index(file["obs/_index"].asstr()[:].astype(int))
        parts = (file["X/data"][:], file["X/indices"][:], file["X/indptr"][:])          # by column
        counts = csc_array(parts, shape=(len(ids), len(parts[2]) - 1)).toarray()[ids.get_indexer(known.index)]
    total = counts.sum(1, keepdims=True)
    log = np.log1p(counts / total * np.median(total))                                   # (N, D)
    views = {"log": log, "pca": PCA(20, random_state=0).fit_transform(log), "z": preprocessing.scale(log)}
    for number, (kind, feat) in itertools.product((6, 15, 30), views.items()):
        near = neighbors.kneighbors_graph(known[["x", "y"]], number).tocoo()
        label = known.smoothed_manual.to_numpy()
        yield as_data(f"starmap {number}, {kind}", near.row, near.col, len(label), label, feat)
    with h5py.File(blood) as file:
        feat, label = file["obsm"]["X_pca"].astype(float), file["obs"]["bulk_labels"]
    near = neighbors.kneighbors_graph(feat, 15).tocoo()
    yield as_data("blood cells", near.row, near.col, len(label), label, feat)


def blocks(seed: int) -> Iterator[NodeData]:
    """Yield unequal blocks, without features and with weak ones, and equal blocks, four of them with noise."""
    for sizes, apart in itertools.product([(900, 50, 50), (2000, 100, 40, 20), (500, 50)], [0, 0.6, 1]):
        yield sbm(sizes, 10, 1 / 1000, seed, apart, f", means {apart} apart" if apart else "")
    yield sbm([250] * 8, 12, 2 / 1000, seed)
    yield sbm([400, 100, 50, 50], 6, 4 / 1000, seed)
    rng, four = np.random.default_rng(seed), sbm([250] * 4, 12, 4 / 1000, seed)
    for kind, feat in {"features": rng.standard_normal((1000, 32)), "words": rng.random((1000, 500)) < 0.02}.items():
        yield replace(four, name=f"{four.name}, noise {kind}", feat=torch.from_numpy(feat).float())


def lfr(seed: int, sizes: Sequence[int] = (1000, 3000, 5000), mus: Sequence[float] = (0.3, 0.5)) -> Iterator[NodeData]:
    """Yield LFR benchmark graphs, the same for every seed. networkx mixes 42 % of edges for mu 0.3, 66 % for 0.5."""
    for num_nodes, mu in itertools.product(sizes, mus):
        limits = {"min_community": 20, "max_community": num_nodes // 5, "max_iters": 2000}
        for attempt in itertools.count():                       # it does not succeed with every seed
            try:
                graph = nx.LFR_benchmark_graph(num_nodes, 3, 1.5, mu, average_degree=12, seed=attempt, **limits)
                break
            except nx.ExceededMaxIterations:
                pass
        label = [min(community) for _, community in graph.nodes(data="community")]
        yield from_networkx(f"lfr {num_nodes}, mu {mu}", graph, label)


def heavy(seed: int, many: Sequence[Sequence[int]] = ((600, 600), (500, 300, 200, 100))) -> Iterator[NodeData]:
    """Yield blocks with Pareto degrees and 30 % of the edges at random; 60 chains of three hang on random nodes."""
    for sizes in many:
        rng, num_nodes = np.random.default_rng(seed), sum(sizes)
        label = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))                # (N,)
        weight = 1 + rng.pareto(1.5, num_nodes)                                         # (N,)
        one, other = rng.choice(num_nodes, (2, 10 * num_nodes), p=weight / weight.sum())        # (E,)
        inside = rng.random(len(one)) >= 0.3                                            # (E,)
        for block in range(len(sizes)):
            own, edges = weight * (label == block), inside & (label[one] == block)
            other[edges] = rng.choice(num_nodes, edges.sum(), p=own / own.sum())
        hooks, links = rng.choice(num_nodes, 60), num_nodes + np.arange(180).reshape(3, 60)     # a column: a chain
        one, other = np.concatenate([one, hooks, *links[:2]]), np.concatenate([other, *links])
        label = np.concatenate([label, *[label[hooks]] * 3])                            # (N + 180,)
        yield as_data(f"heavy {'/'.join(map(str, sizes))}", one, other, len(label), label)


def small(seed: int) -> Iterator[NodeData]:
    """Yield small social graphs, three of them without labels, and a random graph."""
    karate = nx.karate_club_graph()
    yield from_networkx("karate", karate, [club for _, club in karate.nodes(data="club")])
    for name in ("football", "polbooks"):
        path = find(f"gml/{name}.gml")
        if path is None:
            print(f"{name} is skipped: gml/{name}.gml is in no data root.", file=sys.stderr)
            continue
        graph = nx.read_gml(path, label="id")
        yield from_networkx(name, graph, [value for _, value in graph.nodes(data="value")])
    yield from_networkx("les miserables", nx.les_miserables_graph())
    yield from_networkx("florentine families", nx.florentine_families_graph())
    yield from_networkx("southern women", nx.davis_southern_women_graph())
    yield from_networkx("random 500", nx.gnm_random_graph(500, 2500, seed=seed))


def uncertain(seed: int) -> Iterator[NodeData]:
    """Yield graphs whose clusters are hard to find, and real ones, for the table of confidence."""
    hard = [([250] * 4, 8, 6), ([250] * 4, 7, 7), ([600, 250, 100, 50], 8, 6), ([500, 500], 6, 5)]
    for sizes, inside, between in hard:
        yield sbm(sizes, inside, between / sum(sizes), seed, more=f", {inside} and {between}")
    yield from heavy(seed)
    yield from lfr(seed, mus=[0.5])
    yield from itertools.chain(neighbours(seed), cells(seed))


def spaces(seed: int) -> Iterator[NodeData]:
    """Yield graphs of a space without clusters, graphs with many small ones, and tables with clear ones."""
    rng = np.random.default_rng(seed)
    yield from_networkx("grid 30 x 30", nx.grid_2d_graph(30, 30))
    triangles = Delaunay(rng.random((1000, 2))).simplices
    one, other = triangles[:, [0, 1, 2]].flatten(), triangles[:, [1, 2, 0]].flatten()
    yield as_data("triangulation 1000", one, other, 1000)
    for number, radius in ((1000, 0.06), (500, 0.1)):
        yield from_networkx(f"random geometric {number}", nx.random_geometric_graph(number, radius, seed=seed))
    for number, chance in ((1000, 0.1), (500, 0.05)):
        yield from_networkx(f"small world {number}", nx.watts_strogatz_graph(number, 10, chance, seed=seed))
    yield from_networkx("power law with triangles 1000", nx.powerlaw_cluster_graph(1000, 4, 0.5, seed=seed))
    yield from_networkx("random 2000", nx.gnm_random_graph(2000, 20_000, seed=seed))
    for count, size in ((30, 8), (50, 6)):
        label = np.arange(count).repeat(size).tolist()
        yield from_networkx(f"ring of {count} cliques", nx.ring_of_cliques(count, size), label)
    caves = nx.relaxed_caveman_graph(20, 10, 0.1, seed=seed)
    yield from_networkx("relaxed caves 20", caves, np.arange(20).repeat(10).tolist())
    points = {
        "points in 10 dimensions": (rng.random((1000, 10)), None),
        "moons": datasets.make_moons(500, noise=0.05, random_state=seed),
        "iris": datasets.load_iris(return_X_y=True),
        "5 blobs": datasets.make_blobs(500, 8, centers=5, random_state=seed),
        "12 blobs": datasets.make_blobs(900, 8, centers=12, cluster_std=2, random_state=seed),
    }
    for name, (rows, label) in points.items():
        near = neighbors.kneighbors_graph(rows, 10).tocoo()
        yield as_data(name, near.row, near.col, len(rows), label, rows)


GROUPS = {group.__name__: group for group in (sets, neighbours, cells, blocks, lfr, heavy, small, spaces)}

# ---------------------------------------------------------------- methods: clusters (N,), None where one does not apply


def auto(data: NodeData, num_clusters: int, seed: int) -> np.ndarray:
    """Cluster by the recipe without labels."""
    return find_clusters(data.graph, data.feat, Choice(num_clusters), seed=seed).cluster.numpy()


def auto_range(data: NodeData, num_clusters: int, seed: int) -> np.ndarray:
    """Cluster by the recipe without labels, with 2 to ``num_clusters`` clusters."""
    choice = choose(data.graph, data.feat, 2, num_clusters, seed=seed)
    return find_clusters(data.graph, data.feat, choice, seed=seed).cluster.numpy()


def k_means(data: NodeData, num_clusters: int, seed: int) -> np.ndarray | None:
    """Cluster smoothed features by k-means."""
    method = KMeans(num_clusters, n_init=10, random_state=seed)
    return None if data.feat is None else method.fit_predict(kmeans(data, num_clusters, seed))


def spectral(data: NodeData, num_clusters: int, seed: int) -> np.ndarray | None:
    """Cluster the leading eigenvectors of the normalised adjacency matrix."""
    if data.graph.num_nodes > SLOW:
        return None
    method = SpectralClustering(num_clusters, affinity="precomputed", assign_labels="kmeans", random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)            # the graph has several parts
        return method.fit_predict(adjacency_matrix(data.graph, None))


def leiden(data: NodeData, num_clusters: int, seed: int) -> np.ndarray | None:
    """Maximise modularity; the number of clusters is not used."""
    if importlib.util.find_spec("igraph") is None:
        return None
    return BASELINES["leiden"](data, num_clusters, seed).numpy()


SCORED = {"auto": auto, "k-means": k_means, "spectral": spectral, "Leiden": leiden}
ENDS = 15, 30, 60                               # largest numbers of clusters
SEARCH = "auto 2-60"


def measure(draws: Sequence[NodeData]) -> pd.DataFrame:
    """Run the methods on a graph, which is given for every seed; a row per method and seed."""
    rows, classes, most = [], draws[0].num_classes, draws[0].graph.num_nodes // 3
    methods = {name: (method, classes) for name, method in SCORED.items()}
    if classes is None:
        methods = {SEARCH: (auto_range, min(ENDS[-1], most))}
    runs = list(itertools.product(methods.items(), enumerate(draws)))
    for (name, (method, number)), (seed, data) in tqdm(runs, draws[0].name, unit="run", leave=False):
        began = time.process_time()
        cluster = method(data, number, seed)                                            # (N,)
        seconds = time.process_time() - began
        if cluster is not None:
            rows.append((data.name, name, seed, len(np.unique(cluster)), agreement_with_labels(data, cluster), seconds))
    return pd.DataFrame(rows, columns=["graph", "method", "seed", "clusters", "nmi", "seconds"])


def agreement_with_labels(data: NodeData, cluster: np.ndarray) -> float:
    """Compute the NMI of clusters with the labels that are known; NaN without any."""
    if data.label is None:
        return np.nan
    known = (data.label >= 0).numpy()
    return metrics.normalized_mutual_info_score(data.label.numpy()[known], cluster[known])


def searched(data: NodeData) -> str:
    """Find the number of clusters for every end of the range: a row of the second table."""
    numbers = []
    for end in ENDS:
        began = time.process_time()
        choice = choose(data.graph, data.feat, 2, min(end, data.graph.num_nodes // 3))
        faint = any("stands out" in note for note in choice.notes)
        numbers.append(f"{choice.num_clusters if choice.num_clusters > 1 else 'none'}{'!' * faint}")
        seconds = time.process_time() - began
        if end == 30:
            known, levels = choice, [level.n_clusters for level in choice.levels if level.level]
    nmi = agreement_with_labels(data, find_clusters(data.graph, data.feat, choice).cluster.numpy())
    listed = ", ".join(map(str, levels)) or "-"
    score = f"{nmi:.3f}, {seconds:.1f}".replace("nan", "-")
    return row(data.name, data.num_classes or "-", ", ".join(numbers), known.by, f"{known.reproducibility:.2f}", listed,
               score)  # fmt: skip


def rightness(data: NodeData, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Cluster a graph: the confidence of each node, and whether its cluster is the one matched to its class."""
    assert data.label is not None
    found = find_clusters(data.graph, data.feat, Choice(int(data.label.max()) + 1), seed=seed)
    classes, clusters = linear_sum_assignment(confusion(found.cluster, data.label).numpy(), maximize=True)
    matched = np.full(int(found.cluster.max()) + 1, -1)                                 # class of each cluster
    matched[clusters] = classes
    return found.confidence.numpy(), matched[found.cluster.numpy()] == data.label.numpy()


def bins_of(confidence: np.ndarray, right: np.ndarray) -> list[tuple[float, float, int]]:
    """Compute mean confidence, share of right nodes and number of nodes of each bin; zeros for an empty one."""
    bins = [np.digitize(confidence, BOUNDS) == number for number in range(len(BOUNDS) + 1)]             # (N,) each
    return [(confidence[some].mean(), right[some].mean(), some.sum()) if some.any() else (0.0, 0.0, 0) for some in bins]


def row(*cells: object) -> str:
    """Join the cells of a row of a table."""
    return f"| {' | '.join(map(str, cells))} |"


def calibration(draws: Sequence[NodeData]) -> str:
    """Make a row of the table of confidence, over the nodes of all seeds."""
    pairs = [rightness(data, seed) for seed, data in enumerate(draws)]
    bins = bins_of(*map(np.concatenate, zip(*pairs, strict=True)))
    error = sum(count * abs(sure - right) for sure, right, count in bins) / sum(count for *_, count in bins)
    cells = (f"{sure:.2f} / {right:.2f} ({count})" if count else "-" for sure, right, count in bins)
    return row(draws[0].name, *cells, f"{error:.3f}")


def scores(groups: Sequence[str], seeds: int, csv: Path | None) -> Iterator[str]:
    """Make the rows of the first table."""
    for group in groups:
        for draws in zip(*map(GROUPS[group], range(seeds)), strict=True):               # a graph for each seed
            runs, data = measure(draws), draws[0]
            if csv is not None:
                runs.to_csv(csv, mode="a", header=not csv.exists(), index=False)
            by_method = runs.groupby("method")
            found, mean = by_method.clusters.agg(list), by_method[["nmi", "seconds"]].mean()
            score = {name: f"{nmi:.3f} ({cost:.1f} s)".replace("nan", "-") for name, nmi, cost in mean.itertuples()}
            size = data.graph.num_nodes, data.graph.num_edges // 2, data.num_classes or f"found {found[SEARCH]}"
            yield row(data.name, *size, *(score.get(method, "-") for method in SCORED), found.get("Leiden", "-"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[*GROUPS], choices=GROUPS, help="groups of graphs (default: all)")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--ranges", action="store_true", help="how many clusters are found instead, with one seed")
    parser.add_argument("--confidence", action="store_true", help="confidence and share of right nodes instead")
    parser.add_argument("--csv", type=Path, help="append every graph, method and seed to this file")
    args = parser.parse_args()
    auto(next(small(0)), 2, 0)                  # the first run is slower than others
    head, rows = SCORES, scores(args.only, args.seeds, args.csv)
    if args.ranges:
        head, rows = RANGES, (searched(data) for group in args.only for data in GROUPS[group](0))
    if args.confidence:
        head, rows = CONFIDENCE, map(calibration, zip(*map(uncertain, range(args.seeds)), strict=True))
    print(head)
    for line in tqdm(rows, unit="graph"):
        print(line, flush=True)


if __name__ == "__main__":
    main()
