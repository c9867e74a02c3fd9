"""What both tasks check before a trained model is applied: columns by name, values as in training."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from zoo import undirected

from jbpool.engine.predict import called_with, check_given, check_values, in_order, match_columns
from jbpool.errors import DataError, JBPoolError

NAMES = st.lists(st.text(max_size=3), min_size=1, max_size=8, unique=True)


@given(NAMES.flatmap(lambda names: st.tuples(st.just(names), st.permutations(names))))
def test_columns_are_found_by_their_names(names):
    trained, new = names
    values = torch.arange(float(len(new)))[None]
    moved = in_order(values, match_columns(trained, new, "feature"))
    assert [new[int(place)] for place in moved[0]] == trained


def test_columns_without_names_keep_their_places():
    values = torch.rand(2, 3)
    for trained, new in ((None, ["a", "b", "c"]), (["a", "b", "c"], None), (None, None)):
        assert in_order(values, match_columns(trained, new, "feature")) is values


def test_columns_of_other_names():
    with pytest.raises(DataError, match="edge feature 'c' is unknown"):
        match_columns(["a", "b"], ["a", "b", "c"], "edge feature")
    with pytest.raises(DataError, match="feature 'b' is missing"):
        match_columns(["a", "b"], ["a"], "feature")
    places = match_columns(["a", "b", "c"], ["c", "a"], "feature", lambda name: name == "b")
    assert in_order(torch.tensor([[1.0, 2.0]]), places).tolist() == [[2.0, 0.0, 1.0]]


@pytest.mark.parametrize(
    ("values", "categories", "word"),
    [
        (torch.ones(3, 1), None, "columns"),
        (torch.ones(2, 2), None, "rows"),
        ([[1, 2]] * 3, None, "list"),
        (torch.ones(3, 2).long(), None, "numbers"),
        (torch.tensor([[1.0, 2], [3, float("nan")], [5, 6]]), None, "NaN"),
        (torch.ones(3, 2), [2, 2], "categories"),
        (torch.tensor([[0, 1], [0, 2], [0, 0]]), [2, 2], r"category 2 of column 1 .* 0 to 1"),
        (torch.full((3, 2), -1), [2, 2], "category -1"),
    ],
)
def test_values_unlike_those_of_training(values, categories, word):
    with pytest.raises(DataError, match=word):
        check_values(values, 3, 2, categories, "feat")


def test_what_a_model_is_called_with():
    path = undirected([0, 1], [1, 2])
    graph, feat, weight = called_with(path, torch.ones(3, 2).double(), torch.ones(4).double(), 2)
    assert (graph.num_nodes, feat.dtype, weight.dtype) == (3, torch.float32, torch.float32)
    codes = torch.zeros(3, 2, dtype=torch.int64)
    assert called_with(path, codes, None, 2, [1, 1])[1] is codes
    with pytest.raises(JBPoolError, match="both directions"):
        called_with(path, torch.ones(3, 2), torch.arange(4.0), 2)


@pytest.mark.parametrize(("new", "trained", "word"), [(True, False, "without"), (False, True, "with edge weights")])
def test_what_must_be_given_as_in_training(new, trained, word):
    check_given(new, new, "edge weights")
    with pytest.raises(DataError, match=word):
        check_given(new, trained, "edge weights")
