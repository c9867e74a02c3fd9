"""``report.html`` of a graph-classification run, drawn from memory: scores, paired differences, graphs.

A new chart is a function in ``jbpool.report.charts`` and a line in ``SECTIONS``.
"""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torchmetrics.functional.classification import binary_roc

from jbpool.classification.class_scores import MORE_SCORES, mae, paired_difference, r2, rmse
from jbpool.data import GraphData
from jbpool.engine.run_folder import by_method
from jbpool.ops.segment import contingency
from jbpool.report import charts
from jbpool.report.charts import heat_map
from jbpool.report.graph_charts import circle_graph, network
from jbpool.report.layout import small_positions
from jbpool.report.page import asset, class_names, number, pack, render_page, score, section, settings, spread, table
from jbpool.report.published import CLASSIFICATION

SCRIPTS = ("unpack.js", "browse.js")        # which a page with this section needs
PICTURED = 48                               # test graphs, of at most PICTURED_NODES nodes
PICTURED_NODES = 120
STATIC = 4                                  # graphs shown without scripts
UNCERTAIN = 0.2                             # margin below which a prediction counts as uncertain
CHARTED = 12                                # targets with a chart


class Verdict(NamedTuple):
    """True and predicted classes of graphs, and the margin of each prediction."""

    label: Tensor           # (G,)
    predicted: Tensor       # (G,)
    margin: Tensor          # (G,) probability of the predicted class minus that of the next


def verdict(data: GraphData, scores: Tensor, label: Tensor) -> Verdict | None:
    """Return the decisions from scores ``(G, C)``; None where there are no classes (several tasks, regression)."""
    if data.metric == "acc":
        chance = scores.softmax(1)
        actual = label
    elif data.metric in ("rocauc", "ap") and data.num_classes == 1 and bool(label.isfinite().all()):
        positive = scores.view(-1, 1).sigmoid()
        chance = torch.cat([1 - positive, positive], dim=1)
        actual = label.flatten()
    else:
        return None
    best = chance.topk(2, dim=1)
    return Verdict(actual.long(), best.indices[:, 0], best.values[:, 0] - best.values[:, 1])


def names_of_classes(data: GraphData) -> list[str]:
    """Return the names of the classes of ``verdict``."""
    if data.metric != "acc":
        return ["negative", "positive"]
    return class_names(data.class_names, data.num_classes)


def choose_pictured(data: GraphData, graphs: Tensor, scores: Tensor) -> Tensor:
    """Select at most ``PICTURED`` small graphs to draw, from test graphs ``(G,)`` and their scores ``(G, C)``.

    They cycle through the pairs of class and prediction, the least certain first, and are returned in their order.
    """
    small = data.sizes[graphs] <= PICTURED_NODES
    graphs, scores = graphs[small], scores[small]
    decisions = verdict(data, scores, data.label[graphs])
    if decisions is None or len(graphs) <= PICTURED:
        return graphs[:PICTURED]
    cell = decisions.label * (int(decisions.predicted.max()) + 1) + decisions.predicted
    order = decisions.margin.argsort(stable=True)
    order = order[cell[order].argsort(stable=True)]                                 # by cell, the least certain first
    first = torch.searchsorted(cell[order], cell[order])
    rank = torch.arange(len(order)) - first
    return graphs[order[rank.argsort(stable=True)[:PICTURED]].sort().values]


def graphs_section(data: GraphData, pictures: list[dict[str, Tensor]]) -> str:
    """Return the section; empty if the network has no clusters."""
    if not pictures:
        return ""
    scores = torch.stack([picture["scores"] for picture in pictures])
    decisions = verdict(data, scores, data.label[torch.stack([picture["graph"] for picture in pictures])])
    cards: list[dict[str, Any]] = []
    for place, picture in enumerate(pictures):
        card = _card(data, picture)
        if decisions is not None:
            margin = float(decisions.margin[place])
            card |= {
                "label": int(decisions.label[place]), "predicted": int(decisions.predicted[place]),
                "margin": round(margin, 4), "uncertain": margin < UNCERTAIN,
            }  # fmt: skip
        elif data.is_regression:
            card["caption"] += _values(data, data.label[picture["graph"]], picture["scores"])
        cards.append(card)
    classes = [] if decisions is None else names_of_classes(data)
    static = "".join(_static(card, classes) for card in cards[:STATIC])
    note = (
        f"{len(cards)} test graphs of at most {PICTURED_NODES} nodes, as seen by the model with the best validation "
        "score. Left: the graph, a colour per cluster. Right: the pooled graph. "
    )
    if decisions is not None:
        note += f"Margin: probability of the predicted class minus that of the next; uncertain: below {UNCERTAIN:g}."
    return (
        f'<section class="wide browser"><h2>Test graphs: clusters and pooled graphs</h2>{asset("browse.html")}'
        f'<div class="cards static-cards">{static}</div><p>{escape(note.strip())}</p>'
        f'<script type="text/plain" class="packed">{pack({"cards": cards, "classes": classes}, {})}</script></section>'
    )


