"""``report.html``: one self-contained page about a node-clustering run, made from its folder alone and the data."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from jbpool.atomic import write_text
from jbpool.clustering.report_search import search_sections
from jbpool.clustering.scores import best_run, confusion
from jbpool.clustering.structure import with_features
from jbpool.data import NodeData
from jbpool.engine.run_folder import read_results
from jbpool.ops.adjacency import propagate, smooth
from jbpool.ops.coarsen import normalized_off_diagonal
from jbpool.report import charts
from jbpool.report.page import number, render_page, score, section, settings, spread, table
from jbpool.report.published import CLUSTERING

SHOWN = 4000        # nodes in the picture of the features
NAMES = {
    "acc": "ACC", "nmi": "NMI", "ari": "ARI", "modularity": "modularity", "conductance": "conductance",
    "score": "score", "loss": "loss", "used_clusters": "used clusters", "size_balance": "size balance",
    "seconds_per_step": "seconds per step",
}  # fmt: skip


def write_report(folder: Path, data: NodeData) -> Path:
    """Write ``report.html`` into a run folder; ``data`` is what was clustered."""
    result, history = read_results(folder)
    with np.load(folder / "assign.npz", allow_pickle=False) as stored:
        clusters, seeds = stored["cluster"], stored["seeds"].tolist()
    path = folder / "report.html"
    write_text(path, page(result, data, history, seeds, clusters))
    return path


def page(
    result: dict[str, Any], data: NodeData, history: list[dict[str, str]], seeds: list[int], clusters: np.ndarray
) -> str:
    """The page as text. Pictures show the seed with the lowest loss."""
    chosen = best_run(result["runs"])
    seed = chosen["seed"]
    cluster = torch.from_numpy(clusters[seeds.index(seed)]).long()
    names, cluster = cluster.unique(return_inverse=True)            # empty clusters are left out
    parts = [_scores(result), *_curves(history, seed), _sizes(data, cluster)]
    if data.label is not None:
        parts.append(_confusion(data, cluster, names.tolist()))
    parts += [_cluster_graph(data, cluster, names.tolist()), _picture(data, cluster)]
    parts += [*search_sections(result, chosen), _runs(result), settings(result)]
    size = data.summary.partition(": ")[2]
    lead = f"{size}; runs: {len(result['runs'])}; pictures show seed {seed}, the best without labels."
    if "labelled" in chosen:
        lead += f" Labels are known for {chosen['labelled']:,} nodes; only these count against labels."
    keys = [key for key in ("acc", "nmi", "ari", "modularity", "used_clusters") if key in result["mean"]]
    headline = {NAMES[key]: format(result["mean"][key], ".3g" if key == "used_clusters" else ".3f") for key in keys}
    return render_page(f"{result['dataset']} clustered by {result['method']}", lead, headline, result["notes"], parts)


def _scores(result: dict[str, Any]) -> str:
    paper = CLUSTERING.get(result["method"], {}).get(result["dataset"])
    rows = [[name, score(result, key)] for key, name in NAMES.items() if key in result["mean"]]
    head = ["", "here"]
    if paper is not None:
        head.append("paper")
        published = {NAMES["acc"]: paper[0:2], NAMES["nmi"]: paper[2:4]}
        rows = [[*row, spread(*published.get(row[0], (None, None)))] for row in rows]
    return section("Scores, mean and deviation over seeds", table(head, rows))


def _curves(history: list[dict[str, str]], seed: int) -> list[str]:
    rows = [row for row in history if int(row["seed"]) == seed]
    if not rows:
        return []
    if len(rows) == 1:
        return [section("Training", "<p>One evaluation makes no curve: lower train.eval_every.</p>")]
    epochs = [float(row["epoch"]) for row in rows]
    names = [name for name in rows[0] if (name.endswith("_loss") and rows[0][name]) or name == "nmi"]
    shown = {name: NAMES.get(name, name.replace("_", " ")) for name in names}
    series = {shown[name]: (epochs, [float(row[name] or math.nan) for row in rows]) for name in names}
    title = "Losses and NMI while training" if "nmi" in names else "Losses while training"
    return [section(title, charts.lines(series, "epoch", "losses and NMI"))]


def _sizes(data: NodeData, cluster: torch.Tensor) -> str:
    groups = {"clusters": sorted(cluster.bincount().tolist(), reverse=True)}
    if data.label is not None:
        groups["classes"] = sorted(data.label[data.label >= 0].bincount().tolist(), reverse=True)
    return section("Cluster sizes", charts.bars(groups, "cluster sizes against class sizes"))


def _confusion(data: NodeData, cluster: torch.Tensor, names: list[int]) -> str:
    table = confusion(cluster, cast(torch.Tensor, data.label)).numpy()
    order = np.argsort(-(table / np.maximum(table.sum(0), 1)).argmax(0), kind="stable")[::-1]     # near the diagonal
    classes = list(data.class_names or [f"class {i}" for i in range(table.shape[0])])
    columns = [str(names[i]) for i in order]
    drawing = charts.heat_map(table[:, order], classes, columns, "confusion matrix")
    return section("Classes (rows) in clusters (columns)", drawing)


def _cluster_graph(data: NodeData, cluster: torch.Tensor, names: list[int]) -> str:
    onehot = torch.nn.functional.one_hot(cluster).float()                           # (N, K)
    between = onehot.T @ propagate(data.graph, onehot, data.edge_weight)            # (K, K)
    weight = normalized_off_diagonal(between[None])[0].numpy()
    drawing = charts.circle_graph(weight, cluster.bincount().numpy(), "cluster graph", names)
    return section("The coarsened graph", drawing, "Discs: nodes of a cluster. Lines: edges between two, normalised.")


def _picture(data: NodeData, cluster: torch.Tensor) -> str:
    feat = with_features(data, int(cluster.max()) + 1).feat
    assert feat is not None
    feat = feat.to_dense() if feat.layout == torch.sparse_csr else feat
    for _ in range(4):
        feat = smooth(data.graph, feat, edge_weight=data.edge_weight)
    feat = torch.nn.functional.normalize(feat)
    some = torch.linspace(0, len(feat) - 1, min(SHOWN, len(feat))).long()
    centred = feat - feat.mean(0)
    generator_state = torch.get_rng_state()
    torch.manual_seed(0)                                                            # pca_lowrank draws at random
    _, _, axes = torch.pca_lowrank(centred, q=min(6, *centred.shape), center=False)
    torch.set_rng_state(generator_state)
    xy = (centred[some] @ axes[:, :2]).numpy()
    if xy.shape[1] < 2:
        xy = np.column_stack([xy[:, 0], np.zeros(len(xy))])
    note = f"{len(some):,} nodes; principal components of the features smoothed over the graph; a colour per cluster."
    return section("Node features in the plane", charts.points(xy, cluster[some].numpy(), "node features"), note)


def _runs(result: dict[str, Any]) -> str:
    keys = [key for key in ("seed", *NAMES, "restart") if key in result["runs"][0]]
    rows = [[number(run.get(key)) for key in keys] for run in result["runs"]]
    return section("Runs", table([NAMES.get(key, key) for key in keys], rows), wide=True)
