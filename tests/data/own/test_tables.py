"""How tables are read: unnamed indices, other columns, separators, line ends, labels for some nodes, networkx files."""

import gzip
import logging
import zipfile

import networkx
import numpy as np
import pandas as pd
import pytest
import torch

from jbpool.data import DataError, load_nodes
from jbpool.data.own import tables
from jbpool.data.own.tables import PAIRS

PLAIN = "0,1\n1,2\n2,0\n2,3\n"


def write(path, content):
    path.write_bytes(content.encode())
    return path


def edges_of(data):
    """Edges in the user's ids, each direction."""
    source, target = (data.ids[end.numpy()].tolist() for end in data.graph.edge_index)
    return set(zip(source, target, strict=True))


def both(*pairs):
    return {edge for u, v in pairs for edge in ((u, v), (v, u))}


class TestUnnamedFirstColumn:
    frame = pd.DataFrame({"Von": ["ann", "bob"], "Nach": ["bob", "eve"]})

    @pytest.mark.parametrize("corner", ["", "Unnamed: 0"])
    def test_row_numbers_of_an_edge_list_are_skipped(self, tmp_path, corner, caplog):
        self.frame.to_csv(tmp_path / "e.csv", index_label=corner)
        data = load_nodes("file", edges=tmp_path / "e.csv")
        assert edges_of(data) == both(("ann", "bob"), ("bob", "eve"))
        assert "the unnamed first column counts the rows and is skipped" in caplog.text

    def test_anything_else_over_an_edge_list_is_refused(self, tmp_path):
        self.frame.set_index(pd.Index([3, 7])).to_csv(tmp_path / "e.csv")
        with pytest.raises(DataError, match=r"no name and is not a row number .* call the columns source and target"):
            load_nodes("file", edges=tmp_path / "e.csv")

    def test_named_ends_need_no_guess(self, tmp_path):
        edges = write(tmp_path / "e.csv", ",source,target\n3,ann,bob\n7,bob,eve\n")
        assert edges_of(load_nodes("file", edges=edges)) == both(("ann", "bob"), ("bob", "eve"))

    def test_features(self, tmp_path, caplog):
        edges = write(tmp_path / "e.csv", "a,b\nb,c\n")
        indexed = pd.DataFrame({"f": [1, 2, 3]}, index=["a", "b", "c"])
        indexed.to_csv(tmp_path / "x.csv")                                  # the index is the node id
        assert load_nodes("file", edges=edges, features=tmp_path / "x.csv").feat.tolist() == [[1], [2], [3]]
        assert not caplog.text
        numbered = indexed.reset_index(names="id")
        numbered.to_csv(tmp_path / "x.csv")                                 # row numbers beside the column id
        assert load_nodes("file", edges=edges, features=tmp_path / "x.csv").feat.tolist() == [[1], [2], [3]]
        assert "is skipped" in caplog.text
        numbered.set_index(pd.Index([5, 6, 7])).to_csv(tmp_path / "x.csv")  # which of the two is the id?
        with pytest.raises(DataError, match="the first column has no name"):
            load_nodes("file", edges=edges, features=tmp_path / "x.csv")

    def test_row_numbers_alone_are_the_node_ids(self, tmp_path, caplog):
        pd.DataFrame(np.eye(4)).to_csv(tmp_path / "x.csv")
        data = load_nodes("file", edges=write(tmp_path / "e.csv", PLAIN), features=tmp_path / "x.csv")
        assert torch.equal(data.feat, torch.eye(4))
        assert "it is read as the node id" in caplog.text

    def test_labels(self, tmp_path):
        edges = write(tmp_path / "e.csv", PLAIN)
        for content in (",id,label\n0,3,x\n1,1,y\n2,2,y\n3,0,x\n", ",label\n0,x\n1,y\n2,y\n3,x\n"):
            data = load_nodes("file", edges=edges, labels=write(tmp_path / "y.csv", content))
            assert data.label.tolist() == [0, 1, 1, 0]
        with pytest.raises(DataError, match="the first column has no name"):
            load_nodes("file", edges=edges, labels=write(tmp_path / "y.csv", ",id,label\n4,3,x\n9,1,y\n"))


class TestIdsInAnotherColumn:
    """The header says which column has the ids."""

    def test_features(self, tmp_path):
        edges = write(tmp_path / "e.csv", PLAIN)
        features = write(tmp_path / "x.csv", "age,node,height\n10,3,7\n11,2,7\n12,0,7\n13,1,7\n")
        data = load_nodes("file", edges=edges, features=features)
        assert data.feat.tolist() == [[12, 7], [13, 7], [11, 7], [10, 7]]
        assert list(data.feat_names) == ["age", "height"]

    def test_labels(self, tmp_path):
        edges = write(tmp_path / "e.csv", PLAIN)
        data = load_nodes("file", edges=edges, labels=write(tmp_path / "y.csv", "label,id\n0,3\n1,2\n2,0\n2,1\n"))
        assert data.label.tolist() == [2, 2, 1, 0]


