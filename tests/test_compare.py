"""``jbpool compare`` on the runs of both tasks, and on clusters made up for it."""

import itertools
import json
import re
import shutil

import numpy as np
import pytest
import torch
from commands import CLASSIFY, CLUSTER, run_task

from jbpool import cli
from jbpool.compare import names_of


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for name, change in (("a", "train.lr=5e-3"), ("b", "train.lr=1e-2")):
        run_task(CLUSTER, CLUSTER.config("train.epochs=20", "dataset.num_nodes=120", change), folder / name)
    config = CLASSIFY.config("train.epochs=1", "model.compare=[]", "dataset.num_graphs=18")
    for name in ("c", "d"):
        run_task(CLASSIFY, config, folder / name, folds=[0])
    return folder


@pytest.fixture
def compare(tmp_path, capsys):
    """A function of run folders: the page about them."""

    def page(*folders):
        out = tmp_path / "page.html"
        assert cli.main(["compare", *map(str, folders), "--out", str(out)]) == 0
        assert capsys.readouterr().out == f"open {out}\n"
        return out.read_text()

    return page


def refusal(capsys, *args):
    assert cli.main(["compare", *map(str, args)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line


def clusters(folder, cluster, confidence=None, ids=None):
    """Replace the clusters of a run."""
    count = len(cluster)
    confidence = np.linspace(0, 1, count) if confidence is None else confidence
    np.savez(
        folder / "assign.npz", ids=np.arange(count) if ids is None else ids, seeds=np.array([0]),
        cluster=np.array([cluster], dtype=np.int32), confidence=np.array([confidence], dtype=np.float32),
    )  # fmt: skip


@pytest.fixture
def pair(runs, tmp_path):
    """Copies of two clusterings, to be changed."""
    return [shutil.copytree(runs / name, tmp_path / name) for name in "ab"]


def test_two_clusterings_on_a_page(runs, compare):
    page = compare(runs / "a", runs / "b")
    for words in ("2 clusterings compared", "<td>train.lr</td><td>0.005</td><td>0.01</td>", "Agreement", "that moved"):
        assert words in page
    assert "<td>train.epochs</td>" not in page                              # the same in both
    mean = json.loads((runs / "a" / "result.json").read_text())["mean"]["nmi"]
    assert f"<td>NMI</td><td>{mean:.3f}</td>" in page


def test_classifications(runs, compare):
    page = compare(runs / "c", runs / "d")
    assert "0 of 9 test graphs (0.0 %) differ" in page                      # the same run twice
    assert "None." in page                                                  # no setting differs


def predictions(folder, scores, metric="acc", names=None, ids=None):
    """Replace the predictions of a run, its metric, the names of its classes and the ids of its graphs."""
    graphs = np.arange(len(scores))
    zeros = np.zeros(len(scores), dtype=np.int64)
    own = {"id": graphs if ids is None else np.array(ids)}
    np.savez(folder / "predictions.npz", graph=graphs, label=zeros, scores=scores, seed=zeros, fold=zeros, **own)
    result = json.loads((folder / "result.json").read_text())
    for run in result["runs"]:
        run["metric"] = metric
    (folder / "result.json").write_text(json.dumps(result))
    stored = torch.load(folder / "model.pt", weights_only=True)
    stored["inputs"]["class_names"] = names
    torch.save(stored, folder / "model.pt")


@pytest.fixture
def classified(runs, tmp_path):
    """Copies of two classifications, to be changed."""
    return [shutil.copytree(runs / name, tmp_path / name) for name in "cd"]


TWO_CLASSES = np.array([[2, 0], [0, 1], [0, 3]]), np.array([[0, 2], [0, 1], [0, 3]])        # the first graph differs


@pytest.mark.parametrize(
    ("scores", "metric", "names", "shown"),
    [
        (TWO_CLASSES, "acc", ["toxic", "<b>"], ["toxic", "&lt;b&gt;"]),
        (TWO_CLASSES, "acc", None, ["class 0", "class 1"]),
        ([table[:, 1:] - table[:, :1] for table in TWO_CLASSES], "rocauc", None, ["negative", "positive"]),
    ],
    ids=["known", "unknown", "binary"],
)
def test_classes_have_their_names(scores, metric, names, shown, classified, compare):
    for folder, table in zip(classified, scores, strict=True):
        predictions(folder, table.astype(np.float32), metric, names)
    page = compare(*classified)
    assert f"<td>0 (seed 0, fold 0)</td><td>{shown[0]}</td><td>{shown[1]}</td>" in page
    for name in shown:
        assert f">{name}</text>" in page


def test_graphs_are_matched_by_id_and_classes_by_name(classified, compare):
    """The second run has graphs and classes in reverse order, and another prediction for g3."""
    first, second = np.array([[3, 0], [3, 0], [0, 3]], np.float32), np.array([[0, 3]] * 3, np.float32)
    predictions(classified[0], first, names=["no", "yes"], ids=["g1", "g2", "g3"])
    predictions(classified[1], second, names=["yes", "no"], ids=["g3", "g2", "g1"])
    page = compare(*classified)
    assert "1 of 3 test graphs (33.3 %) differ" in page
    assert "<td>g3 (seed 0, fold 0)</td><td>yes</td><td>no</td>" in page
    assert ">0.67<" in page                                                 # the share of equal predictions


@pytest.mark.parametrize(("columns", "metric"), [(3, "rocauc"), (1, "rmse")])
def test_predictions_that_are_no_classes(columns, metric, classified, compare):
    for folder in classified:
        predictions(folder, np.ones((3, columns), dtype=np.float32), metric)
    page = compare(*classified)
    assert "are not compared graph by graph" in page
    assert "another prediction" not in page
    assert "Agreement" not in page


def test_renamed_clusters_have_not_moved(pair, compare):
    cluster = np.arange(12) % 3
    other = (cluster + 1) % 3
    other[4], other[5] = 0, 1                                               # two nodes that move
    clusters(pair[0], cluster)
    clusters(pair[1], other)
    page = compare(*pair)
    assert "2 of 12 nodes (16.7 %) moved, after matching the clusters one to one" in page
    assert "<td>5</td><td>2</td><td>0</td>" in page                         # node 5: 2 here, 1 there, which is 0 here
    assert page.index("<td>5</td><td>2</td>") < page.index("<td>4</td><td>1</td>")      # the surest first


@pytest.mark.parametrize("merged", [False, True])
def test_a_cluster_that_was_split_or_merged_is_one_line(pair, merged, compare):
    coarse, fine = np.repeat([0, 1], 6), np.repeat([0, 1, 2, 3], 3)
    fine[0] = 2                                                             # the only node that moves
    for folder, found in zip(pair, (fine, coarse) if merged else (coarse, fine), strict=True):
        clusters(folder, found)
    page = compare(*pair)
    assert "1 of 12 nodes (8.3 %) moved, after matching the clusters one to one" in page
    assert "Clusters that merged or were split" in page
    line = ("0", "1", "2", "100 %", "33 %") if merged else ("0", "2", "2", "33 %", "100 %")
    assert "".join(f"<td>{cell}</td>" for cell in line) in page             # two nodes left of one of three


def test_a_cluster_that_merged_beside_one_that_was_split(pair, compare):
    """As many clusters as before: 0 and 1 are one now, 2 is two. Nothing else has moved."""
    clusters(pair[0], np.repeat([0, 1, 2], [10, 6, 8]))
    clusters(pair[1], np.repeat([0, 1, 2], [16, 5, 3]))
    page = compare(*pair)
    assert "0 of 24 nodes (0.0 %) moved" in page
    assert "<td>1</td><td>0</td><td>6</td><td>100 %</td><td>38 %</td>" in page
    assert "<td>2</td><td>3</td><td>3</td><td>38 %</td><td>100 %</td>" in page


def test_the_order_of_the_runs_does_not_matter(runs, pair, compare):
    pages = []
    for order in itertools.permutations([*pair, runs / "a"]):
        pages.append(compare(*order))
    assert len(set(pages)) == 1


def test_nodes_are_matched_by_id(pair, compare):
    hostile = "</script><img src=x onerror=alert(1)>"
    clusters(pair[0], np.array([0, 0, 1, 1]), ids=np.array(["a", "b", "c", hostile]))
    clusters(pair[1], np.array([1, 1, 0, 0, 1]), ids=np.array(["d", hostile, "b", "a", "c"]))
    page = compare(*pair)
    assert "0 of 4 nodes (0.0 %) moved" in page
    assert "1 nodes are only in one of the runs" in page
    assert "<img" not in page


def test_nothing_in_common(pair, compare):
    clusters(pair[0], np.array([0, 1]), ids=np.array(["a", "b"]))
    clusters(pair[1], np.array([0, 1]), ids=np.array(["c", "d"]))
    page = compare(*pair)
    assert "no node or graph in common" in page
    assert ">0.00<" not in page                                             # their agreement is not defined


def test_names_tell_runs_apart(tmp_path):
    folders = [tmp_path / "x" / "run", tmp_path / "y" / "run", tmp_path / "y" / "other"]
    assert names_of(folders) == ["x/run", "y/run", "y/other"]
    assert names_of([tmp_path, tmp_path])[1].endswith("(2)")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("a", "c"), "cannot be compared: give runs of one task"),
        (("a", "missing"), "missing: no such run folder"),
        (("a", "."), "no result.json; a run folder is what --out"),
    ],
)
def test_runs_that_cannot_be_compared(given, message, runs, capsys):
    assert message in refusal(capsys, *(runs / name for name in given))


