"""When values may be read, and how near misses are reported."""

from types import SimpleNamespace

import pytest
import torch

from jbpool import value_checks
from jbpool.checks import check_cluster_sizes, check_sizes, may_read
from jbpool.names import lookup


def on(kind):
    return SimpleNamespace(device=SimpleNamespace(type=kind))


@pytest.mark.parametrize(
    ("mode", "kind", "expected"),
    [
        ("auto", "cpu", True),
        ("auto", "cuda", False),                # a read would be a synchronisation
        ("all", "cpu", True),
        ("all", "cuda", True),
        ("all", "meta", False),                 # there are no values
        ("none", "cpu", False),
    ],
)
def test_which_values_are_read(mode, kind, expected):
    with value_checks(mode):
        assert may_read(on(kind)) is expected


def test_the_mode_ends_with_its_block():
    with value_checks("none"), value_checks("all"):
        assert may_read(on("cuda"))
    assert not may_read(on("cuda"))
    assert may_read(on("cpu"))


def test_lookup_suggests_and_lists():
    assert lookup({"relu": 1}, "relu", "activation") == 1
    with pytest.raises(ValueError, match=r"'rlu' is unknown\. Did you mean 'relu'\? Choose one of: relu, elu\."):
        lookup({"relu": 1, "elu": 2}, "rlu", "activation")
    with pytest.raises(ValueError, match=r"xyz=3 is unknown\. Choose"):
        lookup({"relu": 1}, 3, "xyz")


@pytest.mark.parametrize("sizes", [torch.zeros(0).long(), [True, False], [1.0, 1.0], [[2]]])
def test_sizes_are_a_row_of_whole_numbers(sizes):
    with pytest.raises(ValueError, match="give the nodes per graph as whole numbers"):
        check_sizes(torch.as_tensor(sizes), 2)


@pytest.mark.parametrize("shares", [[0.5, 0.51], [0.5, 0.49], [1.0, 0.0], [1.5, -0.5]])
def test_proportions_are_positive_and_sum_to_one(shares):
    with pytest.raises(ValueError, match="must be positive and add up to 1"):
        check_cluster_sizes(shares, 2)


def test_rounded_proportions_are_rescaled():
    given = torch.tensor([0.3333, 0.3333, 0.3333], requires_grad=True)
    share = check_cluster_sizes(given, 3)
    assert share.tolist() == pytest.approx([1 / 3] * 3, abs=1e-12)
    assert not share.requires_grad
