"""Scores of classifications."""

import pytest
import torch
from sklearn.metrics import balanced_accuracy_score

from jbpool.classification.class_scores import balanced_accuracy


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
