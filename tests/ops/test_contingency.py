"""Counts of pairs against a loop over them."""

import pytest
import torch

from jbpool.ops.contingency import contingency


@pytest.mark.parametrize("some", [False, True])
def test_counts_are_those_of_a_loop(some):
    row, column = torch.tensor([0, 2, 2, 0, 2, 1]), torch.tensor([1, 0, 0, 3, 1, 1])
    counted = torch.tensor([True, True, False, True, True, False]) if some else None
    expected = torch.zeros(3, 4, dtype=torch.long)              # largest values + 1, also of pairs that do not count
    for number, (i, j) in enumerate(zip(row, column, strict=True)):
        expected[i, j] += counted is None or bool(counted[number])
    found = contingency(row, column, counted)
    assert found.shape == (3, 4)
    assert torch.equal(found, expected)
