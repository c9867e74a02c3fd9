"""The test graphs that a report shows, and the predictions of the network for them."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from jbpool.data import GraphData
from jbpool.report.page import class_names

PICTURED = 48           # test graphs, of at most PICTURED_NODES nodes
PICTURED_NODES = 120


class Verdict(NamedTuple):
    """True and predicted classes of graphs, and the margin of each prediction."""

    label: Tensor           # (G,)
    predicted: Tensor       # (G,)
    margin: Tensor          # (G,) probability of the predicted class minus that of the next


def verdict(data: GraphData, scores: Tensor, label: Tensor) -> Verdict | None:
    """Decisions from scores ``(G, C)``; None where there are no classes (several tasks, regression).

    Parameters
    ----------
    data : GraphData
        The dataset; its metric says what the scores are.
    scores : Tensor
        ``(G, C)`` of a network.
    label : Tensor
        ``(G,)``, or ``(G, 1)`` for a binary task.
    """
    if data.metric == "acc":
        chance = scores.softmax(1)
        known = label
    elif data.metric in ("rocauc", "ap") and data.num_classes == 1 and bool(label.isfinite().all()):
        positive = scores.view(-1, 1).sigmoid()
        chance = torch.cat([1 - positive, positive], dim=1)
        known = label.flatten()
    else:
        return None
    best = chance.topk(2, dim=1)
    return Verdict(known.long(), best.indices[:, 0], best.values[:, 0] - best.values[:, 1])


def names_of_classes(data: GraphData) -> list[str]:
    """Names of the classes of ``verdict``."""
    if data.metric != "acc":
        return ["negative", "positive"]
    return class_names(data.class_names, data.num_classes)


def choose_pictured(data: GraphData, graphs: Tensor, scores: Tensor) -> Tensor:
    """Select small graphs to draw, cycling through the pairs of class and prediction, the least certain first.

    Parameters
    ----------
    data : GraphData
        The dataset.
    graphs : Tensor
        ``(G,)`` test graphs.
    scores : Tensor
        ``(G, C)`` of these graphs.

    Returns
    -------
    Tensor
        At most ``PICTURED`` of the graphs, in their order.
    """
    small = data.sizes[graphs] <= PICTURED_NODES
    graphs, scores = graphs[small], scores[small]
    found = verdict(data, scores, data.label[graphs])
    if found is None or len(graphs) <= PICTURED:
        return graphs[:PICTURED]
    cell = found.label * (int(found.predicted.max()) + 1) + found.predicted
    order = found.margin.argsort(stable=True)
    order = order[cell[order].argsort(stable=True)]                                 # by cell, the least certain first
    first = torch.searchsorted(cell[order], cell[order])
    rank = torch.arange(len(order)) - first
    return graphs[order[rank.argsort(stable=True)[:PICTURED]].sort().values]
