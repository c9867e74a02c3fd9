"""TU and OGB sets, packed batches, folds."""


import numpy as np
import pytest
import torch
from commands import launch
from zoo import batched

from jbpool.data import DataError, load_graphs, ogb_mol
from jbpool.data.tu import load_tu_folder
from jbpool.errors import JBPoolError

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
        ({"A": "1, 2\n2, 99\n"}, r"TINY_A.txt, line 2: a node number is outside 1\.\.6"),
        ({"A": "1, 2\n0, 1\n"}, "line 2: a node number is outside"),
        ({"A": "1, 2\n3, 4\n"}, "line 2: the edge joins two graphs"),
        ({"A": "1, 2\n3\n"}, "line 2"),
        ({"A": "1, 2\n2, 1, 4\n"}, "line 2: 3 numbers instead of 2"),
        ({"A": "1, 2\nx, 1\n"}, "line 2: 'x, 1' is not a row of numbers"),
        ({"A": "1, 2\n2.5, 1\n"}, "line 2: expected whole numbers"),
        ({"A": "1, 2\nTrue, 1\n"}, "line 2"),
        ({"graph_labels": "1\n1e30\n1\n"}, "line 2: expected whole numbers"),
        ({"node_attributes": "1\n1e300\n3\n4\n5\n6\n"}, "line 2: attributes must be finite, also as float32"),
        ({"A": ""}, "the file is empty"),
        ({"A": "1\n2\n"}, "1 numbers per line instead of 2"),
        ({"graph_indicator": "1\n1\n1\n2\n2\n4\n"}, "line 6: there are labels for 3 graphs only"),
        ({"graph_indicator": "1\n1\n2\n1\n2\n3\n"}, "line 4: nodes must be sorted by graph"),
        ({"graph_indicator": "0\n1\n1\n2\n2\n3\n"}, "line 1: graph numbers start at 1"),
        ({"graph_labels": "1\nnan\n1\n"}, "line 2"),
        ({"node_labels": "1\n2\n"}, "2 rows for 6 nodes"),
        ({"node_attributes": "1\n2\n3\n4\ninf\n6\n"}, "line 5: attributes must be finite"),
        ({"node_attributes": "1\n2\n"}, "2 rows for 6 nodes"),
    ],
)
def test_malformed_tu_files_are_refused_with_the_line(tu_folder, cache, changes, words):
    with pytest.raises(DataError, match=words):
        load_tu_folder(tu_folder(**changes))
    assert not list(cache.rglob("*.npz"))


def test_parts_that_are_not_used_are_named(tu_folder, caplog):
    load_tu_folder(tu_folder(edge_labels="1\n" * 7))
    assert "TINY_edge_labels.txt is not used" in caplog.text


def test_missing_parts_of_a_tu_folder(tu_folder, tmp_path):
    (tu_folder() / "TINY_graph_indicator.txt").unlink()
    with pytest.raises(DataError, match=r"TINY_graph_indicator\.txt is missing"):
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


def small(num_graphs=40, **options):
    return load_graphs("motifs", num_graphs=num_graphs, **options)


def test_packed_batches_equal_batched_graphs():
    data = small()
    graphs = [data.batch([i]) for i in range(len(data))]
    index = torch.tensor([7, 3, 3, 39, 0])
    packed, expected = data.batch(index), batched([graphs[i].graph for i in index])
    assert torch.equal(packed.graph.edge_index, expected.edge_index)
    assert torch.equal(packed.graph.sizes, expected.sizes)
    assert torch.equal(packed.feat, torch.cat([graphs[i].feat for i in index]))
    assert torch.equal(packed.label, data.label[index])


def test_graphs_are_chosen_by_number_or_mask():
    data = load_graphs("motifs", num_graphs=30)
    mask = torch.zeros(30, dtype=torch.bool)
    mask[[5, 6]] = True
    assert torch.equal(data.batch(mask).feat, data.batch([5, 6]).feat)
    assert torch.equal(data.batch([-1]).feat, data.batch([29]).feat)
    for wrong, words in ((3, "a list of"), ([True, False], "a mask of all"), ([0.5], "a list of"), ([30], "0 to 29")):
        with pytest.raises(JBPoolError, match=words):
            data.batch(wrong)


def test_folds_cover_every_graph_once_and_are_stratified():
    data = small(120)
    seen = torch.zeros(120, dtype=torch.long)
    for fold in range(10):
        split = data.split(fold, 10, seed=3)
        assert torch.cat(list(split)).sort().values.tolist() == list(range(120))
        seen[split.test] += 1
        for part in split:
            counts = data.label[part].bincount(minlength=3)
            assert counts.max() - counts.min() <= 1
        assert data.label[split.test].bincount().tolist() == [4, 4, 4]
        assert all(torch.equal(a, b) for a, b in zip(split, data.split(fold, 10, seed=3), strict=True))
    assert (seen == 1).all()
    assert not torch.equal(data.split(0, 10, 0).test, data.split(0, 10, 1).test)


@pytest.mark.parametrize(("fold", "folds"), [(10, 10), (-1, 10), (0, 1), (0.5, 10)])
def test_bad_folds(fold, folds):
    with pytest.raises(ValueError, match="numbered from 0"):
        small().split(fold, folds)


def test_classes_too_small_to_fold():
    with pytest.raises(DataError, match="use fewer folds"):
        small(12).split(0, 10)


# ---------------------------------------------------------------- OGB


