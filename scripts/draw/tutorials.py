"""Draw the pictures of docs/tutorials and docs/howto/choose_k.md.

    python scripts/draw/tutorials.py          # writes starmap.svg, levels.svg (both need anndata) and ratio.svg

The cells of docs/tutorials/cells.md are read from the data roots. Everything that is drawn is computed here.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import networkx
import numpy as np
import pandas as pd
import torch
from explanation import Axes, save, text
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_matrix
from sklearn.decomposition import PCA
from sklearn.neighbors import kneighbors_graph

from jbpool import DeltaConv, Graph, JBClustering, JBPool, Pooled
from jbpool.data.download import find
from jbpool.report.charts import colour

CELLS = "h5ad/starmap_BY3_1k.h5ad", "h5ad/Starmap_BY3_1k_meta_annotated_18oct22.csv"


def disc(x: float, y: float, number: int, radius: float) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="{colour(number)}"/>'


def edge(first: np.ndarray, second: np.ndarray, width: float = 1) -> str:
    (x, y), (u, v) = first, second
    line = f'x1="{x:.1f}" y1="{y:.1f}" x2="{u:.1f}" y2="{v:.1f}"'
    return f'<line {line} stroke="var(--ink)" stroke-opacity=".4" stroke-width="{width:.1f}"/>'


def draw_cells() -> None:
    """Draw layers and clusters in space, and how well halves of the data agree on each number of clusters."""
    import anndata

    cells, layers = map(find, CELLS)
    assert cells is not None
    assert layers is not None
    table = pd.read_csv(layers, index_col=0)
    adata = anndata.read_h5ad(cells)[table.index.astype(str)].copy()
    counts = adata.X.toarray()
    total = counts.sum(1, keepdims=True)
    adata.obsm["X_pca"] = PCA(20, random_state=0).fit_transform(np.log1p(counts / total * np.median(total)))
    place = table[["x", "y"]].to_numpy()
    near = csr_matrix(kneighbors_graph(place, 15))
    adata.obsp["spatial_connectivities"] = near.maximum(near.T)
    names, layer = np.unique(table["smoothed_manual"], return_inverse=True)
    cluster = JBClustering(len(names), random_state=0).fit(adata).labels_
    common = pd.crosstab(cluster, layer).to_numpy()
    matched = dict(zip(*linear_sum_assignment(-common), strict=True))
    place = (place - place.min(0)) * (470 / np.ptp(place, axis=0).max())                # (N, 2)
    high = np.ptp(place[:, 1])
    parts = []
    shown = {"annotated layers": layer, "clusters of places and genes": np.array([matched[k] for k in cluster])}
    for i, (title, group) in enumerate(shown.items()):
        top = 36 + i * (high + 50)
        parts.append(text(255, top - 16, title))
        parts += [disc(20 + x, top + y, k, 3.4) for (x, y), k in zip(place, group, strict=True)]
    for k, name in enumerate(names):
        parts += [disc(524, 60 + 24 * k, k, 5), text(536, 64 + 24 * k, name, "small", "start")]
    save("starmap.svg", 590, round(2 * high + 100), "annotated layers and clusters of cells in space", parts)
    levels = JBClustering(random_state=0).fit(adata).levels_
    assert levels is not None
    draw_levels(levels[levels.reproducibility.notna()])


def draw_levels(levels: pd.DataFrame) -> None:
    """Draw reproducibility by the number of clusters, levels marked."""
    axes = Axes(52, (2, 30), (0.3, 0.8), width=420)
    x_marks = {float(number): str(number) for number in (2, 5, 10, 15, 20, 25, 30)}
    y_marks = {0.4: "0.4", 0.6: "0.6", 0.8: "0.8"}
    parts = [axes.frame(x_marks, y_marks, "number of clusters", "agreement of two halves of the data")]
    parts.append(axes.curve(levels.n_clusters.tolist(), levels.reproducibility.tolist(), "blue"))
    for row in levels[levels.level].itertuples():
        x, y = axes.place(row.n_clusters, row.reproducibility)
        parts += [f'<circle class="orange" cx="{x:.1f}" cy="{y:.1f}" r="4.5"/>']
        parts += [text(x, y - 9, str(row.n_clusters), "small orange")]
    save("levels.svg", 490, 292, "agreement of halves of the data by number of clusters", parts)


def draw_ratio() -> None:
    """Draw three graphs of groups of four nodes, and the graphs that a pool with ``ratio=0.25`` makes of them."""
    graphs = [networkx.barbell_graph(4, 0), networkx.ring_of_cliques(4, 4), networkx.ring_of_cliques(7, 4)]
    sizes = [len(graph) for graph in graphs]
    ends = torch.tensor(list(networkx.disjoint_union_all(graphs).edges)).T              # (2, E)
    graph = Graph(torch.cat([ends, ends.flip(0)], dim=1), sizes=sizes)
    pooled = min((trained(graph, seed) for seed in range(20)), key=lambda pooled: pooled.loss.item())
    parts: list[str] = []
    left, first, high = 20.0, 0, 200
    for i, (one, size) in enumerate(zip(graphs, sizes, strict=True)):
        drawn = networkx.kamada_kawai_layout(one)
        xy = np.array([drawn[node] for node in one])
        xy = (xy - xy.min(0)) * (7 * size**0.95 / np.ptp(xy, axis=0).max())
        wide = max(80.0, np.ptp(xy[:, 0]))
        xy += (left + (wide - np.ptp(xy[:, 0])) / 2, 36 + (high - np.ptp(xy[:, 1])) / 2)
        cluster = pooled.assign[first : first + size].argmax(1).numpy()
        parts.append(text(left + wide / 2, 20, f"{size} nodes"))
        parts += [edge(xy[a], xy[b]) for a, b in one.edges]
        parts += [disc(x, y, k, 4.5) for (x, y), k in zip(xy, cluster, strict=True)]
        count = int(pooled.sizes[i])
        centres = np.stack([xy[cluster == k].mean(0) + np.array([0, high + 10]) for k in range(count)])
        for a, b in zip(*np.tril_indices(count, -1), strict=True):
            if pooled.adj[i, a, b] > 0.02:
                parts.append(edge(centres[a], centres[b], 6 * pooled.adj[i, a, b].item()))
        parts += [disc(x, y, k, 8) for k, (x, y) in enumerate(centres)]
        parts.append(text(left + wide / 2, 2 * high + 56, f"{count} clusters"))
        left, first = left + wide + 50, first + size
    save("ratio.svg", round(left - 30), 2 * high + 66, "three graphs, pooled with ratio 0.25", parts)


def trained(graph: Graph, seed: int) -> Pooled:
    """Train a pool on random features of the nodes; return what it makes of the graphs."""
    torch.manual_seed(seed)
    feat = torch.randn(graph.num_nodes, 32)
    first, second = DeltaConv(32, 32, activation="relu"), DeltaConv(32, 32)
    pool = JBPool(32, num_clusters=8, ratio=0.25)
    optimiser = torch.optim.Adam(torch.nn.ModuleList([first, second, pool]).parameters(), lr=5e-3)
    for _ in range(500):
        pooled = pool(graph, second(graph, first(graph, feat)))
        optimiser.zero_grad()
        pooled.loss.backward()
        optimiser.step()
    return pooled


if __name__ == "__main__":
    draw_ratio()
    draw_cells()
