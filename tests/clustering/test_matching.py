"""Clusters matched with those of another clustering, and the numbers they keep."""

import itertools

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from jbpool.clustering.matching import kept_numbers, match

PAIRS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), min_size=1, max_size=30)


@given(PAIRS)
@settings(max_examples=60, deadline=None)
def test_as_many_nodes_as_possible_stay(pairs):
    """Against all ways to match."""
    cluster, other = (torch.tensor(column) for column in zip(*pairs, strict=True))
    found = match(cluster, other)
    assert found.pairs.sum(0).max() <= 1
    assert found.pairs.sum(1).max() <= 1
    rows, columns = found.counts.shape
    most = max(
        sum(found.counts[row, place] for row, place in enumerate(places[:rows]) if place < columns)
        for places in itertools.permutations(range(max(rows, columns)), rows)
    )
    assert found.counts[found.pairs].sum() == most


def test_clusters_keep_their_numbers():
    previous = torch.tensor([3, 3, 3, 0, 0, 0, 5, 5, -1, -1])
    cluster = torch.tensor([1, 1, 1, 2, 2, 2, 0, 0, 3, -1])             # renamed; the last cluster is new
    assert kept_numbers(cluster, previous).tolist() == [5, 3, 0, 6]
    assert kept_numbers(cluster, previous, 6).tolist() == [5, 3, 0, 6, 7, 8]
    assert kept_numbers(cluster, torch.full((10,), -1)).tolist() == [0, 1, 2, 3]


def test_of_two_parts_the_larger_keeps_the_number():
    assert kept_numbers(torch.tensor([0, 0, 1, 1, 1, 2]), torch.tensor([0, 0, 0, 0, 0, 1])).tolist() == [2, 0, 1]
