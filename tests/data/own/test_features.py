"""Features in tables: gaps, words, decimal commas; and the same in Parquet."""

import importlib.util

import numpy as np
import pandas as pd
import pytest

from jbpool.data import DataError, load_nodes

needs_pyarrow = pytest.mark.skipif(importlib.util.find_spec("pyarrow") is None, reason="pyarrow is not installed")
EDGES = "a,b\nb,c\nc,d\n"
IMPUTER = r"sklearn\.impute\.SimpleImputer, or --set dataset\.missing=mean"


def load(folder, features, **options):
    (folder / "e.csv").write_text(EDGES)
    if isinstance(features, str):
        (folder / "x.csv").write_text(features)
        features = folder / "x.csv"
    return load_nodes("file", edges=folder / "e.csv", features=features, **options)


def test_words_become_columns_of_zeros_and_ones(tmp_path, caplog):
    data = load(tmp_path, "person,age,colour\na,1,red\nb,2,blue\nc,3,red\nd,4,green\n")
    assert data.feat_names == ["age", "colour=blue", "colour=green", "colour=red"]
    assert data.feat.tolist() == [[1, 0, 0, 1], [2, 1, 0, 0], [3, 0, 0, 1], [4, 0, 1, 0]]
    assert "column 'colour' is text: it becomes a column of zeros and ones for each of its 3 words" in caplog.text


def test_a_column_with_a_word_per_node_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("jbpool.data.own.one_graph.CATEGORIES", 3)
    with pytest.raises(DataError, match=r"x\.csv: column 'title' has 4 different words: leave it out"):
        load(tmp_path, "id,title\na,one\nb,two\nc,three\nd,four\n")


@pytest.mark.parametrize("gap", ["", "NA", "nan", "?", "null"])
def test_gaps(tmp_path, gap):
    table = f"id,x,y\na,1,5\nb,{gap},5\nc,3,5\nd,5,5\n"
    with pytest.raises(DataError, match=rf"x\.csv, line 3: .*{IMPUTER}"):
        load(tmp_path, table)
    assert load(tmp_path, table, missing="mean").feat.tolist() == [[1, 5], [3, 5], [3, 5], [5, 5]]
    words = f"id,x\na,red\nb,{gap}\nc,blue\nd,red\n"
    with pytest.raises(DataError, match=rf"x\.csv, line 3: .*{IMPUTER}"):
        load(tmp_path, words)
    np.testing.assert_allclose(load(tmp_path, words, missing="mean").feat[1], [1 / 3, 2 / 3])


def test_nodes_without_a_row(tmp_path):
    table = "id,x\na,1\nc,3\n"
    with pytest.raises(DataError, match=r"has no row for node 'b' and 1 others .*--set dataset\.missing=mean"):
        load(tmp_path, table)
    assert load(tmp_path, table, missing="mean").feat.tolist() == [[1], [2], [3], [2]]


def test_gaps_in_arrays(tmp_path, monkeypatch):
    monkeypatch.setattr("jbpool.data.own.one_graph.BLOCK", 4)
    (tmp_path / "n.csv").write_text("0,1\n1,2\n")
    for dtype in ("float32", "float64"):
        np.save(tmp_path / "x.npy", np.array([[1, 2], [np.nan, 4], [5, np.nan]], dtype=dtype))
        with pytest.raises(DataError, match=rf"x\.npy: features hold NaN.*{IMPUTER}"):
            load_nodes("file", edges=tmp_path / "n.csv", features=tmp_path / "x.npy")
        data = load_nodes("file", edges=tmp_path / "n.csv", features=tmp_path / "x.npy", missing="mean")
        assert data.feat.tolist() == [[1, 2], [3, 4], [5, 3]]


@pytest.mark.parametrize(
    ("features", "options", "words"),
    [
        ("person;age\na;1,5\nb;2\nc;3\nd;4\n", {}, "line 2: '1,5' is not a finite number: write decimals"),
        ("person,age,town\na,,A\nb,2,B\nc,3,A\nd,4,A\n", {}, "line 2: field 2 is empty: fill the gaps"),
        ("id;x\na;1,5\nb;2,5\nc;1,5\nd;3,0\n", {}, "line 2: '1,5' is not a finite number: write decimals with a point"),
        ("a;1,5;2,5\nb;2,5;1,0\nc;1,5;1,5\nd;3,0;1,5\n", {}, "line 1: '1,5' is .* write decimals with a point"),
        ("id,x\na,1\nb,\nc,inf\nd,3\n", {"missing": "mean"}, "line 4: 'inf' is not a finite number"),
        ("id,x\na,\nb,\nc,\nd,\n", {"missing": "mean"}, "column 'x' is empty: leave it out"),
        ("id,x\na,1\n", {"missing": "median"}, r"dataset\.missing='median': the only choice is mean"),
    ],
)
def test_bad_tables(tmp_path, features, options, words):
    with pytest.raises(DataError, match=words):
        load(tmp_path, features, **options)


@needs_pyarrow
def test_parquet(tmp_path):
    frame = pd.DataFrame({"kind": ["x", "y", None, "x"], "id": list("dcba"), "age": [4.0, None, 2.0, 1.0]})
    frame.to_parquet(tmp_path / "x.parquet")
    with pytest.raises(DataError, match=rf"x\.parquet: row 3: field 1 is empty: .*{IMPUTER}"):
        load(tmp_path, tmp_path / "x.parquet")
    data = load(tmp_path, tmp_path / "x.parquet", missing="mean")
    assert data.feat_names == ["kind=x", "kind=y", "age"]
    np.testing.assert_allclose(data.feat, [[1, 0, 1], [2 / 3, 1 / 3, 2], [0, 1, 7 / 3], [1, 0, 4]], rtol=1e-6)
    labels = pd.DataFrame({"id": list("cabd"), "class": pd.array([3, None, 5, 3], dtype="Int64")})
    labels.to_parquet(tmp_path / "y.parquet")
    data = load_nodes("file", edges=tmp_path / "e.csv", labels=tmp_path / "y.parquet")
    assert data.label.tolist() == [-1, 1, 0, 0]
    assert data.class_names == ["3", "5"]
    labels.set_index("id").to_parquet(tmp_path / "y.parquet")                   # an index with a name is a column
    assert load_nodes("file", edges=tmp_path / "e.csv", labels=tmp_path / "y.parquet").label.tolist() == [-1, 1, 0, 0]


@pytest.mark.parametrize("option", ["features", "labels"])
def test_a_graph_is_no_table(tmp_path, option):
    (tmp_path / "e.csv").write_text(EDGES)
    with pytest.raises(DataError, match=r"g\.gml: a table is expected"):
        load_nodes("file", edges=tmp_path / "e.csv", **{option: tmp_path / "g.gml"})
