"""TU sets."""

import pytest

from jbpool.data import DataError, load_graphs
from jbpool.data.sets.tu import load_tu_folder

COUNTS = {
    "MUTAG": (188, 3371, 7442),
    "ENZYMES": (600, 19580, 74564),
    "PROTEINS": (1113, 43471, 162088),
    "DD": (1178, 334925, 1686092),
    "NCI1": (4110, 122747, 265506),
    "REDDIT-BINARY": (2000, 859254, 1991016),
}
FEATURES = {"MUTAG": 7, "ENZYMES": 18 + 3, "PROTEINS": 1 + 3, "NCI1": 37}

TINY = {
    "A": "1, 2\n2, 1\n2, 3\n2, 3\n3, 2\n5, 4\n4, 4\n",          # a duplicate, a missing direction, a self loop
    "graph_indicator": "1\n1\n1\n2\n2\n3\n",
    "graph_labels": "-1\n1\n1\n",
}


@pytest.fixture
def tu_folder(tmp_path):
    def write(crlf=False, bom=False, **changes):
        folder = tmp_path / "TINY"
        folder.mkdir(exist_ok=True)
        for part, text in {**TINY, **changes}.items():
            content = text.replace("\n", "\r\n") if crlf else text
            (folder / f"TINY_{part}.txt").write_bytes((b"\xef\xbb\xbf" if bom else b"") + content.encode())
        return folder

    return write


@pytest.mark.parametrize("crlf", [False, True])
@pytest.mark.parametrize("bom", [False, True])
def test_a_tu_folder(tu_folder, crlf, bom):
    data = load_tu_folder(tu_folder(crlf, bom))
    assert len(data) == 3
    assert data.sizes.tolist() == [3, 2, 1]
    assert data.num_edges.tolist() == [4, 2, 0]
    assert data.source.tolist() == [0, 1, 1, 2, 0, 1]
    assert data.target.tolist() == [1, 0, 2, 1, 1, 0]
    assert data.label.tolist() == [0, 1, 1]
    assert list(data.class_names) == ["-1", "1"]
    assert data.feat.argmax(1).tolist() == [1, 1, 1, 1, 1, 0]       # degrees 1, 2, 1, 1, 1, 0 in powers of two


def test_degrees_in_powers_of_two_up_to_a_cap(tu_folder):
    star = "".join(f"1, {i}\n" for i in range(2, 42))
    data = load_tu_folder(tu_folder(A=star, graph_indicator="1\n" * 41, graph_labels="1\n"))
    assert data.feat.shape == (41, 6)
    assert data.feat[0].argmax() == 5                               # 40 neighbours: 2^5 <= 41 < 2^6
    assert (data.feat[1:].argmax(1) == 1).all()


def test_attributes_and_labels_stand_side_by_side(tu_folder):
    folder = tu_folder(node_labels="7\n7\n9\n8\n7\n9\n", node_attributes="0.5, 1\n" * 6)
    data = load_graphs("file", folder=folder)
    assert data.feat[2].tolist() == [0.5, 1, 0, 0, 1]
    assert data.feat.shape == (6, 5)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"A": "1, 2\n2, 99\n"}, r"TINY_A.txt, line 2: a node"), ({"A": "1, 2\n0, 1\n"}, "line 2: a node"),
        ({"A": "1, 2\n3, 4\n"}, "line 2: the edge joins two graphs"), ({"A": "1, 2\n2, 1, 4\n"}, "line 2"),
        ({"A": "1, 2\n3\n"}, "line 2"), ({"A": "1, 2\nx, 1\n"}, "'x'"), ({"A": "1, 2\n2.5, 1\n"}, "line 2: .* whole"),
        ({"A": ""}, "TINY_A"), ({"A": "1\n2\n"}, "1 numbers per line"), ({"graph_labels": "1\n1e30\n1\n"}, "line 2"),
        ({"graph_indicator": "1\n1\n1\n2\n2\n4\n"}, "line 6"), ({"graph_labels": "1\nnan\n1\n"}, "line 2"),
        ({"graph_indicator": "1\n1\n2\n1\n2\n3\n"}, "line 4: .*sorted"),
        ({"graph_indicator": "0\n1\n1\n2\n2\n3\n"}, "line 1: .*numbered"), ({"node_labels": "1\n2\n"}, "expected 6"),
        ({"node_attributes": "1\n2\n3\n4\ninf\n6\n"}, "line 5"), ({"node_attributes": "1\n2\n"}, "expected 6"),
        ({"node_attributes": "1\n1e300\n3\n4\n5\n6\n"}, "line 2: expected numbers up to"),
    ],
)  # fmt: skip
def test_malformed_tu_files_are_refused_with_the_line(tu_folder, cache, changes, words):
    with pytest.raises(DataError, match=words):
        load_tu_folder(tu_folder(**changes))
    assert not list(cache.rglob("*.npz"))


def test_parts_that_are_not_used_are_named(tu_folder, caplog):
    load_tu_folder(tu_folder(edge_labels="1\n" * 7))
    assert "TINY_edge_labels.txt is not used" in caplog.text


def test_missing_parts_of_a_tu_folder(tu_folder, tmp_path):
    (tu_folder() / "TINY_graph_indicator.txt").unlink()
    with pytest.raises(DataError, match=r"TINY_graph_indicator\.txt: no such file"):
        load_tu_folder(tmp_path / "TINY")
    with pytest.raises(DataError, match=r"one file NAME_A\.txt"):
        load_tu_folder(tmp_path)


@pytest.mark.parametrize("name", COUNTS)
def test_real_tu_sets(shared, name):
    for _ in range(2):
        data = load_graphs(name, root=shared)
        assert (len(data), len(data.feat), len(data.source)) == COUNTS[name]
    assert data.feat.shape[1] == FEATURES.get(name, data.feat.shape[1])
    assert data.feat.isfinite().all()
    some = data.batch([0, len(data) - 1])
    for end in some.graph.edge_index:
        assert end.max() < some.graph.num_nodes