class TestSummary:
    def test_weights_and_ignored_columns(self, tmp_path, caplog):
        edges = write(tmp_path / "e.csv", "source,target,weight,year\n0,1,0.5,1999\n")
        assert "1 edges weighted by column 'weight'" in load_nodes("file", edges=edges).summary
        assert load_nodes("file", edges=edges).summary.endswith("; ignored: column 'year' of e.csv")
        edges = write(tmp_path / "e.csv", "0,1,0.5\n")
        assert "1 edges weighted by the third column" in load_nodes("file", edges=edges).summary
        assert not caplog.text
        for name in ("value", "rating"):
            data = load_nodes("file", edges=write(tmp_path / "e.csv", f"source,target,{name}\n0,1,5\n"))
            assert "1 unweighted edges" in data.summary
            assert f"ignored: column '{name}' of e.csv" in data.summary
            assert f"columns ['{name}'] are not used; edge weights are read from a column called weight" in caplog.text

    def test_comment_lines_are_counted(self, tmp_path):
        edges = write(tmp_path / "e.csv", "cats,dogs\n#dogs,cats\n#birds,dogs\ncats,mice\n")
        assert load_nodes("file", edges=edges).summary.endswith("ignored: 2 comment lines of e.csv")
        assert "ignored" not in load_nodes("file", edges=write(tmp_path / "e.csv", PLAIN)).summary

    def test_a_column_is_used_once(self, tmp_path):
        """A header that names one end, or the weight first: the other columns are the ends."""
        assert edges_of(load_nodes("file", edges=write(tmp_path / "e.csv", "target,paper\n0,1\n"))) == both((0, 1))
        edges = write(tmp_path / "e.csv", "weight,a,b\n0.5,1,2\n")
        assert edges_of(load_nodes("file", edges=edges)) == both((1, 2))


class TestSomeLabels:
    def load(self, tmp_path, content):
        return load_nodes("file", edges=write(tmp_path / "e.csv", PLAIN), labels=write(tmp_path / "y.csv", content))

    @pytest.mark.parametrize("content", ["0,b\n2,a\n", "0,b\n1,\n2,a\n3,\n", "0,b\n2,a\nother,c\n"])
    def test_nodes_without_a_label(self, tmp_path, content):
        data = self.load(tmp_path, content)
        assert data.label.tolist() == [1, -1, 0, -1]
        assert data.class_names == ["a", "b"]
        assert data.num_classes == 2
        assert "2 classes (2 of 4 nodes labelled)" in data.summary
        assert ("1 rows of y.csv for ids that are not in the graph" in data.summary) == ("other" in content)

    def test_numbers(self, tmp_path):
        data = self.load(tmp_path, "0,10\n1,9\n2,-1\n3,\n")
        assert data.label.tolist() == [1, 0, -1, -1]
        assert data.class_names == ["9", "10"]
        assert self.load(tmp_path, "0,-1\n1,1\n2,-1\n").label.tolist() == [0, 1, 0, -1]       # two classes of that name
        np.save(tmp_path / "y.npy", np.array([3, -1, 5, 3]))
        data = load_nodes("file", edges=tmp_path / "e.csv", labels=tmp_path / "y.npy")
        assert data.label.tolist() == [0, -1, 1, 0]

    def test_no_label_at_all_is_refused(self, tmp_path):
        for content in ("x,a\ny,b\n", "0,\n1,\n", "7,a\n"):
            with pytest.raises(DataError, match="no label for any node"):
                self.load(tmp_path, content)

    def test_a_saved_graph(self, tmp_path, read_here, dgl):
        graph = dgl.graph(([0, 1, 1], [1, 0, 2]), num_nodes=4)
        graph.ndata["label"] = torch.tensor([-1, 0, 2, -1])
        dgl.save_graphs(str(tmp_path / "g.bin"), [graph])
        data = load_nodes("file", graph=tmp_path / "g.bin")
        assert data.label.tolist() == [-1, 0, 1, -1]
        assert data.num_classes == 2


@pytest.mark.parametrize("separator", ["\t", "\\t", "tab"])
def test_a_tab_by_any_name(tmp_path, separator):
    edges = write(tmp_path / "e.csv", "a b\tc,d\n")
    assert edges_of(load_nodes("file", edges=edges, separator=separator)) == both(("a b", "c,d"))


