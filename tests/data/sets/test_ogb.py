"""``ogbn-*`` from folders in OGB's layout that the tests write."""

import shutil

import numpy as np
import pandas as pd
import pytest
import torch
from commands import launch

from jbpool.data import DataError, load_graphs, load_nodes
from jbpool.data.sets import ogb

EDGES = np.array([[0, 1], [1, 2], [3, 1], [1, 0]])
FEATURES = np.array([[0.5, 1.5], [-1, 2], [3, 4], [0.25, 6], [7, 8.5]])
LABELS = np.array([[2], [0], [39], [0], [2]])


@pytest.fixture(autouse=True)
def no_terminal(monkeypatch):
    """Asking a question or the network is an error."""
    monkeypatch.setattr("builtins.input", lambda *args: pytest.fail("a prompt"))
    monkeypatch.setattr("socket.getaddrinfo", lambda *args, **options: pytest.fail("the network"))


def table(path, values):
    pd.DataFrame(values).to_csv(path, index=False, header=False)


def write_csv(root, name="ogbn_arxiv", **changes):
    """Five nodes in OGB's folder layout."""
    folder = root / "ogb" / name
    (folder / "raw").mkdir(parents=True)
    (folder / "split" / "time").mkdir(parents=True)
    (folder / "RELEASE_v1.txt").touch()
    tables = {
        "edge": EDGES, "node-feat": FEATURES, "node-label": LABELS, "num-node-list": [[5]], "num-edge-list": [[4]],
        "node_year": [[2000]] * 5,
    } | changes  # fmt: skip
    for name, values in tables.items():
        if values is not None:
            table(folder / "raw" / f"{name}.csv.gz", values)
    for number, part in enumerate(("train", "valid", "test")):
        table(folder / "split" / "time" / f"{part}.csv.gz", [[number]])
    return folder


def write_binary(root, name="ogbn_papers100M", label=LABELS, **changes):
    raw = root / "ogb" / name / "raw"
    raw.mkdir(parents=True)
    arrays = {
        "edge_index": EDGES.T, "node_feat": FEATURES.astype(np.float16), "num_nodes_list": [5], "num_edges_list": [4],
        "node_year": [[2000]] * 5,
    } | changes  # fmt: skip
    np.savez(raw / "data.npz", **arrays)
    np.savez(raw / "node-label.npz", node_label=label)
    return raw.parent


def edges_of(data):
    return sorted(zip(*(end.tolist() for end in data.graph.edge_index), strict=True))


def check(data):
    assert edges_of(data) == [(0, 1), (1, 0), (1, 2), (1, 3), (2, 1), (3, 1)]
    assert data.graph.num_nodes == 5
    assert data.feat.tolist() == FEATURES.tolist()
    assert data.label.tolist() == LABELS[:, 0].tolist()
    assert data.num_classes == 40


@pytest.mark.parametrize("name", ["ogbn-arxiv", "ogbn-products"])
def test_tables(tmp_path, cache, name, capfd):
    folder = write_csv(tmp_path / "data", name.replace("-", "_"))
    before = sorted(folder.rglob("*"))
    check(load_nodes(name))                                     # read from the tables, then from the cache
    assert len(list((cache / "parsed").glob(f"{name}-*.npz"))) == 1
    check(load_nodes(name))
    assert sorted(folder.rglob("*")) == before                  # nothing is written beside the data
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", ["ogbn-papers100M", "ogbn-products"])
def test_binary_files(tmp_path, name):
    write_binary(tmp_path / "data", name.replace("-", "_"))
    check(load_nodes(name))


def test_an_archive_as_published(tmp_path):
    folder = write_csv(tmp_path / "data")
    shutil.move(folder, tmp_path / "arxiv")
    shutil.make_archive(str(tmp_path / "data" / "ogb" / "arxiv"), "zip", tmp_path, "arxiv")
    check(load_nodes("ogbn-arxiv"))


def test_nodes_without_a_class(tmp_path):
    label = LABELS.astype(np.float32)
    label[1:3] = np.nan
    write_binary(tmp_path, label=label)
    data = load_nodes("ogbn-papers100M", root=tmp_path)
    assert data.label.tolist() == [2, -1, -1, 0, 2]


def test_many_tasks_are_no_classes_and_edge_features_are_not_read(tmp_path):
    folder = write_csv(tmp_path, "ogbn_proteins", **{"node-feat": None, "node-label": np.ones((5, 112), int)})
    (folder / "raw" / "edge-feat.csv.gz").write_bytes(b"would be gigabytes")
    data = load_nodes("ogbn-proteins", root=tmp_path)
    assert data.label is None
    assert data.feat is None
    assert len(edges_of(data)) == 6
    table(folder / "raw" / "num-node-list.csv.gz", [[10**12]])          # a number, without data for each node
    with pytest.raises(DataError, match="labels"):
        load_nodes("ogbn-proteins", root=tmp_path)


def test_nothing_on_this_machine():
    address = r"https://snap\.stanford\.edu/ogb/data/nodeproppred/products\.zip"
    with pytest.raises(DataError, match=rf"ogb/ogbn_products .*{address}.* \(a generated graph"):
        load_nodes("ogbn-products")


