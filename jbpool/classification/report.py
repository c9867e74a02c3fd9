"""``report.html`` of a graph-classification run, made from its folder and the data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import networkx
import numpy as np
import torch
from torch import Tensor
from torchmetrics.functional.classification import binary_roc

from jbpool.atomic import write_text
from jbpool.data import GraphData
from jbpool.engine.run_folder import read_results
from jbpool.engine.state import load_state
from jbpool.ops.contingency import contingency
from jbpool.report import charts
from jbpool.report.page import number, render_page, score, section, settings, spread, table
from jbpool.report.published import CLASSIFICATION

METRICS = {"acc": "accuracy", "rocauc": "ROC-AUC", "ap": "average precision", "rmse": "RMSE"}
PICTURES = {"pictures": [{"graph": Tensor, "cluster": Tensor, "adj": Tensor, "scores": Tensor}]}   # in pictures.pt
RUN_KEYS = ("seed", "fold", "valid", "test", "test_balanced", "epochs", "best_epoch", "seconds", "seconds_per_step")


def write_report(folder: Path, data: GraphData) -> Path:
    """Write ``report.html`` into a run folder; ``data`` is what was classified."""
    result, history = read_results(folder)
    with np.load(folder / "predictions.npz", allow_pickle=False) as stored:
        predictions = {key: torch.from_numpy(stored[key]) for key in stored}
    pictures = load_state(folder / "pictures.pt", PICTURES)["pictures"]
    path = folder / "report.html"
    write_text(path, page(result, data, history, predictions, pictures))
    return path


def page(
    result: dict[str, Any],
    data: GraphData,
    history: list[dict[str, str]],
    predictions: dict[str, torch.Tensor],
    pictures: list[dict[str, torch.Tensor]],
) -> str:
    """The page as text."""
    parts = [_scores(result), _curves(result, history)]
    if data.metric == "acc":
        parts.append(_confusion(data, predictions))
    elif data.metric == "rocauc" and data.num_classes == 1:
        parts.append(_roc(predictions))
    parts += [_picture(data, picture) for picture in pictures]
    parts += [_runs(result), settings(result)]
    lead = f"{len(data):,} graphs of {len(data.feat) / len(data):.0f} nodes on average; runs: {len(result['runs'])}."
    headline = {
        f"{METRICS[data.metric]} on test graphs": number(result["mean"]["test"]),
        "on validation graphs": number(result["mean"]["valid"]),
    }
    title = f"{result['dataset']} classified with {result['method']}"
    return render_page(title, lead, headline, result["notes"], parts)


def _scores(result: dict[str, Any]) -> str:
    rows = []
    for method, scores in {result["method"]: result, **result["compared"]}.items():
        rows.append((method, score(scores, "test"), score(scores, "valid"), str(len(scores["runs"]))))
    for source, (mean, deviation) in CLASSIFICATION.get(result["dataset"], {}).items():
        rows.append((f"{source}, published", spread(mean, deviation), "-", "-"))
    note = "Mean and deviation over folds and seeds, all methods on the same folds."
    return section("Scores", table(("pool", "test", "validation", "runs"), rows), note)


def _curves(result: dict[str, Any], history: list[dict[str, str]]) -> str:
    first = result["runs"][0]
    series = {}
    for method in (result["method"], *result["compared"]):
        where = (method, str(first["seed"]), str(first["fold"]))
        rows = [row for row in history if (row["method"], row["seed"], row["fold"]) == where]
        epochs = [float(row["epoch"]) for row in rows]
        if len(result["compared"]) < 2:
            series[f"{method}, training loss"] = (epochs, [float(row["loss"]) for row in rows])
        series[method] = (epochs, [float(row["valid"]) for row in rows])
    note = f"Seed {first['seed']}, fold {first['fold']}; by the name of the pool its score on validation graphs."
    return section("Learning curves", charts.lines(series, "epoch", "learning curves"), note)


def _confusion(data: GraphData, predictions: dict[str, torch.Tensor]) -> str:
    counts = contingency(predictions["label"], predictions["scores"].argmax(1)).numpy()
    names = list(data.class_names or [f"class {i}" for i in range(counts.shape[0])])
    drawing = charts.heat_map(counts, names, names[: counts.shape[1]], "confusion matrix")
    return section("Classes (rows) and predictions (columns)", drawing, "Test graphs of all folds and seeds.")


def _roc(predictions: dict[str, torch.Tensor]) -> str:
    false, true, _ = binary_roc(predictions["scores"].flatten().sigmoid(), predictions["label"].flatten().long())
    some = np.unique(np.linspace(0, len(false) - 1, 400).astype(int))
    series = {
        "test graphs": (false[some].tolist(), true[some].tolist()),
        "chance": ([0.0, 1.0], [0.0, 1.0]),
    }
    return section("ROC curve", charts.lines(series, "share of negatives taken for positive", "ROC curve"))


def _picture(data: GraphData, picture: dict[str, torch.Tensor]) -> str:
    index, cluster = int(picture["graph"]), picture["cluster"].numpy()
    graph = data.batch([index]).graph
    edges = torch.stack(graph.edges(), dim=1).numpy()
    drawn = networkx.Graph(edges.tolist())
    drawn.add_nodes_from(range(graph.num_nodes()))
    layout = networkx.spring_layout(drawn, seed=0)
    xy = np.array([layout[node] for node in range(graph.num_nodes())])
    used = np.unique(cluster)
    cluster = np.searchsorted(used, cluster)
    adj = picture["adj"].numpy()[np.ix_(used, used)]
    both = charts.network(xy, edges, cluster, f"graph {index}")
    both += charts.circle_graph(adj, np.bincount(cluster), f"graph {index}, pooled")
    note = f"{graph.num_nodes()} nodes, {len(used)} of {len(picture['adj'])} clusters used."
    if data.metric == "acc":
        names = data.class_names or [f"class {i}" for i in range(data.num_classes)]
        note += f" Class: {names[int(data.label[index])]}; predicted: {names[int(picture['scores'].argmax())]}."
    return section(f"Test graph {index}: its clusters, and pooled", f'<div class="pair">{both}</div>', note)


def _runs(result: dict[str, Any]) -> str:
    rows = [
        [method, *(number(run.get(key)) for key in RUN_KEYS)]
        for method, scores in {result["method"]: result, **result["compared"]}.items()
        for run in scores["runs"]
    ]
    return section("Runs", table(("pool", *(key.replace("_", " ") for key in RUN_KEYS)), rows), wide=True)
