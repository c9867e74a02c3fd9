"""Scores of classifications."""

import numpy as np
import pytest
import torch
from sklearn.metrics import balanced_accuracy_score, mean_absolute_error, r2_score

from jbpool.classification.class_scores import balanced_accuracy, mae, mean_of, r2, rmse
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
