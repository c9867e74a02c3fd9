"""When values may be read, and how near misses are reported."""

from types import SimpleNamespace

import pytest

from jbpool import value_checks
from jbpool.checks import lookup, may_read


def on(kind):
    return SimpleNamespace(device=SimpleNamespace(type=kind))


@pytest.mark.parametrize(
    ("mode", "kind", "only_if_asked", "expected"),
    [
        ("auto", "cpu", False, True),
        ("auto", "cpu", True, False),
        ("auto", "cuda", False, False),         # a read would be a synchronisation
        ("auto", "cuda", True, False),
        ("all", "cpu", True, True),
        ("all", "cuda", True, True),
        ("all", "meta", True, False),           # there are no values
        ("none", "cpu", False, False),
    ],
)
def test_which_values_are_read(mode, kind, only_if_asked, expected):
    with value_checks(mode):
        assert may_read(on(kind), only_if_asked) is expected


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
