"""Features: numbers, words and gaps; the same in text, Parquet and DataFrames."""

import warnings

import networkx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from forms import installed

from jbpool.data import DataError, load_nodes
from jbpool.data.own.features import read_features, words_as_trained
from jbpool.data.own.one_graph import as_node_data
from jbpool.nn.heads import unit_rows

KINDS = [kind for kind in ("csv", "parquet", "frame") if kind != "parquet" or installed("pyarrow")]
IMPUTER = r"sklearn\.impute\.SimpleImputer, or .*missing="
SQUARE = networkx.to_numpy_array(networkx.path_graph(5))


def load(folder, kind, table, missing=None):
    """The path a - b - c - d with features whose first column, or index, has the ids."""
    (folder / "e.csv").write_text("a,b\nb,c\nc,d\n")
    if kind == "frame":
        return as_node_data(pd.read_csv(folder / "e.csv", header=None), table.set_index("id"), missing)
    path = folder / f"x.{kind}"
    if kind == "csv":
        table.to_csv(path, index=False)
    else:
        table.to_parquet(path)
    return load_nodes("file", edges=folder / "e.csv", features=path, missing=missing)


@pytest.mark.parametrize("kind", KINDS)
def test_words_become_columns_of_zeros_and_ones(tmp_path, kind, caplog):
    table = pd.DataFrame({"id": list("abcd"), "age": [1, 2, 3, 4], "colour": ["red", "blue", "red", "green"]})
    data = load(tmp_path, kind, table)
    assert data.feat_names == ["age", "colour=blue", "colour=green", "colour=red"]
    assert data.feat.tolist() == [[1, 0, 0, 1], [2, 1, 0, 0], [3, 0, 0, 1], [4, 0, 1, 0]]
    assert "column 'colour' is text: it becomes a column of zeros and ones for each of its 3 words" in caplog.text


@pytest.mark.parametrize("kind", KINDS)
def test_gaps(tmp_path, kind):
    table = pd.DataFrame({"id": list("abcd"), "x": [1, None, 3, 5], "kind": ["red", "blue", None, "red"]})
    for column, row in ("x", 1), ("kind", 2):
        place = f"line {row + 2}" if kind == "csv" else f"row {row + 1}"
        with pytest.raises(DataError, match=f"{place}: .*{IMPUTER}"):
            load(tmp_path, kind, table[["id", column]])
    data = load(tmp_path, kind, table, missing="mean")
    assert data.feat_names == ["x", "kind=blue", "kind=red"]
    np.testing.assert_allclose(data.feat, [[1, 0, 1], [3, 1, 0], [3, 1 / 3, 2 / 3], [5, 0, 1]], rtol=1e-6)


@pytest.mark.parametrize("gap", ["", "NA", "nan", "?", "null"])
def test_gaps_in_text(tmp_path, gap):
    (tmp_path / "x.csv").write_text(f"id,x\na,1\nb,{gap}\nc,5\n")
    assert read_features(tmp_path / "x.csv", "mean").values.tolist() == [[1], [3], [5]]


@pytest.mark.parametrize("kind", KINDS)
def test_nodes_without_a_row(tmp_path, kind):
    table = pd.DataFrame({"id": ["a", "c", "new"], "x": [1, 3, 8]})
    with pytest.raises(DataError, match=r"no row for node 'b' and 1 others .*missing="):
        load(tmp_path, kind, table)
    data = load(tmp_path, kind, table, missing="mean")
    assert dict(zip(data.ids, data.feat[:, 0].tolist(), strict=True)) == {"a": 1, "b": 4, "c": 3, "d": 4, "new": 8}


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("person;age\na;1,5\nb;2\n", "line 2: '1,5' .* write decimals"),
        ("id;x\na;1,5\nb;2,5\n", "line 2: '1,5' .* write decimals"),
        ("a;1,5;2,5\nb;2,5;1,0\n", "line 1: '1,5' .* write decimals"),
        ("id,x\na,1\nb,inf\n", "line 3: infinity"),
        ("id,x\na,1\nb,x\n", "line 3: 'x' is not a finite number"),
        ("id,x\na,1\na,2\n", "line 3: node 'a' has more than one row"),
        ("id,x,x\na,1,2\n", "two columns are called 'x'"),
        ("a\nb\n", "one column"),
        (pd.DataFrame({"x": pd.to_datetime(["2020"] * 3)}), "column 'x' holds datetime"),
        (pd.DataFrame({"x": [1.0, np.inf, 3]}), "row 2: infinity"),
        (pd.DataFrame(index=[1, 2]), "give a row of numbers"),
        (np.ones(3), "give a row of numbers"),
        (np.ones((4, 0)), "give a row of numbers"),
        (np.array([["a"]]), "give a row of numbers"),
        ([[1, 2], [3]], "different lengths"),
        (np.full((3, 2), np.nan), f"NaN or infinity: .*{IMPUTER}"),
        (scipy.sparse.csr_matrix([[np.inf]]), "NaN or infinity: leave"),
        (scipy.sparse.csr_matrix([[np.nan]]), "NaN or infinity: leave"),
    ],
)
def test_what_are_no_features_is_refused(tmp_path, table, words):
    if isinstance(table, str):
        (tmp_path / "x.csv").write_text(table)
        table = tmp_path / "x.csv"
    with pytest.raises(DataError, match=words) as error:
        read_features(table)
    assert "\n" not in str(error.value)