def write_ogb(folder):
    """Three molecules in the folder layout of OGB."""
    raw, split = folder / "ogbg_molhiv" / "raw", folder / "ogbg_molhiv" / "split" / "scaffold"
    raw.mkdir(parents=True)
    split.mkdir(parents=True)
    tables = {
        "edge": [[0, 1], [0, 1], [1, 2]], "num-edge-list": [[1], [2], [0]], "num-node-list": [[2], [3], [1]],
        "node-feat": [[5, 0, 4, 5, 3, 0, 2, 0, i % 2] for i in range(6)],
        "edge-feat": [[0, 0, i % 2] for i in range(3)],
        "graph-label": [[0], [1], [0]],
    }  # fmt: skip
    for name, rows in tables.items():
        np.savetxt(raw / f"{name}.csv.gz", np.array(rows), fmt="%d", delimiter=",")
    for number, part in enumerate(("train", "valid", "test")):
        np.savetxt(split / f"{part}.csv.gz", np.array([[number]]), fmt="%d")
    return folder


@pytest.fixture
def no_terminal(monkeypatch):
    """A prompt is an error."""
    monkeypatch.setattr("builtins.input", lambda *args: pytest.fail("a prompt"))


@pytest.mark.filterwarnings("ignore::UserWarning:ogb")
def test_ogb_reads_its_folder_form_without_asking(tmp_path, no_terminal, cache):
    write_ogb(tmp_path / "data" / "ogb")
    before = sorted(path for path in (tmp_path / "data").rglob("*"))
    for _ in range(2):                                          # read by ogb, then from the cache
        data = load_graphs("ogbg-molhiv")
        assert len(data) == 3
        assert data.sizes.tolist() == [2, 3, 1]
        assert data.num_edges.tolist() == [2, 4, 0]             # both directions of every bond
        assert data.feat.dtype == torch.int64
        assert data.edge_feat.shape == (6, 3)
        assert data.label.tolist() == [[0], [1], [0]]
        assert data.metric == "rocauc"
        assert [part.tolist() for part in data.split()] == [[0], [1], [2]]
    assert sorted(path for path in (tmp_path / "data").rglob("*")) == before       # nothing is written beside the data
    assert len(list((cache / "parsed").glob("ogbg-molhiv-*.npz"))) == 1
    batch = data.batch([1, 0])
    assert batch.edge_feat.shape == (6, 3)
    edges = zip(*(end.tolist() for end in batch.graph.edge_index), strict=True)
    assert sorted(edges) == [(0, 1), (1, 0), (1, 2), (2, 1), (3, 4), (4, 3)]


@pytest.mark.filterwarnings("ignore::UserWarning:ogb")
@pytest.mark.parametrize(
    ("table", "rows", "words"),
    [
        ("split/scaffold/test", [[1]], "names a graph twice"),
        ("split/scaffold/test", [[9]], "names a graph twice or one outside"),
        ("raw/node-feat", [[500] * 9] * 6, "atom features are outside"),
        ("raw/edge-feat", [[0, 0, 99]] * 3, "bond features are outside"),
        ("raw/graph-label", [[0, 1]] * 3, "labels of shape"),
        ("raw/edge", [[0, 7], [0, 1], [1, 2]], "ogb cannot read it|does not have"),
    ],
)
def test_ogb_tables_that_do_not_fit(tmp_path, no_terminal, cache, table, rows, words):
    folder = write_ogb(tmp_path / "data" / "ogb") / "ogbg_molhiv"
    np.savetxt(folder / f"{table}.csv.gz", np.array(rows), fmt="%d", delimiter=",")
    with pytest.raises(DataError, match=words):
        load_graphs("ogbg-molhiv")
    assert not list(cache.rglob("*.npz"))


def test_ogb_is_imported_when_needed_and_asks_the_network_nothing(tmp_path):
    """In a process that has imported both tasks."""
    (tmp_path / "load.py").write_text(
        "import sys, threading, jbpool.data\n"
        "assert 'jbpool.classification.task' in sys.modules and 'ogb' not in sys.modules\n"
        "before = threading.active_count(); from jbpool.data.ogb_files import import_ogb; import_ogb()\n"
        "assert 'ogb' in sys.modules\n"
        "assert 'outdated' not in sys.modules, 'outdated'; assert threading.active_count() == before\n"
    )
    process = launch(tmp_path / "load.py", cwd=tmp_path)
    _, error = process.communicate(timeout=120)
    assert process.returncode == 0, error


def test_ogb_folder_with_parts_missing(tmp_path, no_terminal):
    folder = write_ogb(tmp_path / "data" / "ogb") / "ogbg_molhiv"
    (folder / "split" / "scaffold" / "test.csv.gz").unlink()
    with pytest.raises(DataError, match=r"test\.csv\.gz: is missing"):
        load_graphs("ogbg-molhiv")
    (folder / "raw" / "edge.csv.gz").write_bytes(b"damaged")
    np.savetxt(folder / "split" / "scaffold" / "test.csv.gz", np.array([[2]]), fmt="%d")
    with pytest.raises(DataError, match="ogb cannot read it"):
        load_graphs("ogbg-molhiv")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning:ogb")
def test_the_real_molhiv(shared, no_terminal):
    data = load_graphs("ogbg-molhiv", root=shared)
    assert (len(data), len(data.feat), len(data.source)) == (41127, 1049163, 2259376)
    assert [len(part) for part in data.split()] == [32901, 4113, 4113]
    assert torch.cat(list(data.split())).unique().numel() == 41127


def test_the_official_evaluator():
    score = ogb_mol.evaluator("ogbg-molhiv").eval(
        {"y_true": np.array([[0], [1], [1]]), "y_pred": np.array([[0.1], [0.9], [0.4]])}
    )
    assert score == {"rocauc": 1.0}
