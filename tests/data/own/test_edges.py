"""Lists of edges: ids, columns, weights; the same in text, arrays, Parquet and DataFrames."""

from pathlib import Path

import networkx
import numpy as np
import pandas as pd
import pytest
from forms import both, edges_of, installed
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jbpool.data import DataError, load_nodes
from jbpool.data.own.edges import places
from jbpool.data.own.one_graph import as_node_data

PAIRS = np.array([[0, 1], [1, 2], [2, 0], [2, 3], [3, 2], [1, 1]])


def read(folder, content, **options):
    (folder / "e.csv").write_bytes(content.encode())
    return load_nodes("file", edges=folder / "e.csv", **options)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("from,to\nzoë,NA\nNA,null\n17,zoë\n", both(("zoë", "NA"), ("NA", "null"), ("17", "zoë"))),
        ("10000000000,-5\n-5,7\n", both((10**10, -5), (-5, 7))),
        ("007,08\n08,7\n", both(("007", "08"), ("08", "7"))),
        ("+7,8\n7,8\n", both(("+7", "8"), ("7", "8"))),
        ("a ,b\na,c\n", both(("a", "b"), ("a", "c"))),
        ('"a,b",c\nc,"d e"\n', both(("a,b", "c"), ("c", "d e"))),
        ("0.5,1\n1,2\n", both(("0.5", "1"), ("1", "2"))),
        ("0,1,+1.5\n1,2,015e-1\n", both((0, 1), (1, 2), weight=1.5)),
        ("0;1;1.5\n1;2;1.5\n", both((0, 1), (1, 2), weight=1.5)),
        ("target,paper\n0,1\n", both((0, 1))),
        ("weight,a,b\n0.5,1,2\n", both((1, 2), weight=0.5)),
        ("source,target,year,weight\na,b,1999,0.5\n", both(("a", "b"), weight=0.5)),
        (",source,target\n3,ann,bob\n7,bob,eve\n", both(("ann", "bob"), ("bob", "eve"))),
        (",paper,cites\n0,ann,bob\n1,bob,eve\n", both(("ann", "bob"), ("bob", "eve"))),
        ("sep=;\r\nfrom;to\r\na;b,c\r\nb,c;a\r\n", both(("a", "b,c"))),
        ("cats,dogs\n#dogs,cats\n#birds,dogs\ncats,mice\n", both(("cats", "dogs"), ("cats", "mice"))),
    ],
)  # fmt: skip
def test_ids_and_columns_of_text(tmp_path, content, expected):
    assert edges_of(read(tmp_path, content)) == expected


def test_text_ids_after_a_thousand_numbers(tmp_path):
    data = read(tmp_path, "\n".join([*(f"{i},{i + 1}" for i in range(1500)), "last,0"]))
    assert ("last", "0") in edges_of(data)
    assert data.graph.num_nodes == 1502


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(*[st.integers(0, 6)] * 2), min_size=1, max_size=12), st.sampled_from([1, 7, 10**12]),
       st.sampled_from(["int32", "int64", ">i8", "uint64"]), st.sampled_from("CF"))  # fmt: skip
def test_numbers_in_arrays_are_those_in_text(tmp_path, pairs, scale, dtype, order):
    pairs = np.array(pairs) * (1 if dtype == "int32" else scale)
    expected = read(tmp_path, "".join(f"{u},{v}\n" for u, v in pairs), header=False)
    np.save(tmp_path / "e.npy", np.asarray(pairs, dtype=dtype, order=order))
    np.savez(tmp_path / "e.npz", source=pairs[:, 0].astype(dtype), target=pairs[:, 1])
    for name in ("e.npy", "e.npz"):
        data = load_nodes("file", edges=tmp_path / name)
        assert edges_of(data) == edges_of(expected)
        assert data.ids.tolist() == expected.ids.tolist() == np.unique(pairs).tolist()