@pytest.mark.parametrize("separator", ["::", "\n", '"', "é"])
def test_other_separators_are_refused(tmp_path, separator):
    with pytest.raises(DataError, match=r"dataset\.separator=.* should be one character"):
        load_nodes("file", edges=write(tmp_path / "e.csv", "0::1\n"), separator=separator)


@pytest.mark.parametrize("content", [PLAIN.replace("\n", "\r"), PLAIN.replace("\n", "\r\r\n"), "# c\r" + PLAIN])
def test_carriage_returns_end_lines(tmp_path, content):
    data = load_nodes("file", edges=write(tmp_path / "e.csv", content))
    assert edges_of(data) == both((0, 1), (1, 2), (2, 0), (2, 3))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("0,1\n1\r,2\n", "line 2: 1 fields instead of 2"),
        ("0,1\n1,\x002\n", "line 2: contains a zero byte"),
        ("0,1\n1," + "9" * 200_000 + ",\n", "line 2: cannot be read"),
        ("0,1,1_000\n", "'1_000' is not a finite number"),
        ("\x1c\n0 1\n", "line 2"),
    ],
)
def test_odd_characters_are_refused_with_the_line(tmp_path, content, words):
    with pytest.raises(DataError, match=words):
        load_nodes("file", edges=write(tmp_path / "e.csv", content))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "latin-1"])
def test_other_encodings_say_what_to_do(tmp_path, encoding):
    (tmp_path / "e.csv").write_bytes("zoë,ann\nann,eve\n".encode(encoding))
    with pytest.raises(DataError, match=r"e\.csv.*save it as UTF-8"):
        load_nodes("file", edges=tmp_path / "e.csv")


def test_a_spreadsheet_is_to_be_saved_as_csv(tmp_path):
    with zipfile.ZipFile(tmp_path / "e.xlsx", "w") as file:
        file.writestr("xl/workbook.xml", "<workbook/>")
    (tmp_path / "e.xls").write_bytes(bytes.fromhex("d0cf11e0a1b11ae1") + bytes(504))
    for name in ("e.xlsx", "e.xls"):
        with pytest.raises(DataError, match=rf"{name}: is a spreadsheet .*: save the table as CSV"):
            load_nodes("file", edges=tmp_path / name)


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_headers_that_name_both_ends(tmp_path, source, target, caplog):
    """In any order and case, and in any columns; but they are nodes if they occur again."""
    edges = write(tmp_path / "e.csv", f"{source.upper()},{target}\nann,bob\nbob,eve\n")
    assert edges_of(load_nodes("file", edges=edges)) == both(("ann", "bob"), ("bob", "eve"))
    edges = write(tmp_path / "e.csv", f"since,{target},{source}\nmay,ann,bob\nmay,bob,eve\n")
    assert edges_of(load_nodes("file", edges=edges)) == both(("ann", "bob"), ("bob", "eve"))
    edges = write(tmp_path / "e.csv", f"{source},{target}\nann,bob\nbob,{target}\n")
    assert edges_of(load_nodes("file", edges=edges)) == both((source, target), ("ann", "bob"), ("bob", target))


@pytest.mark.parametrize("delimiter", [" ", "\t", ","])
def test_networkx_edge_lists(tmp_path, delimiter):
    graph = networkx.Graph([(0, 1), (1, 2)])
    networkx.write_edgelist(graph, tmp_path / "e.txt", delimiter=delimiter)
    data = load_nodes("file", edges=tmp_path / "e.txt")
    assert edges_of(data) == both((0, 1), (1, 2))
    assert data.edge_weight is None
    graph = networkx.Graph()
    graph.add_weighted_edges_from([(0, 1, 2.0), (1, 2, 3e-5)])
    networkx.write_edgelist(graph, tmp_path / "e.txt", delimiter=delimiter)
    data = load_nodes("file", edges=tmp_path / "e.txt")
    assert edges_of(data) == both((0, 1), (1, 2))
    assert data.edge_weight.tolist() == pytest.approx([2, 2, 3e-5, 3e-5])


def test_other_networkx_attributes_are_refused(tmp_path):
    edges = write(tmp_path / "e.txt", "0 1 {'weight': 2.0}\n1 2 {'weight': 2.0, 'color': 'red'}\n")
    with pytest.raises(DataError, match=r"line 2: edge attributes .*write_weighted_edgelist"):
        load_nodes("file", edges=edges)


