"""Scores of predictions for graphs."""

from __future__ import annotations

from torch import Tensor
from torchmetrics.functional.classification import multiclass_accuracy

from jbpool.data import GraphData
from jbpool.data.ogb_mol import evaluator

LOWER_IS_BETTER = ("rmse",)


def score(data: GraphData, scores: Tensor, label: Tensor) -> float:
    """Accuracy, or what the OGB Evaluator of the set says.

    Parameters
    ----------
    data : GraphData
        Tells the metric and the number of classes C or tasks.
    scores : Tensor
        ``(G, C)``.
    label : Tensor
        ``(G,)`` classes or ``(G, C)`` tasks.
    """
    if data.metric == "acc":
        return multiclass_accuracy(scores, label, data.num_classes, average="micro").item()
    truth = label.view_as(scores).numpy()
    return float(evaluator(data.name).eval({"y_true": truth, "y_pred": scores.numpy()})[data.metric])


def balanced_accuracy(data: GraphData, scores: Tensor, label: Tensor) -> float:
    """The mean over classes of their recall."""
    return multiclass_accuracy(scores, label, data.num_classes, average="macro").item()