@pytest.mark.parametrize(
    ("edges", "words"),
    [
        ("0\n1\n", "1 columns: expected source, target"),
        ("0,1,2,3\n", "4 columns"),
        ("# c\n\n0,1\n,2\n", "line 4: field 1 is empty"),
        ("0,1,0.5\n1,2,heavy\n", "line 2: 'heavy'"),
        ("0,1,0.5\n1,2,nan\n", "line 2"),
        ("0,1,0.5\n\n1,2,-1\n", "line 3: weight -1 is negative"),
        ("0,1,0.5\n1,2,\n", "line 2: field 3 is empty"),
        (",a,b\n3,ann,bob\n7,bob,eve\n", "name all columns"),
        (",ann,bob,3\nann,0,1,0\nbob,1,0,1\n3,0,1,0\n", "is a matrix: .*melt"),
        ("0,1,3e38\n0,1,3e38\n", "e.csv: .*beyond the range of float32"),
        ("0,1,1e-50\n1,2,1\n", "e.csv: .*below the range of float32"),
        (PAIRS.astype(float), "source holds float64"),
        (PAIRS.astype(str), "whole numbers"),
        (PAIRS > 1, "holds bool"),
        (PAIRS.T, r"shape \(2, 6\)"),
        (PAIRS[:, 0], r"shape \(6,\)"),
        (PAIRS[:0], "no edges"),
        (PAIRS - 1, "row 1: .*negative"),
        (np.array([[0, 1], [1, 2**63]], dtype=np.uint64), "uint64"),
        (np.array([[print, 1]], dtype=object), "objects"),
        ({"source": [0]}, "source and target expected"),
        ({"source": [0, 1], "target": [1]}, r"target has shape \(1,\)"),
        ({"source": [0], "target": [0.5]}, "target holds float64"),
        ({"source": [0, 0], "target": [1, 2], "weight": [1, -2]}, "row 2: weight -2"),
        ({"source": [0], "target": [1], "weight": ["heavy"]}, "row 1: 'heavy'"),
        (pd.DataFrame({"a": ["x"], "b": [None]}), "missing values"),
        (pd.DataFrame({"a": ["x"], "b": ["y"], "w": ["heavy"]}), "'heavy'"),
        (pd.DataFrame({"a": [0.5], "b": [1.0]}), "float64"),
        ([("a", "b"), ("b", "c", 1.0)], r"\[2, 3\] values"),
    ],
)
def test_what_is_no_list_of_edges_is_refused(tmp_path, edges, words):
    path = tmp_path / "e.csv"
    if isinstance(edges, str):
        path.write_text(edges)
    elif isinstance(edges, np.ndarray):
        path = tmp_path / "e.npy"
        np.save(path, edges, allow_pickle=True)
    elif isinstance(edges, dict):
        path = tmp_path / "e.npz"
        np.savez(path, **edges)
    with pytest.raises(DataError, match=words) as error:
        as_node_data(edges if isinstance(edges, (pd.DataFrame, list)) else path)
    assert "\n" not in str(error.value)


def test_separators_and_headers_that_are_given(tmp_path):
    assert edges_of(read(tmp_path, "a b|c\n", separator="|")) == both(("a b", "c"))
    for separator in ("\t", "\\t", "tab"):
        assert edges_of(read(tmp_path, "a b\tc,d\n", separator=separator)) == both(("a b", "c,d"))
    assert edges_of(read(tmp_path, "Von,Nach\nann,bob\n", header=True)) == both(("ann", "bob"))
    for separator in ("::", "\n", '"', "é"):
        with pytest.raises(DataError, match=r"dataset\.separator"):
            read(tmp_path, "0,1\n", separator=separator)


def test_weights_and_what_is_not_used_are_mentioned(tmp_path, caplog):
    for content, weights, ignored in (
        ("source,target,weight,year\n0,1,0.5,1999\n", "weights from 'weight'", "column 'year'"),
        ("# c\n0,1,0.5\n", "weights from column 3", "1 comment line"),
    ):
        summary = read(tmp_path, content).summary
        assert weights in summary
        assert summary.endswith(f"ignored: {ignored} of e.csv")
    assert not caplog.text
    data = read(tmp_path, "source,target,value\n0,1,5\n")
    assert data.edge_weight is None
    assert "columns ['value'] are not used" in caplog.text
    assert "--weight" in caplog.text


@pytest.mark.parametrize(
    ("content", "weight"),
    [
        ("source,target,kind,Count\na,b,x,5\n", "count"),
        ("source,target,kind,Count\na,b,x,5\n", "4"),
        ("a,b,x,5\n", "4"),
        ("a,b,x,5\n", 4),
        ("count,weight,source,target\n5,1,a,b\n", "count"),
    ],
)
def test_the_column_of_the_weights_can_be_named(tmp_path, content, weight):
    assert edges_of(read(tmp_path, content, weight=weight)) == both(("a", "b"), weight=5)
    with pytest.raises(DataError, match=r"no column is called .cost.*: give the name"):
        read(tmp_path, content, weight="cost")


