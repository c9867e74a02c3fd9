"""Scores of predictions for graphs, and whether those of two methods differ.

A new score is a function here and a line in ``MORE_SCORES``; it then appears in result.json and in the report.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.special import stdtr
from torch import Tensor
from torch.nn.functional import logsigmoid
from torchmetrics.functional.classification import multiclass_accuracy

from jbpool.data import GraphData

LOWER_IS_BETTER = ("rmse",)             # the metrics of regression


def averaged(scores: Tensor, metric: str) -> Tensor:
    """Return scores whose probabilities are the mean of those of the members: ``(M, B, C)`` to ``(B, C)``.

    Scores are logits of classes or binary tasks, or values in regression, as the metric says.
    """
    if len(scores) == 1:
        return scores[0]
    if metric in LOWER_IS_BETTER:
        return scores.mean(0)
    if metric == "acc":
        return scores.log_softmax(-1).logsumexp(0) - math.log(len(scores))
    return logsigmoid(scores).logsumexp(0) - logsigmoid(-scores).logsumexp(0)


def score(data: GraphData, scores: Tensor, label: Tensor) -> float:
    """Return the accuracy, the RMSE, or the metric of the OGB Evaluator of the dataset.

    ``scores``: ``(G, C)``. ``label``: ``(G,)`` classes or ``(G, C)`` tasks or targets.
    """
    if data.metric == "acc":
        return int((scores.argmax(1) == label).sum()) / len(label)      # float64: the differences of folds may be equal
    if data.is_regression:
        return mean_of(rmse(scores, label))
    from jbpool.data.sets.ogb import evaluator  # needed for its datasets only

    truth = label.view_as(scores).numpy()
    return float(evaluator(data.name).eval({"y_true": truth, "y_pred": scores.numpy()})[data.metric])


def balanced_accuracy(scores: Tensor, label: Tensor) -> float:
    """Return the mean recall of the classes that occur: ``(G, C)`` scores and ``(G,)`` classes."""
    recall = multiclass_accuracy(scores, label, scores.shape[1], average="none")               # (C,)
    return recall[label.unique()].mean().item()


def rmse(values: Tensor, label: Tensor) -> Tensor:
    """Return the root mean squared error of every target, ``(T,)``: ``(G, T)`` values and labels, NaN where unknown."""
    return (values - label).square().nanmean(0).sqrt()


def mae(values: Tensor, label: Tensor) -> Tensor:
    """Return the mean absolute error of every target, ``(T,)``."""
    return (values - label).abs().nanmean(0)


def r2(values: Tensor, label: Tensor) -> Tensor:
    """Return the coefficient of determination of every target, ``(T,)``: 1 is exact, 0 as good as the mean of labels.

    NaN where the labels are all the same.
    """
    variance = (label - label.nanmean(0)).square().nanmean(0)
    return torch.where(variance > 0, 1 - (values - label).square().nanmean(0) / variance, math.nan)


def mean_of(values: Tensor) -> float:
    """Return the mean over the targets for which a score is defined."""
    return values.nanmean().item()


# metric -> further scores of test graphs: name in result.json -> function of scores and labels.
MORE_SCORES: dict[str, dict[str, Callable[[Tensor, Tensor], float]]] = {
    "acc": {"test_balanced": balanced_accuracy},
    "rmse": {
        "test_mae": lambda scores, label: mean_of(mae(scores, label)),
        "test_r2": lambda scores, label: mean_of(r2(scores, label)),
    },
}


def digits(value: float, metric: str) -> str:
    """Return a score as text: three digits after the point, or four of a number that has a unit."""
    return f"{value:.4g}" if metric in LOWER_IS_BETTER else f"{value:.3f}"


# ---------------------------------------------------------------- whether two methods differ on the same folds


EQUAL = 2e-6            # differences closer than this are equal: scores of earlier runs are float32, or have six digits


class Paired(NamedTuple):
    """A mean difference, its standard error, and the two-sided p-value of no difference; NaN: not defined."""

    mean: float
    error: float
    p: float
    pairs: int

    def text(self, metric: str) -> str:
        """Return the difference in percentage points, or in the unit of a metric that is an error, and the p-value."""
        p = "p not defined" if np.isnan(self.p) else "p < 0.01" if self.p < 0.01 else f"p = {self.p:.2f}"
        if metric in LOWER_IS_BETTER:
            return f"{self.mean:+.3f} ± {self.error:.3f} ({p})"
        return f"{100 * self.mean:+.1f} ± {100 * self.error:.1f} ({p})"


def corrected_t_test(differences: Sequence[float], test_over_train: float) -> Paired:
    """Apply the corrected resampled t-test of Nadeau and Bengio (2003) to differences of scores on at least two folds.

    The training graphs of two folds overlap, so differences on folds are not independent, and an ordinary t-test finds
    differences where there are none. The corrected variance of the mean over J folds is ``(1 / J + n_test / n_train) *
    var``.
    """
    count, values = len(differences), np.asarray(differences, dtype=np.float64)
    mean = float(values.mean())
    error = float(np.sqrt((1 / count + test_over_train) * values.var(ddof=1)))
    if np.ptp(values) < EQUAL:                                  # few test graphs: equal differences by chance
        return Paired(mean, 0.0, 1.0 if abs(mean) < EQUAL else np.nan, count)
    return Paired(mean, error, float(2 * stdtr(count - 1, -abs(mean) / error)), count)


def paired_difference(runs: list[dict[str, Any]], others: list[dict[str, Any]], folds: int) -> Paired | None:
    """Return the test score of ``runs`` minus that of ``others`` on common folds, averaged over seeds.

    ``None`` if they have fewer than two folds in common, for example with an official split.
    """
    pairs = {(run["seed"], run["fold"]): run["test"] for run in others}
    by_fold: dict[int, list[float]] = {}
    for run in runs:
        if (run["seed"], run["fold"]) in pairs:
            by_fold.setdefault(run["fold"], []).append(run["test"] - pairs[run["seed"], run["fold"]])
    if len(by_fold) < 2:
        return None
    return corrected_t_test([float(np.mean(values)) for values in by_fold.values()], 1 / (folds - 1))
