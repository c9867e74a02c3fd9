"""Classes from texts and numbers, for all or some of the nodes."""

import importlib.util

import numpy as np
import pandas as pd
import pytest

from jbpool.data import DataError, load_nodes
from jbpool.data.own.labels import class_codes

PLAIN = "0,1\n1,2\n2,0\n2,3\n"


def load(folder, labels):
    (folder / "e.csv").write_text(PLAIN)
    if isinstance(labels, str):
        (folder / "y.csv").write_text(labels)
        return load_nodes("file", edges=folder / "e.csv", labels=folder / "y.csv")
    np.save(folder / "y.npy", labels)
    return load_nodes("file", edges=folder / "e.csv", labels=folder / "y.npy")


@pytest.mark.parametrize(
    ("given", "codes", "names"),
    [
        (["1", "-1", "", "1"], [1, 0, -1, 1], ["-1", "1"]),             # two classes, and one row without
        (["1", "", "", ""], [0, -1, -1, -1], ["1"]),
        (["0", "-1", "1", ""], [0, -1, 1, -1], ["0", "1"]),             # -1: unlabelled
        (["-1", "-1", ""], [-1, -1, -1], []),
        (["", ""], [-1, -1], []),
        (["2.0", "10", "", "2"], [0, 1, -1, 0], ["2", "10"]),           # numbers in their own order
        (["0.5", "1.0", "", "-1"], [1, 2, -1, 0], ["-1", "0.5", "1.0"]),        # not all whole: text
        (["b", "a", ""], [1, 0, -1], ["a", "b"]),
        ([3, -1, 5], [0, -1, 1], ["3", "5"]),
        ([1, -1, 1], [1, 0, 1], ["-1", "1"]),
        ([-1, -1], [-1, -1], []),
    ],
)
def test_codes_and_names(given, codes, names):
    values = np.array(given, dtype=object if isinstance(given[0], str) else np.int64)
    found = class_codes(values)
    assert found[0].tolist() == codes
    assert found[1] == names


@pytest.mark.parametrize(
    ("content", "label", "names"),
    [
        ("0,b\n2,a\n", [1, -1, 0, -1], ["a", "b"]),
        ("0,b\n1,\n2,a\n3,NA\n", [1, -1, 0, -1], ["a", "b"]),
        ("0,b\n2,a\nother,c\n", [1, -1, 0, -1], ["a", "b"]),
        ("# c\n0,C#\n1,C\n2,C#\n3,F#\n", [1, 0, 1, 2], ["C", "C#", "F#"]),
        ("0,2\n1,10\n2,2\n3,1\n", [1, 2, 1, 0], ["1", "2", "10"]),
        ("label,id\n0,3\n1,2\n2,0\n2,1\n", [2, 2, 1, 0], ["0", "1", "2"]),
        (",id,label\n0,3,x\n1,1,y\n2,2,y\n3,0,x\n", [0, 1, 1, 0], ["x", "y"]),
        (",label\n0,x\n1,y\n2,y\n3,x\n", [0, 1, 1, 0], ["x", "y"]),
        (np.array([7, 7, -1, 3], dtype=np.int16), [1, 1, -1, 0], ["3", "7"]),
        (np.array([5, 5, 2, 9, 4]), [1, 1, 0, 2], ["2", "5", "9"]),
    ],
)
def test_labels_of_nodes(tmp_path, content, label, names):
    data = load(tmp_path, content)
    assert data.label.tolist() == label
    assert list(data.class_names) == names
    assert data.num_classes == len(names)
    if -1 in label:
        assert f"({4 - label.count(-1)} of 4 nodes labelled)" in data.summary
    assert ("1 rows of y.csv for ids that are not in the graph" in data.summary) == ("other" in str(content))


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ("0,a\n1,b\n1,c\n", "line 3: node 1 has more than one row"),
        ("0,a\n,b\n", "line 2: field 1 is empty"),
        ("0,a,b\n", "3 columns"),
        (",id,label\n4,3,x\n9,1,y\n", "no name"),
        ("x,a\ny,b\n", "no label for any node"),
        ("0,\n1,\n", "no label for any node"),
        ("7,a\n", "no label for any node"),
        (np.zeros(3, int), "at least 4 labels"),
        (np.zeros((4, 1), int), "at least 4 labels"),
        (np.zeros(4), "at least 4 labels"),
    ],
)
def test_what_are_no_labels_is_refused(tmp_path, labels, words):
    with pytest.raises(DataError, match=words):
        load(tmp_path, labels)


@pytest.mark.skipif(importlib.util.find_spec("pyarrow") is None, reason="pyarrow is not installed")
def test_parquet(tmp_path):
    frame = pd.DataFrame({"id": [2, 0, 1], "class": pd.array([3, None, 5], dtype="Int64")})
    (tmp_path / "e.csv").write_text(PLAIN)
    frame.to_parquet(tmp_path / "y.parquet")
    data = load_nodes("file", edges=tmp_path / "e.csv", labels=tmp_path / "y.parquet")
    assert data.label.tolist() == [-1, 1, 0, -1]