@pytest.mark.parametrize("name", ["edge", "node-label", "num-node-list", "num-edge-list"])
def test_missing_and_truncated_tables(tmp_path, cache, name):
    path = write_csv(tmp_path) / "raw" / f"{name}.csv.gz"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DataError, match=rf"raw/{name}.csv.gz: cannot be read"):
        load_nodes("ogbn-arxiv", root=tmp_path)
    path.unlink()
    with pytest.raises(DataError, match=rf"raw/{name}\.csv\.gz: no such file"):
        load_nodes("ogbn-arxiv", root=tmp_path)
    assert not list(cache.rglob("*.npz"))


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"edge": [[0, 1], [1, 5], [0, 2], [0, 3]]}, "edges"), ({"edge": [[0, 1], [-1, 2], [0, 2], [0, 3]]}, "edges"),
        ({"edge": EDGES[:3]}, "edges"), ({"node-feat": FEATURES[:4]}, "features"),
        ({"node-feat": [["x", "y"]] * 5}, "cannot be read"), ({"node-feat": [[1.0, np.nan]] * 5}, "features"),
        ({"node-label": LABELS[:4]}, "labels"), ({"node-label": LABELS + 1}, "labels"),
        ({"node-label": LABELS + 0.5}, "labels"), ({"num-node-list": [["inf"]]}, "infinity"),
        ({"num-node-list": [[5], [5]], "num-edge-list": [[4], [4]]}, "size 1"),
    ],
)  # fmt: skip
def test_tables_that_do_not_fit(tmp_path, cache, changes, word):
    write_csv(tmp_path, **changes)
    with pytest.raises(DataError, match=word):
        load_nodes("ogbn-arxiv", root=tmp_path)
    assert not list(cache.rglob("*.npz"))


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"edge_index": np.array([[print], [1]])}, "allow_pickle"), ({"label": LABELS[:2]}, "labels"),
        ({"node_feat": np.full((5, 1), np.inf)}, "features"),
    ],
)  # fmt: skip
def test_arrays_that_do_not_fit(tmp_path, changes, word):
    write_binary(tmp_path, **changes)
    with pytest.raises(DataError, match=word):
        load_nodes("ogbn-papers100M", root=tmp_path)


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
    for name, lines in tables.items():
        np.savetxt(raw / f"{name}.csv.gz", np.array(lines), fmt="%d", delimiter=",")
    for number, part in enumerate(("train", "valid", "test")):
        np.savetxt(split / f"{part}.csv.gz", np.array([[number]]), fmt="%d")
    return folder


def test_its_folder_form_is_read_without_asking(tmp_path, cache):
    write_ogb(tmp_path / "data" / "ogb")
    before = sorted(path for path in (tmp_path / "data").rglob("*"))
    for _ in range(2):                                          # read from the tables, then from the cache
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


@pytest.mark.parametrize(
    ("table", "rows", "word"),
    [
        ("split/scaffold/test", [[1]], "split"), ("split/scaffold/test", [[9]], "split"),
        ("raw/node-feat", [[500] * 9] * 6, "atom features"), ("raw/edge-feat", [[0, 0, 99]] * 3, "bond features"),
        ("raw/graph-label", [[0, 1]] * 3, "labels"), ("raw/edge", [[0, 7], [0, 1], [1, 2]], "edges"),
        ("raw/edge", [[0, 1], [0, 1]], "fit"), ("raw/num-node-list", [[2], [3], [2]], "nodes"),
        ("raw/num-edge-list", [[1], [2]], "fit"),
    ],
)  # fmt: skip
def test_ogb_tables_that_do_not_fit(tmp_path, cache, table, rows, word):
    folder = write_ogb(tmp_path / "data" / "ogb") / "ogbg_molhiv"
    np.savetxt(folder / f"{table}.csv.gz", np.array(rows), fmt="%d", delimiter=",")
    with pytest.raises(DataError, match=word):
        load_graphs("ogbg-molhiv")
    assert not list(cache.rglob("*.npz"))


def test_ogb_is_imported_when_needed_and_asks_the_network_nothing(tmp_path):
    """In a process that has imported both tasks."""
    (tmp_path / "load.py").write_text(
        "import sys, threading, jbpool.data\n"
        "assert 'jbpool.classification.graph_classify' in sys.modules and 'ogb' not in sys.modules\n"
        "before = threading.active_count(); from jbpool.data.sets.ogb import import_ogb; import_ogb()\n"
        "assert 'ogb' in sys.modules\n"
        "assert 'outdated' not in sys.modules, 'outdated'; assert threading.active_count() == before\n"
    )
    process = launch(tmp_path / "load.py", cwd=tmp_path)
    _, error = process.communicate(timeout=120)
    assert process.returncode == 0, error


@pytest.mark.slow
def test_the_real_molhiv(shared):
    data = load_graphs("ogbg-molhiv", root=shared)
    assert (len(data), len(data.feat), len(data.source)) == (41127, 1049163, 2259376)
    assert [len(part) for part in data.split()] == [32901, 4113, 4113]
    assert torch.cat(list(data.split())).unique().numel() == 41127


def test_the_official_evaluator():
    score = ogb.evaluator("ogbg-molhiv").eval(
        {"y_true": np.array([[0], [1], [1]]), "y_pred": np.array([[0.1], [0.9], [0.4]])}
    )
    assert score == {"rocauc": 1.0}
