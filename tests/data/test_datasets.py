"""Packed graphs: batches, folds."""

import pytest
import torch
from zoo import batched

from jbpool.data import DataError, load_graphs
from jbpool.errors import JBPoolError


def small(num_graphs=40, **options):
    return load_graphs("motifs", num_graphs=num_graphs, **options)


def test_packed_batches_equal_batched_graphs():
    data = small()
    graphs = [data.batch([i]) for i in range(len(data))]
    index = torch.tensor([7, 3, 3, 39, 0])
    packed, expected = data.batch(index), batched([graphs[i].graph for i in index])
    assert torch.equal(packed.graph.edge_index, expected.edge_index)
    assert torch.equal(packed.graph.sizes, expected.sizes)
    assert torch.equal(packed.feat, torch.cat([graphs[i].feat for i in index]))
    assert torch.equal(packed.label, data.label[index])


def test_graphs_are_chosen_by_number_or_mask():
    data = load_graphs("motifs", num_graphs=30)
    mask = torch.zeros(30, dtype=torch.bool)
    mask[[5, 6]] = True
    assert torch.equal(data.batch(mask).feat, data.batch([5, 6]).feat)
    assert torch.equal(data.batch([-1]).feat, data.batch([29]).feat)
    for wrong, words in ((3, "a list of"), ([True, False], "a mask of all"), ([0.5], "a list of"), ([30], "0 to 29")):
        with pytest.raises(JBPoolError, match=words):
            data.batch(wrong)


def test_folds_cover_every_graph_once_and_are_stratified():
    data = small(120)
    seen = torch.zeros(120, dtype=torch.long)
    for fold in range(10):
        split = data.split(fold, 10, seed=3)
        assert torch.cat(list(split)).sort().values.tolist() == list(range(120))
        seen[split.test] += 1
        for part in split:
            counts = data.label[part].bincount(minlength=3)
            assert counts.max() - counts.min() <= 1
        assert data.label[split.test].bincount().tolist() == [4, 4, 4]
        assert all(torch.equal(a, b) for a, b in zip(split, data.split(fold, 10, seed=3), strict=True))
    assert (seen == 1).all()
    assert not torch.equal(data.split(0, 10, 0).test, data.split(0, 10, 1).test)


@pytest.mark.parametrize(("fold", "folds"), [(10, 10), (-1, 10), (0, 1)])
def test_bad_folds(fold, folds):
    with pytest.raises(ValueError, match="numbered from 0"):
        small().split(fold, folds)


def test_classes_too_small_to_fold():
    with pytest.raises(DataError, match="use fewer folds"):
        small(12).split(0, 10)
