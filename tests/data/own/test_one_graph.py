"""The user's own graph: edge lists in all formats, features, labels, DGL files, and errors."""

import gzip
import re
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
import torch

from jbpool.data import DataError, load_graphs, load_nodes

PLAIN = "0,1\n1,2\n2,0\n2,3\n"


def write(path, content):
    content = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def edges_of(data):
    """Undirected edges in the user's ids, with weights."""
    weight = [None] * data.graph.num_edges if data.edge_weight is None else data.edge_weight.tolist()
    ids = range(data.graph.num_nodes) if data.ids is None else data.ids.tolist()
    source, target = (end.tolist() for end in data.graph.edge_index)
    return {(ids[u], ids[v]): w for u, v, w in zip(source, target, weight, strict=True)}


def both(*pairs):
    return {edge for u, v in pairs for edge in ((u, v), (v, u))}


TRIANGLE = both((0, 1), (1, 2), (2, 0), (2, 3))

DRESSES = {
    "commas": ("e.csv", PLAIN),
    "no newline at the end": ("e.csv", PLAIN.rstrip()),
    "tabs": ("e.tsv", PLAIN.replace(",", "\t")),
    "semicolons": ("e.csv", PLAIN.replace(",", ";")),
    "spaces": ("e.txt", PLAIN.replace(",", "  ")),
    "comma and space": ("e.csv", PLAIN.replace(",", ", ")),
    "gzip": ("e.csv.gz", PLAIN),
    "header": ("e.csv", "source,target\n" + PLAIN),
    "header of any words": ("e.csv", "paper,cites\n" + PLAIN),
    "CRLF": ("e.csv", PLAIN.replace("\n", "\r\n")),
    "BOM": ("e.csv", b"\xef\xbb\xbf" + PLAIN.encode()),
    "BOM and header": ("e.csv", b"\xef\xbb\xbfsource,target\r\n" + PLAIN.replace("\n", "\r\n").encode()),
    "comments": ("e.csv", "# nodes: 4\n# edges: 4\n" + PLAIN + "# end\n"),
    "percent comments": ("e.txt", "% a graph\n" + PLAIN.replace(",", " ")),
    "blank lines": ("e.csv", "\n" + PLAIN.replace("\n", "\n\n")),
    "both directions and duplicates": ("e.csv", PLAIN + "1,0\n0,1\n0,1\n3,3\n"),
}


@pytest.mark.parametrize("dress", DRESSES)
def test_edge_lists_of_every_dress(tmp_path, dress):
    name, content = DRESSES[dress]
    data = load_nodes("file", edges=write(tmp_path / name, content))
    assert set(edges_of(data)) == TRIANGLE
    assert data.label is None
    assert data.num_classes is None
    assert data.edge_weight is None
    assert data.name == "e"


def test_weights_whose_sum_is_beyond_float32(tmp_path):
    edges = write(tmp_path / "e.csv", "0,1,3e38\n0,1,3e38\n")
    with pytest.raises(DataError, match=r"e\.csv: an edge weight is beyond the range of float32"):
        load_nodes("file", edges=edges)


def test_ids_can_be_anything_and_map_back(tmp_path):
    data = load_nodes("file", edges=write(tmp_path / "e.csv", "from,to\nzoë,NA\nNA,null\n17,zoë\nx y,17\n"))
    assert set(edges_of(data)) == both(("zoë", "NA"), ("NA", "null"), ("17", "zoë"), ("x y", "17"))
    data = load_nodes("file", edges=write(tmp_path / "e.csv", "10000000000,-5\n-5,7\n"))
    assert set(edges_of(data)) == both((10**10, -5), (-5, 7))
    assert data.graph.num_nodes == 3


def test_text_ids_after_a_thousand_numbers(tmp_path):
    lines = [f"{i},{i + 1}" for i in range(1500)] + ["last,0"]
    data = load_nodes("file", edges=write(tmp_path / "e.csv", "\n".join(lines)))
    assert ("last", "0") in edges_of(data)
    assert data.graph.num_nodes == 1502


def test_weights(tmp_path):
    content = "a,b,1.5\nb,a,2\nb,c,1\nb,c,3\nc,d,0\n"
    data = load_nodes("file", edges=write(tmp_path / "e.csv", content))
    assert edges_of(data) == {("a", "b"): 2, ("b", "a"): 2, ("b", "c"): 4, ("c", "b"): 4}
    assert data.graph.num_nodes == 4                          # d stays, without an edge
    for content in ("source,target,year,weight\na,b,1999,0.5\n", "weight,target,source\n0.5,b,a\n"):
        assert edges_of(load_nodes("file", edges=write(tmp_path / "e.csv", content)))["a", "b"] == 0.5
    data = load_nodes("file", edges=write(tmp_path / "e.csv", "source,target,year\na,b,1999\n"))
    assert data.edge_weight is None                             # a third column counts only if it is called weight