def test_a_page_that_cannot_be_written_and_ctrl_c(pair, tmp_path, capsys, monkeypatch):
    (tmp_path / "file").touch()
    assert cli.main(["compare", *map(str, pair), "--out", str(tmp_path / "file" / "page.html")]) == 1
    assert re.search(r"page.html cannot be written .* with --out\.$", capsys.readouterr().err)

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("jbpool.compare.read_run", interrupted)
    assert cli.main(["compare", *map(str, pair)]) == 130
    assert capsys.readouterr().err == "\ninterrupted.\n"


@pytest.mark.parametrize("name", ["assign.npz", "result.json"])
@pytest.mark.parametrize("content", [b"", b"{}", b"[", b"[" * 100_000, b"\xff"])
def test_a_damaged_file_is_named(name, content, pair, capsys):
    (pair[1] / name).write_bytes(content)
    assert str(pair[1] / name) in refusal(capsys, *pair)


def test_files_of_different_runs(pair, capsys):
    clusters(pair[0], np.array([0, 1, 1]), ids=np.array(["a", "b"]))
    assert f"{pair[0]} is damaged" in refusal(capsys, *pair)


def test_nodes_without_a_cluster_are_left_out(pair, compare):
    clusters(pair[0], [0, 0, 1, 1, -1])
    clusters(pair[1], [1, 1, 0, -1, 0])
    assert "0 of 3 nodes (0.0 %) moved" in compare(*pair)