def _card(data: GraphData, picture: dict[str, Tensor]) -> dict[str, Any]:
    """Return what is shown of a graph: two drawings and a line of text."""
    index, cluster = int(picture["graph"]), picture["cluster"].numpy()
    graph = data.batch([index]).graph
    edges = graph.edge_index.T.numpy()
    used = np.unique(cluster)
    cluster = np.searchsorted(used, cluster)
    adj = picture["adj"].numpy()[np.ix_(used, used)]
    drawn = network(small_positions(graph.num_nodes, edges), edges, cluster, f"graph {index}")
    pooled = circle_graph(adj, np.bincount(cluster), f"graph {index}, pooled").svg
    caption = f"{graph.num_nodes} nodes, {len(used)} of {len(picture['adj'])} clusters used."
    name = str(data.own_ids[index])
    return {"graph": index, "name": name, "caption": caption, "svg": f'<div class="pair">{drawn}{pooled}</div>'}


def _values(data: GraphData, label: Tensor, predicted: Tensor) -> str:
    """Return true and predicted targets of a graph."""
    values = zip(target_names(data), label.tolist(), predicted.tolist(), strict=True)
    return "".join(f" {name}: {true:.4g}, predicted: {value:.4g}." for name, true, value in values)


def target_names(data: GraphData) -> list[str]:
    """Return the names of the numbers to predict: those of the user, else target 1, target 2, ..."""
    return list(data.class_names or (f"target {place}" for place in range(1, data.num_classes + 1)))


def _static(card: dict[str, Any], classes: list[str]) -> str:
    caption = card["caption"]
    if classes:
        names = [classes[card[key]] for key in ("label", "predicted")]
        caption += f" Class: {names[0]}; predicted: {names[1]} (margin {card['margin']:.2f})."
    return f'<article><h3>Graph {escape(card["name"])}</h3>{card["svg"]}<p>{escape(caption)}</p></article>'


METRICS = {"acc": "accuracy", "rocauc": "ROC-AUC", "ap": "average precision", "rmse": "RMSE"}
RUN_KEYS = ("epochs", "best_epoch", "seconds", "seconds_per_step")


class Results(NamedTuple):
    """What the sections of a page are made from."""

    result: dict[str, Any]                  # as in result.json
    history: list[dict[str, Any]]           # as in history.csv
    data: GraphData
    tested: dict[str, Tensor]               # test graphs of all seeds and folds: graph, label, scores, seed, fold
    pictures: list[dict[str, Tensor]]       # graph, cluster, adj, scores of some of them, by the best model


def page(results: Results) -> str:
    """Return the page as text."""
    result, data = results.result, results.data
    lead = f"{len(data):,} graphs of {len(data.feat) / len(data):.0f} nodes on average; runs: {len(result['runs'])}."
    headline = {
        f"{METRICS[data.metric]} on test graphs": number(result["mean"]["test"]),
        "on validation graphs": number(result["mean"]["valid"]),
    }
    title = f"{result['dataset']} {'predicted' if data.is_regression else 'classified'} with {result['method']}"
    return render_page(title, lead, headline, result["notes"], [make(results) for make in SECTIONS], SCRIPTS)


def _scores(results: Results) -> str:
    result, rows = results.result, []
    methods, keys = by_method(result), _score_keys(result)
    flat_too = "none" in methods and len(methods) > 1
    for method, scores in methods.items():
        flat = {} if method == "none" else methods.get("none", {})
        difference = paired_difference(scores["runs"], flat.get("runs", []), result["config"]["train"]["folds"])
        better = "-" if difference is None else difference.text(results.data.metric)
        more = [score(scores, key) if key in scores["mean"] else "-" for key in keys]
        rows.append((method, *more, *[better] * flat_too, str(len(scores["runs"]))))
    for source, (mean, deviation) in CLASSIFICATION.get(result["dataset"], {}).items():
        of = "test_single" if "test_single" in keys else "test"
        cells = [spread(mean, deviation) if key == of else "-" for key in keys]
        rows.append((f"{source}, published", *cells, *["-"] * flat_too, "-"))
    note = "Mean and deviation over folds and seeds, all methods on the same folds."
    if flat_too:
        unit = "" if results.data.is_regression else " in percentage points"
        note += f" Differences to none{unit}, with the standard error of the corrected resampled t-test."
    if "test_single" in keys:
        members = result["config"]["model"]["members"]
        note += f" The predictions of {members} networks are averaged; single: the mean score of one, as is published."
    if results.data.is_regression:
        note += " Root mean squared errors; several targets: the mean over them."
    head = ("pool", *map(_title, keys), *["minus none"] * flat_too, "runs")
    return section("Scores", table(head, rows), note, wide=len(keys) > 3)


