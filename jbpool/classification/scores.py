"""Scores of predictions for graphs.

A new score is a function here and a line in ``CLASS_SCORES``; it then appears in result.json and in the report.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor
from torchmetrics.functional.classification import multiclass_accuracy

from jbpool.data import GraphData
from jbpool.data.ogb_mol import evaluator

LOWER_IS_BETTER = ("rmse",)


def score(data: GraphData, scores: Tensor, label: Tensor) -> float:
    """Accuracy, or the metric of the OGB Evaluator of the dataset.

    Parameters
    ----------
    data : GraphData
        The dataset, which determines the metric and the number of classes or tasks C.
    scores : Tensor
        ``(G, C)``.
    label : Tensor
        ``(G,)`` classes or ``(G, C)`` tasks.
    """
    if data.metric == "acc":
        return multiclass_accuracy(scores, label, data.num_classes, average="micro").item()
    truth = label.view_as(scores).numpy()
    return float(evaluator(data.name).eval({"y_true": truth, "y_pred": scores.numpy()})[data.metric])


def balanced_accuracy(scores: Tensor, label: Tensor) -> float:
    """Mean over the classes of their recall.

    Parameters
    ----------
    scores : Tensor
        ``(G, C)``.
    label : Tensor
        ``(G,)`` classes.
    """
    return multiclass_accuracy(scores, label, scores.shape[1], average="macro").item()


# Further scores of test graphs with classes: name in result.json -> function of scores and labels.
CLASS_SCORES: dict[str, Callable[[Tensor, Tensor], float]] = {
    "test_balanced": balanced_accuracy,
}
