"""Edges in arrays and Parquet, memory-mapped features."""

import importlib.util
import sys

import numpy as np
import pandas as pd
import pytest
import torch

from jbpool.data import DataError, load_nodes
from jbpool.data.own import edges, one_graph, tables

PAIRS = np.array([[0, 1], [1, 2], [2, 0], [2, 3], [3, 2], [1, 1]])
WEIGHTS = np.array([1, 2, 3, 4, 5, 6])
needs_pyarrow = pytest.mark.skipif(importlib.util.find_spec("pyarrow") is None, reason="pyarrow is not installed")


def edges_of(data):
    """Edges in the user's ids, each direction, with their weights."""
    weight = [None] * data.graph.num_edges if data.edge_weight is None else data.edge_weight.tolist()
    source, target = (data.ids[end.numpy()].tolist() for end in data.graph.edge_index)
    return dict(zip(zip(source, target, strict=True), weight, strict=True))


def from_csv(folder, pairs, weight=None):
    """The same edges by way of text."""
    frame = pd.DataFrame(pairs)
    if weight is not None:
        frame["weight"] = weight
    frame.to_csv(folder / "plain.csv", index=False, header=False)
    return load_nodes("file", edges=folder / "plain.csv")


def same(one, other):
    assert edges_of(one) == edges_of(other)
    assert one.ids.tolist() == other.ids.tolist()
    return True


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of a few edges, so that a small file has several."""
    monkeypatch.setattr(tables, "BLOCK", 40)
    monkeypatch.setattr(edges, "BLOCK", 4)
    monkeypatch.setattr(tables, "ROWS", 4)
    monkeypatch.setattr(one_graph, "BLOCK", 4)


class TestArrays:
    @pytest.mark.parametrize("dtype", ["int32", "int64", "uint8", ">i4", "uint64"])
    @pytest.mark.parametrize("order", ["C", "F"])
    def test_npy(self, tmp_path, small_blocks, dtype, order):
        np.save(tmp_path / "e.npy", np.asarray(PAIRS, dtype=dtype, order=order))
        assert same(load_nodes("file", edges=tmp_path / "e.npy"), from_csv(tmp_path, PAIRS))
        (tmp_path / "e.npy").rename(tmp_path / "E.NPY")
        assert same(load_nodes("file", edges=tmp_path / "E.NPY"), from_csv(tmp_path, PAIRS))

    def test_npz(self, tmp_path, small_blocks):
        np.savez(tmp_path / "e.npz", source=PAIRS[:, 0], target=PAIRS[:, 1].astype(np.int16))
        assert same(load_nodes("file", edges=tmp_path / "e.npz"), from_csv(tmp_path, PAIRS))
        for weight in (WEIGHTS, WEIGHTS / 2, WEIGHTS.astype(np.float32)):
            np.savez_compressed(
                tmp_path / "e.npz", source=PAIRS[:, 0], target=PAIRS[:, 1], weight=weight, year=np.zeros(2)
            )
            data = load_nodes("file", edges=tmp_path / "e.npz")
            assert same(data, from_csv(tmp_path, PAIRS, weight))
            assert "weighted by column 'weight'" in data.summary
            assert "ignored: column 'year' of e.npz" in data.summary

    @pytest.mark.parametrize("scale", [1, 7, 10**12])
    @pytest.mark.parametrize("shift", [0, 5])
    def test_ids_with_gaps_leave_no_nodes_between(self, tmp_path, small_blocks, scale, shift):
        pairs = PAIRS * scale + shift
        np.save(tmp_path / "e.npy", pairs)
        assert same(load_nodes("file", edges=tmp_path / "e.npy"), from_csv(tmp_path, pairs))
        assert from_csv(tmp_path, pairs).ids.tolist() == [shift, scale + shift, 2 * scale + shift, 3 * scale + shift]

    def test_dense_ids_are_used_as_they_are(self, tmp_path):
        np.save(tmp_path / "e.npy", PAIRS)
        listed = edges.read_edges(tmp_path / "e.npy")
        source, target = listed.numbered(listed.distinct_ids())
        assert source is listed.source
        assert target is listed.target
        assert source.dtype == np.int32

    @pytest.mark.parametrize(
        ("array", "words"),
        [
            (PAIRS.astype(float), r"e\.npy: source holds float64: node ids must be whole numbers"),
            (PAIRS.astype(str), "node ids must be whole numbers"),
            (PAIRS > 1, "holds bool"),
            (PAIRS.T, r"array of shape \(2, 6\): \(E, 2\) expected"),
            (PAIRS[:, 0], r"array of shape \(6,\)"),
            (PAIRS[:0], "has no edges"),
            (PAIRS - 1, "row 1: node id -1: ids are numbers from 0"),
            (np.array([[0, 1], [1, 2**63]], dtype=np.uint64), "row 2: node id 9223372036854775808"),
            (np.array([[print, 1]], dtype=object), "without objects"),
        ],
    )
    def test_bad_npy(self, tmp_path, array, words):
        np.save(tmp_path / "e.npy", array, allow_pickle=True)
        with pytest.raises(DataError, match=words) as error:
            load_nodes("file", edges=tmp_path / "e.npy")
        assert "\n" not in str(error.value)

    @pytest.mark.parametrize(
        ("arrays", "words"),
        [
            ({"source": [0]}, r"has the arrays \['source'\]: source and target expected"),
            ({"source": [0, 1], "target": [1]}, r"target has shape \(1,\): one number per edge"),
            ({"source": [0], "target": [1], "weight": [1, 2]}, r"weight has shape \(2,\)"),
            ({"source": [[0]], "target": [[1]]}, r"source has shape \(1, 1\)"),
            ({"source": [0], "target": [-1]}, "row 1: node id -1"),
            ({"source": [0], "target": [0.5]}, "target holds float64"),
            ({"source": [0, 0], "target": [1, 2], "weight": [1, -2]}, "row 2: weight -2 is negative"),
            ({"source": [0], "target": [1], "weight": [np.nan]}, "row 1: column 'weight' has the value nan"),
            ({"source": [0], "target": [1], "weight": ["heavy"]}, "row 1: 'heavy' is not a finite number"),
            ({"source": [0], "target": [1], "weight": [1e300]}, "beyond the range of float32"),
            ({"source": np.array([print]), "target": [1]}, "objects"),
            ({"source": np.zeros(0, int), "target": np.zeros(0, int)}, "has no edges"),
        ],
    )
    def test_bad_npz(self, tmp_path, arrays, words):
        np.savez(tmp_path / "e.npz", **arrays)
        with pytest.raises(DataError, match=words):
            load_nodes("file", edges=tmp_path / "e.npz")

    @pytest.mark.parametrize("name", ["e.npy", "e.npz"])
    @pytest.mark.parametrize("kept", [-8, 100, 3, 0])
    def test_truncated(self, tmp_path, name, kept):
        np.save(tmp_path / "e.npy", PAIRS)
        np.savez(tmp_path / "e.npz", source=PAIRS[:, 0], target=PAIRS[:, 1])
        (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:kept])
        with pytest.raises(DataError, match=rf"{name}: not a"):
            load_nodes("file", edges=tmp_path / name)

    def test_a_missing_file(self, tmp_path):
        for name in ("e.npy", "e.npz"):
            with pytest.raises(DataError, match="no such file"):
                load_nodes("file", edges=tmp_path / name)

    def test_an_edge_beyond_the_features(self, tmp_path):
        np.save(tmp_path / "e.npy", PAIRS)
        np.save(tmp_path / "x.npy", np.ones((3, 2)))
        with pytest.raises(DataError, match=r"x\.npy: 3 rows are for node ids 0\.\.2, but e\.npy has node 3"):
            load_nodes("file", edges=tmp_path / "e.npy", features=tmp_path / "x.npy")

    def test_options_of_text_are_refused(self, tmp_path):
        np.save(tmp_path / "e.npy", PAIRS)
        with pytest.raises(DataError, match="are for text files"):
            load_nodes("file", edges=tmp_path / "e.npy", header=True)


class TestParquet:
    def write(self, path, **columns):
        pd.DataFrame(columns).to_parquet(path)
        return path

    @needs_pyarrow
    def test_columns_by_name_or_order(self, tmp_path, small_blocks, caplog):
        one, other = PAIRS.T
        for columns in (
            {"weight": WEIGHTS, "dst": other, "SRC": one},
            {"a": one, "b": other, "W": WEIGHTS, "year": one},
        ):
            data = load_nodes("file", edges=self.write(tmp_path / "e.parquet", **columns))
            assert same(data, from_csv(tmp_path, PAIRS, WEIGHTS))
        assert "ignored: column 'year' of e.parquet" in data.summary
        assert not caplog.text
        data = load_nodes("file", edges=self.write(tmp_path / "e.pq", a=one, b=other, value=one))
        assert data.edge_weight is None
        assert "columns ['value'] are not used" in caplog.text

    @needs_pyarrow
    def test_text_and_negative_ids(self, tmp_path, small_blocks):
        names = np.array(["007", "7", "zoë", "d"], dtype=object)[PAIRS]
        data = load_nodes("file", edges=self.write(tmp_path / "e.parquet", source=names[:, 0], target=names[:, 1]))
        assert same(data, from_csv(tmp_path, names))
        data = load_nodes("file", edges=self.write(tmp_path / "e.parquet", source=PAIRS[:, 0], target=-PAIRS[:, 1]))
        assert same(data, from_csv(tmp_path, PAIRS * [1, -1]))

    @needs_pyarrow
    @pytest.mark.parametrize(
        ("columns", "words"),
        [
            ({"source": [0.0], "target": [1.0]}, "column 'source' holds float64: node ids must be whole numbers"),
            ({"source": [0, None], "target": [1, 2]}, "column 'source' has missing values"),
            ({"source": [b"a"], "target": [b"b"]}, "holds object: node ids must be"),
            ({"source": [0]}, r"1 columns: expected source, target"),
            ({"source": [0], "target": [1], "weight": [-1.5]}, "row 1: weight -1.5 is negative"),
            ({"source": [0], "target": [1], "weight": ["x"]}, "row 1: 'x' is not a finite number"),
            ({"source": [0, 1], "target": [1, 2], "weight": [1.0, None]}, "row 2: column 'weight' has the value nan"),
            ({"source": np.zeros(0, int), "target": np.zeros(0, int)}, "has no rows"),
        ],
    )
    def test_bad_tables(self, tmp_path, columns, words):
        with pytest.raises(DataError, match=words):
            load_nodes("file", edges=self.write(tmp_path / "e.parquet", **columns))

    @needs_pyarrow
    def test_damaged(self, tmp_path):
        path = self.write(tmp_path / "e.parquet", source=PAIRS[:, 0], target=PAIRS[:, 1])
        path.write_bytes(path.read_bytes()[:-30])
        with pytest.raises(DataError, match=r"e\.parquet: not a Parquet file"):
            load_nodes("file", edges=path)

    def test_without_pyarrow(self, tmp_path, monkeypatch):
        monkeypatch.setitem(sys.modules, "pyarrow", None)
        (tmp_path / "e.parquet").write_bytes(b"PAR1")
        with pytest.raises(DataError, match=r"e\.parquet: reading Parquet needs pyarrow: pip install pyarrow$"):
            load_nodes("file", edges=tmp_path / "e.parquet")


class TestMemory:
    def test_features_are_mapped_not_copied(self, tmp_path, small_blocks):
        np.save(tmp_path / "e.npy", PAIRS)
        values = np.arange(12, dtype=np.float32).reshape(4, 3)
        np.save(tmp_path / "x.npy", values)
        before = (tmp_path / "x.npy").read_bytes()
        table = one_graph.read_features(tmp_path / "x.npy")
        assert isinstance(table.values, np.memmap)
        feat = load_nodes("file", edges=tmp_path / "e.npy", features=tmp_path / "x.npy").feat
        assert torch.equal(feat, torch.from_numpy(values))
        feat += 1                                                           # in place, and the file keeps its values
        assert (tmp_path / "x.npy").read_bytes() == before

    @pytest.mark.parametrize("order", ["C", "F"])
    @pytest.mark.parametrize("dtype", ["float64", "float16", "int8", "bool", ">f4", "float32"])
    def test_other_features_are_converted(self, tmp_path, small_blocks, dtype, order):
        np.save(tmp_path / "e.npy", PAIRS)
        values = np.asarray(np.arange(12).reshape(4, 3) % 5, dtype=dtype, order=order)
        np.save(tmp_path / "x.npy", values)
        feat = load_nodes("file", edges=tmp_path / "e.npy", features=tmp_path / "x.npy").feat
        assert feat.dtype == torch.float32
        assert feat.is_contiguous()
        assert feat.tolist() == values.astype(np.float32).tolist()

    def test_not_finite_in_a_later_block(self, tmp_path, small_blocks):
        np.save(tmp_path / "e.npy", PAIRS)
        for dtype in ("float32", "float64"):
            values = np.zeros((4, 3), dtype=dtype)
            values[3, 1] = np.inf
            np.save(tmp_path / "x.npy", values)
            with pytest.raises(DataError, match=r"x\.npy: features hold NaN, infinity"):
                load_nodes("file", edges=tmp_path / "e.npy", features=tmp_path / "x.npy")

    def test_labels_by_row(self, tmp_path):
        np.save(tmp_path / "e.npy", PAIRS)
        np.save(tmp_path / "y.npy", np.array([7, 7, -1, 3], dtype=np.int16))
        assert load_nodes("file", edges=tmp_path / "e.npy", labels=tmp_path / "y.npy").label.tolist() == [1, 1, -1, 0]
        for wrong in (np.zeros(3, int), np.zeros((4, 1), int), np.zeros(4)):
            np.save(tmp_path / "y.npy", wrong)
            with pytest.raises(DataError, match="expected at least 4 labels"):
                load_nodes("file", edges=tmp_path / "e.npy", labels=tmp_path / "y.npy")
        np.save(tmp_path / "e.npy", np.array([[0, 5], [5, 9]]))                 # ids with gaps
        np.save(tmp_path / "y.npy", np.arange(10) % 3)
        assert load_nodes("file", edges=tmp_path / "e.npy", labels=tmp_path / "y.npy").label.tolist() == [0, 1, 0]
        np.save(tmp_path / "y.npy", np.zeros(3, int))
        with pytest.raises(DataError, match="expected at least 10 labels, entry i for node id i"):
            load_nodes("file", edges=tmp_path / "e.npy", labels=tmp_path / "y.npy")