def test_columns_that_hold_nothing_or_too_much(tmp_path, monkeypatch):
    with pytest.raises(DataError, match="'x' is empty: leave it out"):
        read_features(pd.DataFrame({"x": [None, None]}), "mean")
    monkeypatch.setattr("jbpool.data.own.features.CATEGORIES", 3)
    with pytest.raises(DataError, match="'title' has 4 different words: leave it out"):
        read_features(pd.DataFrame({"title": list("wxyz")}))
    with pytest.raises(DataError, match="only choice is mean"):
        as_node_data(SQUARE, missing="median")
    (tmp_path / "g.gml").touch()
    with pytest.raises(DataError, match="a table is expected"):
        read_features(tmp_path / "g.gml")


def test_the_index_of_a_saved_table(tmp_path, caplog):
    """The unnamed first column has the ids; row numbers beside a column ``id`` are skipped."""
    frame = pd.DataFrame({"f": [1, 2, 3]}, index=["a", "b", "c"])
    frame.to_csv(tmp_path / "x.csv")
    assert read_features(tmp_path / "x.csv").ids.tolist() == ["a", "b", "c"]
    assert not caplog.text
    frame.reset_index(names="id").to_csv(tmp_path / "x.csv")
    assert read_features(tmp_path / "x.csv").ids.tolist() == ["a", "b", "c"]
    assert "is skipped" in caplog.text
    pd.DataFrame(np.eye(4)).to_csv(tmp_path / "x.csv")
    assert read_features(tmp_path / "x.csv").ids.tolist() == [0, 1, 2, 3]
    assert "it is read as the node id" in caplog.text
    (tmp_path / "x.csv").write_text("age,node,height\n10,3,7\n11,2,7\n")
    features = read_features(tmp_path / "x.csv")
    assert (features.ids.tolist(), features.names) == ([3, 2], ["age", "height"])


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["float64", "float16", "int8", "bool", ">f4", "float32"])
def test_arrays_of_any_type(tmp_path, dtype, order):
    values = np.asarray(np.arange(12).reshape(4, 3) % 5, dtype=dtype, order=order)
    np.save(tmp_path / "x.npy", values)
    np.savez(tmp_path / "x.npz", feat=values, other=values[:1])
    for given in (values, tmp_path / "x.npy", tmp_path / "x.npz"):
        feat = read_features(given).values
        assert feat.dtype == np.float32
        assert feat.flags.c_contiguous
        assert feat.tolist() == values.astype(np.float32).tolist()


def test_gaps_of_arrays():
    values = np.array([[1.0, np.nan], [3.0, 5.0]])
    assert read_features(values, "mean").values.tolist() == [[1, 5], [3, 5]]
    for wrong, missing in ((values, None), (np.array([[np.nan], [np.nan]]), "mean")):
        with pytest.raises(DataError, match="NaN"):
            read_features(wrong, missing)


def test_a_memory_map_is_not_copied(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(12, dtype=np.float32).reshape(4, 3))
    before = (tmp_path / "x.npy").read_bytes()
    features = read_features(tmp_path / "x.npy")
    assert isinstance(features.values, np.memmap)
    features.rows_of(None)[:] += 1                                      # in place, and the file keeps its values
    assert (tmp_path / "x.npy").read_bytes() == before


def test_sparse_and_tensors(tmp_path):
    matrix = scipy.sparse.csr_matrix((np.ones(5), np.array([1, 1, 0, 1, 1]), np.array([0, 2, 3, 4, 5])), shape=(4, 2))
    scipy.sparse.save_npz(tmp_path / "x.npz", matrix)                   # twice the same place
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")                                 # torch's note that CSC tensors are in beta
        tensor = torch.from_numpy(matrix.toarray()).to_sparse_csc()
    for given in (matrix, tmp_path / "x.npz", matrix.tocoo(), tensor):
        assert read_features(given).rows_of(None).to_dense()[0].tolist() == [0, 2]
    assert torch.equal(as_node_data(SQUARE, torch.eye(5, dtype=torch.bfloat16)).feat, torch.eye(5))


@pytest.mark.parametrize("scale", [1e300, 1e-30, 1e-310])
def test_any_scale_fits_into_float32(scale):
    for form in np.asarray, scipy.sparse.csr_matrix:
        feat = as_node_data(SQUARE, form(scale * np.eye(5))).feat
        assert torch.allclose(unit_rows(feat.to_dense()), torch.eye(5))


def test_standardised_columns(tmp_path):
    (tmp_path / "e.csv").write_text("0,1\n1,2\n")
    np.save(tmp_path / "x.npy", np.array([[1, 5000, 7], [2, 6000, 7], [3, 7000, 7]]))
    data = load_nodes("file", edges=tmp_path / "e.csv", features=tmp_path / "x.npy", scale="standard")
    np.testing.assert_allclose(data.feat, np.array([[-1, -1, 0], [0, 0, 0], [1, 1, 0]]) * 1.5**0.5, atol=1e-6)
    for options, words in (
        ({"scale": "robust", "features": tmp_path / "x.npy"}, "standard or none"), ({"scale": "robust"}, "standard or"),
        ({"scale": "standard"}, "no features"), ({"missing": "mean"}, "no features"),
    ):  # fmt: skip
        with pytest.raises(DataError, match=words):
            load_nodes("file", edges=tmp_path / "e.csv", **options)


def test_words_of_training():
    table = pd.DataFrame({"x": [1, 2, 3], "kind": ["a", "b", "c"]})
    names, trained = ["x", "kind=a", "kind=b", "kind=c"], ["x", "kind=b", "kind=d"]
    feat = torch.from_numpy(read_features(table).values)
    assert words_as_trained(feat, names, trained).tolist() == [[1, 0, 0], [2, 1, 0], [3, 0, 0]]
    assert words_as_trained(feat, names, ["y", "kind=b"]) is None
    assert words_as_trained(feat, names, ["kind=b", "x"]) is None
