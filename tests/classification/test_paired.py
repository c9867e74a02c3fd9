"""Paired differences: the corrected t-test against its formula, an ordinary test, and a simulation."""

import numpy as np
import pytest
from scipy import stats

from jbpool.classification.paired import corrected_t_test, paired_difference


def test_against_the_formula():
    differences = [0.02, -0.01, 0.03, 0.04, 0.0]
    mean = sum(differences) / 5
    variance = sum((value - mean) ** 2 for value in differences) / 4
    found = corrected_t_test(differences, 1 / 4)
    assert found.mean == pytest.approx(mean)
    assert found.error == pytest.approx(((1 / 5 + 1 / 4) * variance) ** 0.5)
    assert found.pairs == 5


def test_without_overlap_it_is_the_ordinary_t_test():
    differences = np.random.default_rng(0).normal(0.01, 0.02, 10)
    assert corrected_t_test(differences, 0).p == pytest.approx(stats.ttest_1samp(differences, 0).pvalue)
    assert corrected_t_test(differences, 1 / 9).p > corrected_t_test(differences, 0).p


def test_equal_scores():
    assert corrected_t_test([0.0, 0.0], 0.5).p == 1
    assert corrected_t_test([0.1, 0.1], 0.5).text("acc") == "+10.0 ± 0.0 (p not defined)"
    assert np.isnan(corrected_t_test([0.3 - 0.2, 0.1], 0.5).p)                  # equal up to rounding
    ours, others = (np.array(counts, np.float32) / np.float32(19) for counts in ([17, 16, 15], [16, 15, 14]))
    assert np.ptp(ours - others) > 0
    assert np.isnan(corrected_t_test(ours - others, 1 / 9).p)                   # as torchmetrics returns accuracies
    assert np.isnan(corrected_t_test([0.894737 - 0.842105, 0.842105 - 0.789474], 1 / 9).p)     # as in measured.csv


def test_common_folds_and_the_mean_over_seeds():
    def runs(scores):
        return [{"seed": seed, "fold": fold, "test": test} for (seed, fold), test in scores.items()]

    ours = runs({(0, 0): 0.8, (1, 0): 0.9, (0, 1): 0.7, (0, 2): 0.1})
    others = runs({(0, 0): 0.7, (1, 0): 0.6, (0, 1): 0.6, (0, 3): 0.9})
    found = paired_difference(ours, others, folds=10)
    expected = corrected_t_test([0.2, 0.1], 1 / 9)
    assert found.pairs == 2
    assert found[:3] == pytest.approx(expected[:3])
    assert paired_difference(ours[:2], others, folds=10) is None
    assert corrected_t_test([0.01, 0.02, 0.03], 0.0).text("acc") == "+2.0 ± 0.6 (p = 0.07)"
    assert corrected_t_test([0.41, 0.42, 0.43], 0.0).text("rocauc") == "+42.0 ± 0.6 (p < 0.01)"
    assert corrected_t_test([0.41, 0.42, 0.43], 0.0).text("rmse") == "+0.420 ± 0.006 (p < 0.01)"