@pytest.mark.parametrize(("weight", "words"), [(1e300, "beyond"), (1e-50, "below")])
def test_weights_out_of_range_name_the_file(tmp_path, weight, words):
    edges = write(tmp_path / "edges.csv", f"source,target,weight\na,b,{weight}\nb,c,1\n")
    np.savez(tmp_path / "edges.npz", source=[0, 1], target=[1, 2], weight=[weight, 1])
    matrix = scipy.sparse.csr_matrix(([weight, 1.0], ([0, 1], [1, 2])), (3, 3))
    parts = {part: getattr(matrix, part) for part in ("data", "indices", "indptr", "shape")}
    np.savez(tmp_path / "layout.npz", **{f"adj_{part}": value for part, value in parts.items()})
    for path, read in (
        (edges, lambda: load_nodes("file", edges=edges)),
        (tmp_path / "edges.npz", lambda: load_nodes("file", edges=tmp_path / "edges.npz")),
        (tmp_path / "layout.npz", lambda: load_nodes("npz", path=tmp_path / "layout.npz")),
    ):
        with pytest.raises(DataError, match=f"^{re.escape(str(path))}.*{words} the range of float32"):
            read()


def test_a_sum_of_weights_out_of_range_names_the_file(tmp_path):
    write(tmp_path / "graphs.csv", "graph,label\ng,0\n")
    write(tmp_path / "nodes.csv", "graph,node,x\ng,a,1\ng,b,1\n")
    write(tmp_path / "edges.csv", "graph,source,target,weight\ng,a,b,3e38\ng,a,b,3e38\n")
    with pytest.raises(DataError, match=f"^{re.escape(str(tmp_path / 'edges.csv'))}: .*beyond the range of float32"):
        load_graphs("file", folder=tmp_path)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("007,08\n08,7\n", both(("007", "08"), ("08", "7"))),
        ("+7,8\n7,8\n", both(("+7", "8"), ("7", "8"))),
        ("a ,b\na,c\n", both(("a", "b"), ("a", "c"))),
        ('"a,b",c\nc,"d e"\n', both(("a,b", "c"), ("c", "d e"))),
        ("# note\na#1,b%2\n", both(("a#1", "b%2"))),
        ("0,1\n1,2\n# in between\n2,3\n", both((0, 1), (1, 2), (2, 3))),
        ("a,b\n1,2\nb,1\n", both(("a", "b"), ("1", "2"), ("b", "1"))),
        ("u,v\nv,w\n", both(("u", "v"), ("v", "w"))),
        ("0.5,1\n1,2\n", both(("0.5", "1"), ("1", "2"))),
        ("from_id,to_id\nann,bob\n", both(("ann", "bob"))),
        ("0;1;1.5\n1;2;1.5\n", both((0, 1), (1, 2))),
        ("first,name\nname,last\nlast,first\n", both(("first", "name"), ("name", "last"), ("last", "first"))),
        ("0,1,+1.5\n1,2,01\n", both((0, 1), (1, 2))),              # a sign or a zero in front of a weight
        ("0,1,+1.5\n1,02,1\n", both(("0", "1"), ("1", "02"))),
    ],
)
def test_ids_are_kept_as_they_are_written(tmp_path, content, expected):
    assert set(edges_of(load_nodes("file", edges=write(tmp_path / "e.csv", content)))) == expected


def test_what_cannot_be_guessed_can_be_said(tmp_path):
    edges = write(tmp_path / "e.csv", "Von,Nach\nann,bob\n")
    assert set(edges_of(load_nodes("file", edges=edges))) == both(("Von", "Nach"), ("ann", "bob"))
    assert set(edges_of(load_nodes("file", edges=edges, header=True))) == both(("ann", "bob"))
    for text, expected in (("a b|c\n", both(("a b", "c"))), ("1|007\n7|2\n", both(("1", "007"), ("7", "2")))):
        edges = write(tmp_path / "e.csv", text)
        assert set(edges_of(load_nodes("file", edges=edges, separator="|"))) == expected


def test_a_first_line_that_may_be_a_header_is_mentioned(tmp_path, caplog):
    edges = write(tmp_path / "e.csv", "Von,Nach\nann,bob\nbob,eve\n")
    assert load_nodes("file", edges=edges).graph.num_nodes == 5
    assert "read as an edge, Von to Nach; if it is a header, --set dataset.header=true" in caplog.text
    caplog.clear()
    load_nodes("file", edges=write(tmp_path / "f.csv", "ann,bob\nbob,eve\n"))
    load_nodes("file", edges=edges, header=False)
    assert not caplog.text


