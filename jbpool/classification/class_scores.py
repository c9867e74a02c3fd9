"""Scores of predictions for graphs.

A new score is a function here and a line in ``CLASS_SCORES``; it then appears in result.json and in the report.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from torch import Tensor
from torch.nn.functional import logsigmoid
from torchmetrics.functional.classification import multiclass_accuracy

from jbpool.data import GraphData
from jbpool.data.sets.ogb import evaluator

LOWER_IS_BETTER = ("rmse",)


def averaged(scores: Tensor, metric: str) -> Tensor:
    """Scores whose probabilities are the mean of those of the members of an ensemble: ``(M, B, C)`` to ``(B, C)``.

    Parameters
    ----------
    scores : Tensor
        ``(M, B, C)``: logits of classes or binary tasks, or values in regression.
    metric : str
        That of the dataset.
    """
    if len(scores) == 1:
        return scores[0]
    if metric in LOWER_IS_BETTER:
        return scores.mean(0)
    if metric == "acc":
        return scores.log_softmax(-1).logsumexp(0) - math.log(len(scores))
    return logsigmoid(scores).logsumexp(0) - logsigmoid(-scores).logsumexp(0)


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
        return int((scores.argmax(1) == label).sum()) / len(label)      # float64: the differences of folds may be equal
    truth = label.view_as(scores).numpy()
    return float(evaluator(data.name).eval({"y_true": truth, "y_pred": scores.numpy()})[data.metric])


def balanced_accuracy(scores: Tensor, label: Tensor) -> float:
    """Mean recall of the classes that occur.

    Parameters
    ----------
    scores : Tensor
        ``(G, C)``.
    label : Tensor
        ``(G,)`` classes.
    """
    recall = multiclass_accuracy(scores, label, scores.shape[1], average="none")               # (C,)
    return recall[label.unique()].mean().item()


# Further scores of test graphs with classes: name in result.json -> function of scores and labels.
CLASS_SCORES: dict[str, Callable[[Tensor, Tensor], float]] = {
    "test_balanced": balanced_accuracy,
}