def test_ordinary_files_are_read_without_a_word(tmp_path, caplog):
    caplog.set_level(logging.WARNING)
    labels = write(tmp_path / "y.csv", "id,label\n0,a\n1,a\n2,b\n3,b\n")
    load_nodes("file", edges=write(tmp_path / "e.csv", PLAIN), labels=labels)
    assert not caplog.text


@pytest.mark.parametrize(
    ("features", "labels"),
    [
        ("x,y,name\n1,2,a\n3,4,b\n", "label,node\n0,a\n1,b\n"),               # ids in the last column
        ("person,age\na,1\nb,3\n", "a,0\nb,1\n"),                              # text over numbers
        ("a,1\nb,3\n", "a,name\nb,verb\n"),                                     # a class called like a column
    ],
)
def test_headers_of_features_and_labels(tmp_path, features, labels):
    tables = {"edges": "a,b\n", "features": features, "labels": labels}
    for name, table in tables.items():
        (tmp_path / f"{name}.csv").write_text(table)
    data = load_nodes("file", **{name: tmp_path / f"{name}.csv" for name in tables})
    assert data.feat[:, 0].tolist() == [1, 3]
    assert data.label.tolist() == [0, 1]


def weighted_edges_of(data):
    """Edges in the user's ids, each direction, with their weights."""
    weight = [None] * data.graph.num_edges if data.edge_weight is None else data.edge_weight.tolist()
    source, target = (data.ids[end.numpy()].tolist() for end in data.graph.edge_index)
    return dict(zip(zip(source, target, strict=True), weight, strict=True))


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of a few lines, so that a small file has several."""
    monkeypatch.setattr(tables, "BLOCK", 40)


LINES = [f"{i},{(3 * i) % 40}" for i in range(40)]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize(
    "rows",
    [
        LINES,
        ["source,target", *LINES],
        ["# c", "", *LINES[:20], "% c", "", *LINES[20:]],
        [f"{line},{i / 4}" for i, line in enumerate(LINES)],
        [f"node {line.replace(',', ',node ')}" for line in LINES],
        [*LINES, "last,0"],                                             # text after blocks of numbers
        [*LINES, "007,7"],
        [",paper,cites", *(f"{i},{line}" for i, line in enumerate(LINES))],
        [f"{line.replace(',', ' ')} {{'weight': {i}}}" for i, line in enumerate(LINES)],
    ],
)
@pytest.mark.parametrize("name", ["e.csv", "e.csv.gz", "without a suffix gz"])
def test_blocks_change_nothing(tmp_path, monkeypatch, end, rows, name):
    content = b"\xef\xbb\xbf" + end.join(rows).encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    whole = load_nodes("file", edges=tmp_path / name)
    monkeypatch.setattr(tables, "BLOCK", 47)
    in_blocks = load_nodes("file", edges=tmp_path / name)
    assert weighted_edges_of(whole) == weighted_edges_of(in_blocks)
    assert whole.ids.tolist() == in_blocks.ids.tolist()
    assert whole.summary == in_blocks.summary


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("5", r"line 33: 1 fields instead of 2"),
        ("5,", "line 33: field 2 is empty"),
        ("5,\x00", "line 33: contains a zero byte"),
        (b"5,\xff", "line 33: not UTF-8"),
    ],
)
def test_errors_name_the_line_of_the_file(tmp_path, small_blocks, row, words):
    row = row if isinstance(row, bytes) else row.encode()
    lines = [line.encode() for line in LINES]
    (tmp_path / "e.csv").write_bytes(b"\n".join([*lines[:32], row, *lines[32:]]))
    with pytest.raises(DataError, match=words):
        load_nodes("file", edges=tmp_path / "e.csv")


def test_a_negative_weight_further_down(tmp_path, small_blocks):
    (tmp_path / "e.csv").write_text("\n".join([*(f"{line},1" for line in LINES), "0,1,-2"]))
    with pytest.raises(DataError, match="line 41: weight -2 is negative"):
        load_nodes("file", edges=tmp_path / "e.csv")


def test_an_index_that_stops_counting(tmp_path, small_blocks):
    rows = [",paper,cites", *(f"{i},{line}" for i, line in enumerate(LINES)), "99,0,1"]
    (tmp_path / "e.csv").write_text("\n".join(rows))
    with pytest.raises(DataError, match="not a row number"):
        load_nodes("file", edges=tmp_path / "e.csv")


def test_an_endless_line(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "MAX_LINE", 1000)
    monkeypatch.setattr(tables, "BLOCK", 100)
    (tmp_path / "e.csv").write_text("0,1\n" + "9" * 2000)
    with pytest.raises(DataError, match="a line of more than 1,000 bytes"):
        load_nodes("file", edges=tmp_path / "e.csv")