def test_a_header_of_any_words_over_text_ids_and_numbers(tmp_path):
    edges = write(tmp_path / "e.csv", "ann,bob\nbob,eve\n")
    features = write(tmp_path / "f.csv", "person,a,b\nann,1,2\nbob,3,4\neve,5,6\n")
    assert load_nodes("file", edges=edges, features=features).feat.tolist() == [[1, 2], [3, 4], [5, 6]]
    with pytest.raises(DataError, match="'NA' is not a finite number"):         # a node without numbers, not a header
        load_nodes("file", edges=edges, features=write(tmp_path / "f.csv", "ann,NA,NA\nbob,3,4\neve,5,6\n"))


def test_a_header_of_numbers_over_features(tmp_path):
    """Output of ``DataFrame.to_csv``: numbered columns, and an index with or without a name."""
    edges = write(tmp_path / "e.csv", "a,b\nb,c\n")
    for corner in ("id", ""):
        features = write(tmp_path / "x.csv", f"{corner},0,1\na,5,6\nb,7,8\nc,9,10\n")
        assert load_nodes("file", edges=edges, features=features).ids.tolist() == ["a", "b", "c"]


def test_labels_keep_their_signs_and_order(tmp_path):
    edges = write(tmp_path / "e.csv", PLAIN)
    data = load_nodes("file", edges=edges, labels=write(tmp_path / "y.csv", "# c\n0,C#\n1,C\n2,C#\n3,F#\n"))
    assert data.class_names == ["C", "C#", "F#"]
    data = load_nodes("file", edges=edges, labels=write(tmp_path / "y.csv", "0,2\n1,10\n2,2\n3,1\n"))
    assert data.class_names == ["1", "2", "10"]


def test_sparse_features_with_repeated_entries(tmp_path):
    matrix = scipy.sparse.csr_matrix((np.ones(5), np.array([1, 0, 0, 1, 1]), np.array([0, 2, 3, 4, 5])), shape=(4, 2))
    matrix.indices[:2] = 1                                      # twice the same place
    scipy.sparse.save_npz(tmp_path / "x.npz", matrix)
    data = load_nodes("file", edges=write(tmp_path / "e.csv", PLAIN), features=tmp_path / "x.npz")
    assert data.feat.to_dense()[0].tolist() == [0, 2]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "the file is empty"),
        ("# only a comment\n", "has only comments, lines that begin with # or %"),
        ("source,target\n", "no rows below the header"),
        ("0\n1\n", "1 columns: expected source, target"),
        ("0,1,2,3\n", "4 columns"),
        ("0,1\n1,2\n2\n", r"e\.csv, line 3: 1 fields instead of 2"),
        ("0,1\n1,2,3\n", "line 2: 3 fields instead of 2"),
        ("# c\n\n0,1\n,2\n", "line 4: field 1 is empty"),
        ("a,b\nb,\n", "line 2: field 2 is empty"),
        ("0,1,0.5\n1,2,heavy\n", "line 2: 'heavy' is not a finite number"),
        ("0,1,0.5\n1,2,nan\n", "line 2"),
        ("0,1,0.5\n\n1,2,-1\n", "line 3: weight -1 is negative"),
        ("0,1,0.5\n1,2,inf\n", "line 2"),
        ("0,1,0.5\n1,2,\n", "line 2: field 3 is empty"),
    ],
)
def test_malformed_edge_lists_are_refused_with_the_line(tmp_path, content, words):
    with pytest.raises(DataError, match=words):
        load_nodes("file", edges=write(tmp_path / "e.csv", content))


def test_features_by_row(tmp_path):
    edges = write(tmp_path / "e.csv", PLAIN)
    values = np.arange(10.0).reshape(5, 2)                      # a fifth node without edges
    np.save(tmp_path / "x.npy", values)
    np.savez(tmp_path / "x.npz", feat=values, other=values[:1])
    scipy.sparse.save_npz(tmp_path / "s.npz", scipy.sparse.csr_matrix(values))
    for name in ("x.npy", "x.npz", "s.npz"):
        data = load_nodes("file", edges=edges, features=tmp_path / name)
        feat = data.feat.to_dense() if name == "s.npz" else data.feat
        assert feat.tolist() == values.tolist()
        assert data.graph.num_nodes == 5
        assert set(edges_of(data)) == TRIANGLE


