"""Whether two methods differ on the same folds: the corrected resampled t-test."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from jbpool.classification.class_scores import LOWER_IS_BETTER

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
    return Paired(mean, error, float(2 * stats.t.sf(abs(mean) / error, count - 1)), count)


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