@pytest.mark.parametrize("content", ["1,2,friend\n2,3,4\n", "ann,bob,friend\nbob,eve,2\n", "a,b,x\nb,c,y\n"])
def test_a_third_column_of_words_is_refused_and_no_line_is_lost(tmp_path, content):
    with pytest.raises(DataError, match=r"line 1: '(friend|x)' is not a finite number.*--weight"):
        read(tmp_path, content)


@pytest.mark.parametrize(
    ("content", "header"),
    [
        ("woman,event\nEvelyn,E1\nLaura,E1\nEvelyn,E2\n", "woman,event"),
        ("from_city,to_city\nRome,Pisa\nPisa,Lucca\n", "from_city,to_city"),
        ("paper,cites\n0,1\n1,2\n", "paper,cites"),
        ("woman,event\nMae,E9\n" + "Evelyn,E1\n" * 40, "woman,event"),      # one of many such pairs
        ("user,item,stars\nann,x,5\nbob,x,4\n", "user,item,stars"),
        ("ann,bob\nbob,eve\n", None),
        ("ann,bob\neve,dan\nx,y\ny,z\n", None),                         # two pairs that nobody else knows
        ("ann,bob\n", None),
        ("source,target\nann,bob\n", None),                               # known by name: nothing to say
    ],
)
def test_a_first_line_whose_names_occur_nowhere_else_is_a_header(tmp_path, content, header):
    data = read(tmp_path, content)
    assert data.read.header == header
    assert ("is a header" in data.summary) == (header is not None)
    assert not set(data.ids.tolist()) & set((header or "").split(","))
    if header and "stars" not in header and "0" not in content:
        assert set(header.split(",")) <= set(read(tmp_path, content, header=False).ids.tolist())


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.sampled_from([0, 0.5, 1, 2])), min_size=1))
def test_repeated_lines_add_up(tmp_path, lines):
    """A naive sum over all lines, for both directions unless the list holds them."""
    totals = {}
    for u, v, weight in lines:
        if u != v and weight:
            totals[u, v] = totals.get((u, v), 0) + weight
    holds_both = all(totals.get((v, u)) == weight for (u, v), weight in totals.items())
    expected = totals if holds_both else {
        edge: totals.get(edge, 0) + totals.get(edge[::-1], 0) for u, v in totals for edge in ((u, v), (v, u))
    }
    data = as_node_data(lines)
    assert edges_of(data) == pytest.approx(expected)
    entries = sum(u != v and weight > 0 for u, v, weight in lines)
    assert data.read.edges == len(expected) // 2
    assert data.read.both_directions == (holds_both and bool(totals))
    assert data.read.repeated == ((entries - len(expected)) // 2 if holds_both else entries - len(expected) // 2)
    assert data.read.self_loops == sum(u == v for u, v, _ in lines)


def test_the_line_that_says_what_was_read(tmp_path):
    text = "from,to,count\na,b,1\nb,a,2\na,b,1\nc,c,1\nd,e,1\nd,f,0\n"
    data = read(tmp_path, text, weight="count")
    assert str(data.read) == (
        "e: 6 nodes, 2 edges (2 repeated, added up; 1 self loop left out; 1 of weight 0 left out), weights from "
        "'count'; 2 nodes without edges; 4 components, the largest 2"
    )
    assert str(read(tmp_path, "0,1\n1,2\n").read) == "e: 3 nodes, 2 edges"
    assert str(read(tmp_path, "0,1\n1,0\n").read) == "e: 2 nodes, 1 edges, listed in both directions"


def test_columns_that_share_no_name_are_said_to_be_bipartite(tmp_path):
    data = read(tmp_path, "woman,event\nEvelyn,E1\nLaura,E1\nEvelyn,E2\n")
    assert data.read.bipartite == (2, 2)
    assert "bipartite, 2 and 2 nodes" in data.summary
    assert not read(tmp_path, "ann,bob\nbob,eve\n").read.bipartite
    assert not read(tmp_path, "0,1\n0,2\n").read.bipartite                  # numbers say nothing


LISTS = ["e.csv", "e.tsv", "e.csv.gz", "DataFrame", *(["e.parquet"] if installed("pyarrow") else [])]


def listed(frame, form, folder):
    """A table in a file of this name, or as it is."""
    if form == "DataFrame":
        return frame
    if form == "e.parquet":
        frame.to_parquet(folder / form)
    else:
        frame.to_csv(folder / form, index=False, sep="\t" if form == "e.tsv" else ",")
    return folder / form


@pytest.mark.parametrize("form", LISTS)
def test_columns_that_are_not_named_as_ends_are_said(tmp_path, form):
    for frame, words in (
        (pd.DataFrame({"date": ["d1", "d2"], "user": ["a", "b"], "item": [1, 2]}), "nodes from 'date' and 'user';"),
        (pd.DataFrame({"user": [1, 2], "item": [2, 9], "stars": [1, 2]}), "'user' and 'item', 1 of them in both"),
    ):
        data = as_node_data(listed(frame, form, tmp_path))
        assert words in data.summary
        assert data.read.columns in str(data.read)
    assert as_node_data(listed(pd.DataFrame({"to": ["a"], "from": ["b"]}), form, tmp_path)).read.columns is None


@pytest.mark.parametrize("form", [*LISTS, "networkx", "GML", "tuples"])
def test_odd_names_are_mentioned(tmp_path, form, caplog):
    def read_list(*pairs):
        caplog.clear()
        graph = networkx.Graph(pairs)
        networkx.write_gml(graph, tmp_path / "e.gml")
        others = {"networkx": graph, "GML": tmp_path / "e.gml", "tuples": [*pairs]}
        frame = pd.DataFrame(pairs, columns=["source", "target"])
        as_node_data(others[form] if form in others else listed(frame, form, tmp_path))
        return caplog.text

    names = read_list(("Ann", "x"), ("ann", "y y"), ("y  y", "x"))
    assert "in spaces, case or type only: 'Ann' and 'ann', and 1 more" in names
    assert "unlike most: 'total'" in read_list(("1", "2"), ("2", "3"), ("3", "total"))
    assert "missing: 'NA'" in read_list(("a", "NA"), ("b", "a"))
    assert not read_list(("Ann", "bob"), ("bob", "eve"), ("eve", "7"))


def test_numbers_of_one_column_and_texts_of_the_other_are_one_node(tmp_path):
    frame = pd.DataFrame({"source": [7, 8], "target": ["8", "x"]})
    for form in LISTS:
        assert edges_of(as_node_data(listed(frame, form, tmp_path))) == both(("7", "8"), ("8", "x"))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("e.xlsx", "save the table as CSV"), ("e.json", "to_csv"), ("e.jsonl", "to_csv"), ("e.mat", "loadmat"),
        ("https://a.b/e.csv", "download"), ("", "folder"),
    ],
)
def test_what_is_not_read_says_what_to_do(tmp_path, name, words):
    path = name if "://" in name else tmp_path / name
    if name.startswith("e."):
        path.touch()
    for option in ({"edges": path}, {"edges": tmp_path / "plain.csv", "features": path}):
        (tmp_path / "plain.csv").write_text("0,1\n")
        with pytest.raises(DataError, match=words) as error:
            load_nodes("file", **option)
        assert str(error.value).count(str(Path(path))) == 1
    with pytest.raises(DataError, match=words):
        as_node_data(str(path))


def test_ids_of_lists_in_memory():
    data = as_node_data(pd.DataFrame({"from": ["b", "a"], "year": [1, 2], "to": ["a", "c"]}))
    assert list(data.ids) == ["a", "b", "c"]
    assert edges_of(data) == both(("b", "a"), ("a", "c"))
    assert list(as_node_data(pd.DataFrame({"a": [100, 3_000_000], "b": [3_000_000.0, 7]})).ids) == [7, 100, 3_000_000]
    assert list(as_node_data(pd.DataFrame({"a": [1, "x"], "b": ["x", 2]})).ids) == [1, 2, "x"]
    assert list(as_node_data([("b", ("a", 1)), (("a", 1), "c")]).ids) == [("a", 1), "b", "c"]


def test_places_of_nodes():
    assert places(np.array([3, 7]), np.array(["7", "x", "3"], dtype=object)).tolist() == [1, -1, 0]
    assert places(np.array(["007", "7"], dtype=object), np.array([7, 3])).tolist() == [1, -1]