def test_features_and_labels_by_id(tmp_path):
    edges = write(tmp_path / "e.csv", "b,c\nc,a\n")
    features = write(tmp_path / "x.csv", "node,f1,f2\nc,3,30\na,1,10\nb,2,20\nlonely,4,40\n")
    labels = write(tmp_path / "y.csv", "node,label\nlonely,red\na,blue\nb,blue\nc,red\n")
    data = load_nodes("file", edges=edges, features=features, labels=labels)
    assert data.ids.tolist() == ["a", "b", "c", "lonely"]
    assert data.feat.tolist() == [[1, 10], [2, 20], [3, 30], [4, 40]]
    assert data.label.tolist() == [0, 0, 1, 1]
    assert data.class_names == ["blue", "red"]
    assert data.num_classes == 2
    assert set(edges_of(data)) == both(("b", "c"), ("c", "a"))


def test_labels_by_row(tmp_path):
    np.save(tmp_path / "y.npy", np.array([5, 5, 2, 9]))
    data = load_nodes("file", edges=write(tmp_path / "e.csv", PLAIN), labels=tmp_path / "y.npy")
    assert data.label.tolist() == [1, 1, 0, 2]


def test_a_fingerprint_tells_whether_the_data_have_changed(tmp_path):
    own = load_nodes("file", edges=write(tmp_path / "e.csv", "0,1\n1,2\n"), features=saved(tmp_path, np.eye(3)))
    bare = load_nodes("file", edges=tmp_path / "e.csv")
    assert bare.feat is None
    assert replace(own, feat=own.feat + 1e-6).fingerprint != own.fingerprint != bare.fingerprint
    other = load_nodes("file", edges=write(tmp_path / "f.csv", "0,1\n0,2\n"))
    assert other.fingerprint != bare.fingerprint
    assert replace(own, edge_weight=torch.ones(4)).fingerprint != own.fingerprint


def saved(folder, array):
    np.save(folder / "x.npy", array)
    return folder / "x.npy"


@pytest.mark.parametrize(
    ("features", "words"),
    [
        (np.ones((3, 2)), "node 3"),
        (np.ones(4), "expected a table of numbers"),
        (np.ones((4, 0)), "expected a table of numbers"),
        (np.full((4, 1), np.nan), "NaN, infinity"),
        (np.full((4, 1), 1e300), "beyond float32"),
        (np.array([["a"]] * 4), "expected a table of numbers"),
        (np.array([[print]] * 4, dtype=object), "objects"),
    ],
)
def test_bad_feature_arrays(tmp_path, features, words):
    np.save(tmp_path / "x.npy", features, allow_pickle=True)
    with pytest.raises(DataError, match=words):
        load_nodes("file", edges=write(tmp_path / "e.csv", PLAIN), features=tmp_path / "x.npy")


@pytest.mark.parametrize(
    ("features", "words"),
    [
        ("0,1.5\n1,2\n2,3\n", "has no row for node 3"),
        ("0,1\n1,2\n2,x\n3,4\n", r"x\.csv, line 3: 'x' is not a finite number"),
        ("0,1\n1,2\n2,nan\n3,4\n", "NaN|line 3"),
        ("0,1\n1,2\n2,3,4\n3,4\n", "line 3: 3 fields"),
        ("0,1\n0,2\n1,3\n2,3\n3,4\n", "node 0 has more than one row"),
        ("0\n1\n", "one column"),
        ("a,1\nb,2\n", "node ids are"),
        ("", "empty"),
    ],
)
def test_bad_feature_tables(tmp_path, features, words):
    with pytest.raises(DataError, match=words):
        load_nodes("file", edges=write(tmp_path / "e.csv", PLAIN), features=write(tmp_path / "x.csv", features))


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ("0,a\n1,b\n1,c\n", "node 1 has more than one row"),
        ("0,a\n,b\n", "field 1 is empty"),
        ("0,a,b\n", "3 columns"),
    ],
)
def test_bad_labels(tmp_path, labels, words):
    with pytest.raises(DataError, match=words):
        load_nodes("file", edges=write(tmp_path / "e.csv", PLAIN), labels=write(tmp_path / "y.csv", labels))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "give either edges"),
        ({"edges": "a", "graph": "b"}, "give either edges"),
        ({"edges": "nowhere.csv"}, r"nowhere\.csv: no such file"),
        ({"graph": "nowhere.bin"}, r"nowhere\.bin: no such file"),
        ({"graph": "g.bin", "labels": "y"}, "features and labels are in the DGL .bin file"),
        ({"edge": "a"}, "Did you mean 'edges'"),
    ],
)
def test_wrong_options(options, words):
    with pytest.raises(ValueError, match=words):
        load_nodes("file", **options)
