"""Pickles of published sets: plain arrays are read, and nothing runs."""

import collections
import pickle
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

from jbpool.data import DataError
from jbpool.data.sets.pickles import load_pickle


class Evil:
    def __init__(self, function, *args):
        self.call = (function, args)

    def __reduce__(self):
        return self.call


EVIL = {
    "system": lambda path: Evil(__import__("os").system, f"touch {path}"),
    "eval": lambda path: Evil(eval, f"open({str(path)!r}, 'w')"),
    "getattr": lambda path: Evil(getattr, Path(path), "touch"),
    "in a dict": lambda path: {1: [2, Evil(__import__("os").system, f"touch {path}")]},
    "in an object array": lambda path: np.array([Evil(__import__("os").system, f"touch {path}")], dtype=object),
}


@pytest.mark.parametrize("kind", EVIL)
@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_malicious_pickle_does_not_run(tmp_path, kind, protocol):
    target = tmp_path / "was-here"
    (tmp_path / "evil.x").write_bytes(pickle.dumps(EVIL[kind](target), protocol))
    with pytest.raises(DataError, match=r"evil\.x: not a pickle of plain arrays"):
        load_pickle(tmp_path / "evil.x")
    assert not target.exists()


@pytest.mark.parametrize("protocol", [2, 4])
def test_plain_pickles_are_read(tmp_path, protocol):
    matrix = scipy.sparse.random(5, 4, 0.5, format="csr", random_state=0)
    path = tmp_path / "plain"
    path.write_bytes(pickle.dumps(matrix, protocol))
    assert (load_pickle(path) != matrix).nnz == 0
    for array in (np.arange(6).reshape(2, 3).T, np.arange(3, dtype=">f4")):
        path.write_bytes(pickle.dumps(array, protocol))
        np.testing.assert_array_equal(load_pickle(path), array)
    graph = collections.defaultdict(list, {0: [1, 2], 1: []})
    path.write_bytes(pickle.dumps(graph, protocol))
    assert load_pickle(path) == graph


def test_flags_of_a_type_are_not_believed(tmp_path):
    """These say that its numbers are references: numpy fails when the array is freed."""
    array = np.arange(3, dtype="f4")
    content = pickle.dumps(array, 2)
    assert content.count(b"K\x00tq") == 1
    (tmp_path / "flags").write_bytes(content.replace(b"K\x00tq", b"K\x3ftq"))
    np.testing.assert_array_equal(load_pickle(tmp_path / "flags"), array)


@pytest.mark.parametrize("content", [b"", b"\x80\x04", b"not a pickle", b"\x80\x02]q\x00(K\x01", None])
def test_damaged_pickles_are_reported(tmp_path, content):
    if content is not None:
        (tmp_path / "bad").write_bytes(content)
    with pytest.raises(DataError, match="bad"):
        load_pickle(tmp_path / "bad")
