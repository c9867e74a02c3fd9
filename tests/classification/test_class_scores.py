"""Scores of classifications, and paired differences: against formulas, an ordinary t-test, and a simulation."""

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn.metrics import balanced_accuracy_score, mean_absolute_error, r2_score

from jbpool.classification.class_scores import (
    balanced_accuracy,
    corrected_t_test,
    mae,
    mean_of,
    paired_difference,
    r2,
    rmse,
)
from jbpool.data.sets.ogb import evaluator


@pytest.mark.parametrize("label", [[0, 0, 1, 1], [0, 1, 2, 2], [1, 1, 1, 1]])
def test_balanced_accuracy_counts_the_classes_that_occur(label):
    predicted = [0, 0, 1, 2]
    scores = torch.nn.functional.one_hot(torch.tensor(predicted), 3).float()
    classes = set(label)
    recall = [sum(p == y == c for p, y in zip(predicted, label, strict=True)) / label.count(c) for c in classes]
    found = balanced_accuracy(scores, torch.tensor(label))
    assert found == pytest.approx(sum(recall) / len(classes))
    if len(classes) == 3:                                       # sklearn warns where a predicted class does not occur
        assert found == pytest.approx(balanced_accuracy_score(label, predicted))


def test_scores_of_numbers():
    rng = torch.Generator().manual_seed(0)
    label, found = torch.randn(50, 3, generator=rng).double(), torch.randn(50, 3, generator=rng).double()
    truth, guess = label.numpy(), found.numpy()
    np.testing.assert_allclose(mae(found, label), mean_absolute_error(truth, guess, multioutput="raw_values"))
    np.testing.assert_allclose(r2(found, label), r2_score(truth, guess, multioutput="raw_values"))
    label[3, 0] = label[7:20, 2] = float("nan")
    official = evaluator("ogbg-molesol")
    official.num_tasks = 3
    expected = official.eval({"y_true": label.numpy(), "y_pred": guess})["rmse"]
    assert mean_of(rmse(found, label)) == pytest.approx(expected)
    known = label[:, 2].isfinite()
    assert mae(found, label)[2] == pytest.approx(mean_absolute_error(label[known, 2], found[known, 2]))
    label[:, 1] = 4.0
    assert r2(found, label).isnan().tolist() == [False, True, False]


# ---------------------------------------------------------------- paired differences


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
