"""``report.html``: one self-contained page about a node-clustering run, made from its folder and the data.

A new chart is a function in :mod:`jbpool.report.charts` and a line in ``SECTIONS``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from jbpool.atomic import write_text
from jbpool.clustering.report_search import search_sections
from jbpool.clustering.scores import GRAPH_SCORES, LABEL_SCORES, best_run, confusion
from jbpool.clustering.structure import with_features
from jbpool.data import NodeData
from jbpool.engine.run_folder import read_results
from jbpool.ops.adjacency import propagate, smooth
from jbpool.ops.coarsen import normalized_off_diagonal
from jbpool.report import charts
from jbpool.report.page import number, render_page, score, section, settings, spread, table
from jbpool.report.published import CLUSTERING

SHOWN_NODES = 4000      # in the picture of the features
HEADLINE = ("acc", "nmi", "ari", "modularity", "used_clusters")
SCORES = (*LABEL_SCORES, *GRAPH_SCORES, "score", "loss", "seconds_per_step")      # "score" is that of auto


class Shown(NamedTuple):
    """What the sections of a page are made from. Pictures show one seed."""

    result: dict[str, Any]              # result.json
    history: list[dict[str, str]]       # the rows of history.csv
    data: NodeData
    run: dict[str, Any]                 # the best run without labels
    cluster: Tensor                     # (N,)  its clusters, numbered 0, 1, 2, ... without the empty ones
    names: list[int]                    # their numbers in assign.csv


def score_name(key: str) -> str:
    """``nmi`` to ``NMI``, ``used_clusters`` to ``used clusters``."""
    return key.upper() if key in ("acc", "nmi", "ari") else key.replace("_", " ")


def write_report(folder: Path, data: NodeData) -> Path:
    """Write ``report.html`` into a run folder.

    Parameters
    ----------
    folder : Path
        The run folder.
    data : NodeData
        The graph of the run.
    """
    result, history = read_results(folder)
    with np.load(folder / "assign.npz", allow_pickle=False) as stored:
        clusters, seeds = stored["cluster"], stored["seeds"].tolist()
    best = best_run(result["runs"])
    names, cluster = torch.from_numpy(clusters[seeds.index(best["seed"])]).long().unique(return_inverse=True)
    path = folder / "report.html"
    write_text(path, page(Shown(result, history, data, best, cluster, names.tolist())))
    return path


def page(shown: Shown) -> str:
    """The page as text."""
    result, run = shown.result, shown.run
    size = shown.data.summary.partition(": ")[2]
    lead = f"{size}; runs: {len(result['runs'])}; pictures show seed {run['seed']}, the best without labels."
    if "labelled" in run:
        lead += f" Labels are known for {run['labelled']:,} nodes; scores against labels use only these."
    means = {key: result["mean"][key] for key in HEADLINE if key in result["mean"]}
    headline = {score_name(key): f"{mean:{'.3g' if key == 'used_clusters' else '.3f'}}" for key, mean in means.items()}
    title = f"{result['dataset']} clustered by {result['method']}"
    return render_page(title, lead, headline, result["notes"], [make(shown) for make in SECTIONS])


def _scores(shown: Shown) -> str:
    result = shown.result
    paper = CLUSTERING.get(result["method"], {}).get(result["dataset"])
    keys = [key for key in SCORES if key in result["mean"]]
    rows = [[score_name(key), score(result, key)] for key in keys]
    head = ["", "here"]
    if paper is not None:
        head.append("paper")
        published = {"acc": paper[0:2], "nmi": paper[2:4]}
        rows = [[*row, spread(*published.get(key, (None, None)))] for key, row in zip(keys, rows, strict=True)]
    return section("Scores, mean and deviation over seeds", table(head, rows))


def _curves(shown: Shown) -> str:
    rows = [row for row in shown.history if int(row["seed"]) == shown.run["seed"]]
    if not rows:
        return ""
    if len(rows) == 1:
        return section("Training", "<p>One evaluation makes no curve: lower train.eval_every.</p>")
    epochs = [float(row["epoch"]) for row in rows]
    names = [name for name in rows[0] if (name.endswith("_loss") and rows[0][name]) or name == "nmi"]
    series = {score_name(name): (epochs, [float(row[name] or math.nan) for row in rows]) for name in names}
    title = "Losses and NMI while training" if "nmi" in names else "Losses while training"
    return section(title, charts.lines(series, "epoch", "losses and NMI"))


def _sizes(shown: Shown) -> str:
    groups, label = {"clusters": sorted(shown.cluster.bincount().tolist(), reverse=True)}, shown.data.label
    if label is not None:
        groups["classes"] = sorted(label[label >= 0].bincount().tolist(), reverse=True)
    return section("Cluster sizes", charts.bars(groups, "cluster sizes against class sizes"))


def _confusion(shown: Shown) -> str:
    if shown.data.label is None:
        return ""
    table = confusion(shown.cluster, shown.data.label).numpy()
    order = np.argsort(-(table / np.maximum(table.sum(0), 1)).argmax(0), kind="stable")[::-1]     # near the diagonal
    classes = list(shown.data.class_names or [f"class {i}" for i in range(table.shape[0])])
    columns = [str(shown.names[i]) for i in order]
    drawing = charts.heat_map(table[:, order], classes, columns, "confusion matrix")
    return section("Classes (rows) in clusters (columns)", drawing)


def _cluster_graph(shown: Shown) -> str:
    onehot = torch.nn.functional.one_hot(shown.cluster).float()                             # (N, K)
    between = onehot.T @ propagate(shown.data.graph, onehot, shown.data.edge_weight)        # (K, K)
    weight = normalized_off_diagonal(between[None])[0].numpy()
    drawing = charts.circle_graph(weight, shown.cluster.bincount().numpy(), "cluster graph", shown.names)
    return section("The coarsened graph", drawing, "Discs: nodes of a cluster. Lines: edges between two, normalised.")


def _features(shown: Shown) -> str:
    data, cluster = shown.data, shown.cluster
    feat = with_features(data, int(cluster.max()) + 1).feat
    assert feat is not None
    feat = feat.to_dense() if feat.layout == torch.sparse_csr else feat
    for _ in range(4):
        feat = smooth(data.graph, feat, edge_weight=data.edge_weight)
    feat = torch.nn.functional.normalize(feat)
    some = torch.linspace(0, len(feat) - 1, min(SHOWN_NODES, len(feat))).long()
    centred = feat - feat.mean(0)
    generator_state = torch.get_rng_state()
    torch.manual_seed(0)                                                            # pca_lowrank draws at random
    _, _, axes = torch.pca_lowrank(centred, q=min(6, *centred.shape), center=False)
    torch.set_rng_state(generator_state)
    xy = (centred[some] @ axes[:, :2]).numpy()
    if xy.shape[1] < 2:
        xy = np.column_stack([xy[:, 0], np.zeros(len(xy))])
    note = f"{len(some):,} nodes; principal components of the smoothed features; one colour per cluster."
    return section("Node features in the plane", charts.points(xy, cluster[some].numpy(), "node features"), note)


def _runs(shown: Shown) -> str:
    runs = shown.result["runs"]
    keys = [key for key in ("seed", *SCORES, "restart") if key in runs[0]]
    rows = [[number(run.get(key)) for key in keys] for run in runs]
    return section("Runs", table([score_name(key) for key in keys], rows), wide=True)


# In the order of the page: Shown -> a section as HTML, or "" if it does not apply.
SECTIONS: list[Callable[[Shown], str]] = [
    _scores,
    _curves,
    _sizes,
    _confusion,
    _cluster_graph,
    _features,
    lambda shown: "".join(search_sections(shown.result, shown.run)),
    _runs,
    lambda shown: settings(shown.result),
]
