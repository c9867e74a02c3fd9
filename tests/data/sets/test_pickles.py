"""Pickles of published sets: plain arrays are read, nothing runs, and memory is bounded."""

import collections
import pickle
import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

from jbpool.data import DataError
from jbpool.data.sets.citation import _parse_planetoid
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
    "codecs": lambda path: Evil(__import__("codecs").encode, "x", "rot13"),
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
    for array in (np.arange(6).reshape(2, 3).T, np.arange(3, dtype=">f4"), np.array([], dtype=bool)):
        path.write_bytes(pickle.dumps(array, protocol))
        loaded = load_pickle(path)
        assert loaded.dtype == array.dtype.newbyteorder("=")
        np.testing.assert_array_equal(loaded, array)
    graph = collections.defaultdict(list, {0: [1, 2], 1: []})
    path.write_bytes(pickle.dumps(graph, protocol))
    assert load_pickle(path) == graph


@pytest.mark.parametrize("content", [b"", b"\x80\x04", b"not a pickle", b"\x80\x02]q\x00(K\x01"])
def test_damaged_pickles_are_reported(tmp_path, content):
    (tmp_path / "bad").write_bytes(content)
    with pytest.raises(DataError, match="download the file again"):
        load_pickle(tmp_path / "bad")


class TestPickles:
    def read(self, tmp_path, content):
        (tmp_path / "bad").write_bytes(content)
        with pytest.raises(DataError, match="bad: not a pickle of plain arrays") as caught:
            load_pickle(tmp_path / "bad")
        return str(caught.value)

    def test_a_huge_memo_number(self, tmp_path):
        """The unpickler in C would allocate 4 GB."""
        (tmp_path / "large").write_bytes(b"\x80\x02]r\xff\xff\xff\x0fK\x01a.")
        tracemalloc.start()
        assert load_pickle(tmp_path / "large") == [1]
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
        tracemalloc.stop()

    def test_attributes_of_a_function_are_not_set(self, tmp_path):
        assert "a state of" in self.read(tmp_path, b"\x80\x02cnumpy.core.multiarray\n_reconstruct\n}U\x01xK\x01sb.")

    def test_a_huge_length(self, tmp_path):
        self.read(tmp_path, b"\x80\x04\x8e" + struct.pack("<Q", 1 << 40) + b"x.")

    @pytest.mark.parametrize("shape", [(1 << 40,), (0, 1 << 40)])
    def test_an_array_larger_than_its_bytes(self, tmp_path, shape):
        class Claim:
            def __reduce__(self):
                state = (1, shape, np.dtype("f4"), False, b"")
                return np.empty(0).__reduce__()[0], (np.ndarray, (0,), b"b"), state

        assert "without all its values" in self.read(tmp_path, pickle.dumps(Claim(), 2))

    def test_a_matrix_that_is_called_with_a_shape(self, tmp_path):
        class Claim:
            def __reduce__(self):
                return scipy.sparse.csr_matrix, ((1 << 40, 1 << 40),)

        self.read(tmp_path, pickle.dumps(Claim(), 2))

    def test_indices_beyond_a_matrix(self, tmp_path):
        matrix = scipy.sparse.csr_matrix(np.eye(3))
        matrix.indices[1] = 1 << 30
        self.read(tmp_path, pickle.dumps(matrix, 2))
        matrix = scipy.sparse.csr_matrix(np.eye(3))
        matrix.indptr[2:] = 9, -9
        self.read(tmp_path, pickle.dumps(matrix, 2))

    def test_one_list_in_many_places(self, tmp_path):
        """A small file that names more citations than it can hold."""
        graph = dict.fromkeys(range(6), [1] * 3000)
        with pytest.raises(DataError, match="more citations than bytes"):
            _parse_planetoid(self.planetoid(tmp_path, scipy.sparse.csr_matrix((2, 3)), graph))

    def test_columns_that_differ_between_the_parts(self, tmp_path):
        graph = {node: [(node + 1) % 6] for node in range(6)}
        with pytest.raises(DataError, match="damaged"):
            _parse_planetoid(self.planetoid(tmp_path, scipy.sparse.csr_matrix((2, 10**9)), graph))

    @staticmethod
    def planetoid(folder, tx, graph):
        parts = [tx, np.eye(2), scipy.sparse.csr_matrix((4, 3)), np.eye(4)[:, :2], graph]
        paths = [folder / f"ind.s.{name}" for name in ("tx", "ty", "allx", "ally", "graph", "test.index")]
        for path, part in zip(paths, parts, strict=False):
            path.write_bytes(pickle.dumps(part, 2))
        paths[-1].write_text("4\n5\n")
        return paths