def _score_keys(result: dict[str, Any]) -> list[str]:
    """Return the scores of a run, in the order of a table."""
    first = result["runs"][0]
    more = [name for name in MORE_SCORES.get(first["metric"], {}) if name in first]
    return ["test", *(["test_single"] if "test_single" in first else []), "valid", *more]


def _title(key: str) -> str:
    """Return the head of a column."""
    return {"valid": "validation", "test_single": "test, single"}.get(key, key.replace("_", " "))


def _curves(results: Results) -> str:
    result, series = results.result, {}
    first = result["runs"][0]
    for method in by_method(result):
        where = (method, first["seed"], first["fold"])
        rows = [row for row in results.history if (row["method"], row["seed"], row["fold"]) == where]
        epochs = [row["epoch"] for row in rows]
        if len(result["compared"]) < 2:
            series[f"{method}, training loss"] = (epochs, [row["loss"] for row in rows])
        series[f"{method}, validation"] = (epochs, [row["valid"] for row in rows])
    note = f"Seed {first['seed']}, fold {first['fold']}; validation: the score on validation graphs."
    return section("Learning curves", charts.lines(series, "epoch", "learning curves"), note)


def _confusion(results: Results) -> str:
    if results.data.metric != "acc":
        return ""
    predictions, classes = results.tested, results.data.num_classes           # also those without a test graph
    counts = contingency(predictions["label"], predictions["scores"].argmax(1), shape=(classes, classes)).numpy()
    names = class_names(results.data.class_names, classes)
    drawing = heat_map(counts, names, names, "confusion matrix", selectable=bool(results.pictures))
    note = "Test graphs of all folds and seeds."
    if results.pictures:
        note += " A click on a cell shows its graphs below."
    return section("Classes (rows) and predictions (columns)", drawing, note)


def _targets(results: Results) -> str:
    """Return predicted against true numbers, a chart and a row of scores for every target."""
    if not results.data.is_regression:
        return ""
    names, label, predicted = target_names(results.data), results.tested["label"], results.tested["scores"]
    errors = [score(predicted, label) for score in (rmse, mae, r2)]
    deviation = (label - label.nanmean(0)).square().nanmean(0).sqrt()
    rows = [[name, *(f"{values[place]:.4g}" for values in (*errors, deviation))] for place, name in enumerate(names)]
    head = ("target", "RMSE", "MAE", "R2", "RMSE of the mean")
    note = "Test graphs of all folds and seeds. R2: 1 is exact, 0 as good as the mean of these graphs for all of them."
    parts = [section("Numbers to predict", table(head, rows), note)]
    for place, name in enumerate(names[:CHARTED]):
        labelled = label[:, place].isfinite()
        chart = charts.agreement(label[labelled, place].tolist(), predicted[labelled, place].tolist(), name)
        parts.append(section(f"{name}: predicted against true", chart))
    return "".join(parts)


def _roc(results: Results) -> str:
    predictions = results.tested
    if results.data.metric != "rocauc" or results.data.num_classes > 1:
        return ""
    false, true, _ = binary_roc(predictions["scores"].flatten().sigmoid(), predictions["label"].flatten().long())
    some = charts.evenly(len(false), 400)
    series = {"test graphs": (false[some].tolist(), true[some].tolist()), "chance": ([0.0, 1.0], [0.0, 1.0])}
    return section("ROC curve", charts.lines(series, "false positive rate", "ROC curve"))


def _runs_of(results: Results) -> list[tuple[str, dict[str, Any]]]:
    """Return every run with its method."""
    return [(method, run) for method, scores in by_method(results.result).items() for run in scores["runs"]]


def _search(results: Results) -> str:
    tried = results.result.get("search")
    if not tried:
        return ""
    chosen = {(method, run["seed"], run["fold"], run["trial"]) for method, run in _runs_of(results)}
    rows = []
    for entry in tried:
        where = tuple(entry[key] for key in ("method", "seed", "fold", "trial"))
        settings_of = ", ".join(f"{key} {value}" for key, value in entry["settings"].items())
        scores = [number(entry[key]) for key in ("valid", "valid_loss", "epochs", "seconds")]
        rows.append([*map(str, where), settings_of, *scores, "yes" if where in chosen else ""])
    head = ("pool", "seed", "fold", "trial", "settings", "validation", "validation loss", "epochs", "seconds", "chosen")
    return section("Search", table(head, rows), "Chosen in each fold by the validation graphs alone.", wide=True)


def _runs(results: Results) -> str:
    keys = ("seed", "fold", *_score_keys(results.result), *RUN_KEYS)
    rows = [[method, *(number(run.get(key)) for key in keys)] for method, run in _runs_of(results)]
    return section("Runs", table(("pool", *map(_title, keys)), rows), wide=True)


# In the order of the page: Results -> a section as HTML, or "" if it does not apply.
SECTIONS: list[Callable[[Results], str]] = [
    _scores,
    _curves,
    _confusion,
    _targets,
    _roc,
    lambda results: graphs_section(results.data, results.pictures),
    _runs,
    _search,
    lambda results: settings(results.result),
]
