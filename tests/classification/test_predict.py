"""Graphs of the user's own classified by a trained model: features, categories and classes as in training."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from commands import CLASSIFY, call, result_of, run_task, settings
from own_graphs import FEW, MANY, SMALL, sizes_of, write_graphs, write_targets

from jbpool import load_run
from jbpool.classification.class_scores import mae, mean_of, rmse
from jbpool.classification.graph_classify import GRAPH_CLASSIFY
from jbpool.classification.model import Inputs
from jbpool.classification.predict import _print_score, fitted, load_trained
from jbpool.data import DataError, load_graphs
from jbpool.engine.config import parse_change
from jbpool.engine.predict import config_for
from jbpool.errors import JBPoolError


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with the files of the training set in old, of others beside it, and the run in r."""
    cwd = tmp_path_factory.mktemp("predict")
    write_graphs(cwd / "old", nodes="x,y")
    write_graphs(cwd / "new", seed=1, head="graph")
    write_graphs(cwd / "labelled", seed=1, head="label,graph", nodes="y,x")
    changes = settings("dataset.folder=old", "model.members=2", *SMALL)
    call(CLASSIFY.command, "--cfg", "file", *changes, "--out", "r", cwd=cwd)
    for path in (cwd / "old").iterdir():
        path.unlink()                                           # a prediction reads nothing of the training set
    return cwd


def read_rows(path):
    head, *rows = (line.split(",") for line in path.read_text().splitlines())
    assert head == ["graph", "class", "p_path", "p_ring"]
    return rows


def test_new_graphs_with_and_without_labels(trained, tmp_path):
    text = call(CLASSIFY.command, "--predict", "r", *settings("dataset.folder=new"), "--out", tmp_path, cwd=trained).out
    assert "the model of seed 0, fold 0, validation" in text
    assert "acc" not in text
    rows = read_rows(tmp_path / "predictions.csv")
    assert [row[0] for row in rows] == [f"g{number}" for number in range(24)]
    for row in rows:
        assert float(row[2]) + float(row[3]) == pytest.approx(1, abs=1e-5)
        assert row[1] == ("path" if float(row[2]) > float(row[3]) else "ring")
    printed = call(CLASSIFY.command, "--predict", "r", *settings("dataset.folder=labelled"), cwd=trained).out
    again = read_rows(trained / "r" / "predicted" / "predictions.csv")
    right = np.mean([row[1] == ("ring", "path")[place % 2] for place, row in enumerate(again)])
    assert f"acc: {right:.3f}" in printed
    assert "training set" not in printed
    # The same graphs, but for the order of the columns.
    assert [row[:2] for row in again] == [row[:2] for row in rows]


def test_the_model_from_python(trained):
    model = load_run(trained / "r")
    data = load_graphs("file", folder=trained / "new")
    batch = data.batch(range(24))
    found = model(batch.graph, batch.feat, edge_feat=batch.edge_feat)
    assert (found.shape, model.classes, model.training) == ((24, 2), ["path", "ring"], False)
    torch.testing.assert_close(model(batch.graph, batch.feat.double(), edge_feat=batch.edge_feat.double()), found)
    torch.nn.Sequential(model).train()                                  # part of a network that is trained
    torch.testing.assert_close(model(batch.graph, batch.feat, edge_feat=batch.edge_feat), found)
    # One by one, and against the network itself.
    single = [data.batch([graph]) for graph in range(24)]
    alone = torch.cat([model(one.graph, one.feat, edge_feat=one.edge_feat) for one in single])
    torch.testing.assert_close(found, alone)
    summed = data.with_edge_sums().batch(range(24))
    torch.testing.assert_close(found, model.net(summed.graph, summed.feat, None, summed.edge_sum)[0].softmax(2).mean(0))
    for inputs, word in [
        ((batch.graph, batch.feat), "edge_feat"),
        ((batch.graph, batch.feat[:, :1], None, batch.edge_feat), "columns"),
        ((batch.graph, batch.feat, None, batch.edge_feat.repeat(1, 2)), "edge_feat: 2 columns"),
        ((batch.graph, batch.feat, torch.ones(batch.graph.num_edges), batch.edge_feat), "edge weights"),
    ]:
        with pytest.raises(JBPoolError, match=word):
            model(*inputs)
    with pytest.raises(JBPoolError, match="data is list: give what load_graphs returns"):
        model.predict([batch.graph])
    with pytest.raises(JBPoolError, match="batch_size"):
        model.predict(data, batch_size=0)


def test_a_dataset_from_python(trained, tmp_path):
    """Columns by name, as --predict has it."""
    call(CLASSIFY.command, "--predict", "r", *settings("dataset.folder=labelled"), "--out", tmp_path, cwd=trained)
    written = [[float(number) for number in row[2:]] for row in read_rows(tmp_path / "predictions.csv")]
    data = load_graphs("file", folder=trained / "labelled")
    assert list(data.feat_names) == ["y", "x"]                          # in training: x, y
    found = load_run(trained / "r").predict(data, batch_size=7)
    torch.testing.assert_close(found, torch.tensor(written), rtol=1e-4, atol=1e-6)


def test_test_scores_are_those_of_the_run(tmp_path):
    """The stored model gives the scores in predictions.npz."""
    config = CLASSIFY.config("model.compare=[]")
    data = GRAPH_CLASSIFY.load_data(config)
    run_task(CLASSIFY, config, tmp_path / "r", folds=[0])
    model = load_trained(tmp_path / "r")
    with np.load(tmp_path / "r" / "predictions.npz") as stored:
        batch = data.batch(stored["graph"])
        torch.testing.assert_close(model(batch.graph, batch.feat), torch.from_numpy(stored["scores"]).softmax(1))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"nodes": "x,y,z"}, "node feature 'z'"),
        ({"edges": ""}, "edge features"),
        ({"edges": "bond,weight"}, "edge weights"),
        ({"names": ("ring", "line")}, "class 'line'"),
    ],
)
def test_other_graphs_are_refused(trained, tmp_path, options, words):
    write_graphs(tmp_path / "other", **options)
    changes = settings(f"dataset.folder={tmp_path / 'other'}")
    refused = call(CLASSIFY.command, "--predict", "r", *changes, "--out", tmp_path / "p", cwd=trained, check=False)
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert words in refused.err
    assert not (tmp_path / "p").exists()


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--predict", "r/model.pt"], "did you mean its folder, r?"),
        (["--predict", "r", "--set", "dataset.root=."], "give new data"),
        (["--predict", "r", "--folds", "0"], "--folds has no effect"),
        (["--predict", "r", "--set", "dataset.name=motifs"], "node features: 6 columns"),
    ],
)
def test_what_predict_refuses(trained, tmp_path, args, words):
    refused = call(CLASSIFY.command, *args, "--out", tmp_path / "p", cwd=trained, check=False)
    assert refused.code == 2
    assert words in refused.err
    assert not (tmp_path / "p").exists()


@pytest.mark.parametrize("name", ["motifs", "MUTAG"])
def test_own_files_after_training_on_a_published_set(tmp_path, name):
    (tmp_path / "model.pt").touch()
    (tmp_path / "config.yaml").write_text(f"task: graph_classify\ndataset: {{name: {name}}}\n")
    config = config_for(GRAPH_CLASSIFY, tmp_path, [parse_change("dataset.folder=new")])
    assert (config.dataset.name, config.dataset.options) == ("file", {"folder": "new"})


def test_an_existing_file_is_kept(trained, tmp_path):
    (tmp_path / "predictions.csv").write_text("mine")
    changes = settings("dataset.folder=new")
    refused = call(CLASSIFY.command, "--predict", "r", *changes, "--out", tmp_path, cwd=trained, check=False)
    assert "already exists: choose another --out" in refused.err
    assert (tmp_path / "predictions.csv").read_text() == "mine"


def test_the_training_set_itself_is_mentioned(trained, tmp_path):
    write_graphs(tmp_path / "old")
    changes = settings(f"dataset.folder={tmp_path / 'old'}")
    printed = call(CLASSIFY.command, "--predict", "r", *changes, "--out", tmp_path / "p", cwd=trained).out
    assert "old has the name of the training set: if it is the same, the score includes training graphs" in printed


def write_tu(folder, nodes=None):
    """Two graphs in the TU format: a path of three nodes, and a star of ``len(nodes) - 3``."""
    folder.mkdir()
    nodes = nodes or [0] * 7
    edges = [(1, 2), (2, 3), *((4, other) for other in range(5, len(nodes) + 1))]
    parts = {
        "A": "".join(f"{a}, {b}\n" for a, b in edges),
        "graph_indicator": "1\n" * 3 + "2\n" * (len(nodes) - 3),
        "graph_labels": "1\n-1\n",
    }
    if any(nodes):
        parts["node_labels"] = "".join(f"{label}\n" for label in nodes)
    for part, text in parts.items():
        (folder / f"T_{part}.txt").write_text(text)
    return load_graphs("file", folder=folder)


def test_node_labels_have_the_columns_of_training(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    inputs = Inputs.of(write_tu(tmp_path / "old", [5, 7, 9, 5, 7, 9, 5]))
    data = fitted(write_tu(tmp_path / "new", [9, 5, 9, 5, 5, 5]), inputs)
    assert data.feat.argmax(1).tolist() == [2, 0, 2, 0, 0, 0]          # 7 does not occur
    assert data.feat.sum(1).tolist() == [1] * 6
    with pytest.raises(DataError, match="node label 1: 8"):
        fitted(write_tu(tmp_path / "other", [9, 5, 8, 5]), inputs)
    without = write_tu(tmp_path / "none")
    with pytest.raises(DataError, match="with node features"):
        fitted(without, inputs)
    with pytest.raises(DataError, match="without node features"):
        fitted(data, Inputs.of(without))
    both = replace(data, feat_names=["charge", "node label", "degree from home"])      # names that a user chose
    with pytest.raises(DataError, match="'node label'"):
        fitted(replace(both, feat=both.feat[:, :1], feat_names=["charge"]), Inputs.of(both))


def test_degrees_above_those_of_training_count_as_the_largest(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    small, large = write_tu(tmp_path / "small"), write_tu(tmp_path / "large", [0] * 20)
    assert (small.feat.shape[1], large.feat.shape[1]) == (3, 5)
    found = fitted(large, Inputs.of(small)).feat
    assert found.shape[1] == 3
    assert found[3].tolist() == [0, 0, 1]                               # the centre of the star
    assert fitted(small, Inputs.of(large)).feat.shape[1] == 5


def test_classes_are_matched_by_value_if_not_by_name():
    data = replace(load_graphs("motifs", num_graphs=6), label=torch.tensor([0, 1, -1, 1, 0, 1]))
    inputs = Inputs.of(replace(data, num_classes=3, class_names=["0.5", "1.0", "2.0"]))
    assert fitted(replace(data, class_names=["1", "2"]), inputs).label.tolist() == [1, 2, -1, 2, 1, 2]
    with pytest.raises(DataError, match="class '3'"):
        fitted(replace(data, class_names=["1", "3"]), inputs)
    twice = Inputs.of(replace(data, num_classes=2, class_names=["01", "001"]))
    with pytest.raises(DataError, match="class '1'"):
        fitted(replace(data, class_names=["1", "01"]), twice)


def with_categories(data, metric="rocauc"):
    rng = torch.Generator().manual_seed(0)
    return replace(
        data, feat=torch.randint(3, (len(data.feat), 2), generator=rng), feat_names=None, metric=metric,
        edge_feat=torch.randint(2, (len(data.source), 1), generator=rng), class_names=None, num_classes=1,
        label=torch.randint(2, (len(data), 1), generator=rng).float(),
    )  # fmt: skip


def test_categories_unseen_in_training():
    data = with_categories(load_graphs("motifs", num_graphs=6))
    inputs = Inputs.of(data.with_edge_sums())
    assert (inputs.categories, inputs.edge_categories, inputs.edge_feats) == ([3, 3], [2], 2)
    fewer = replace(data, edge_feat=torch.zeros_like(data.edge_feat))
    assert fitted(fewer, inputs).edge_sum.shape[1] == 2
    with pytest.raises(DataError, match="edge features: category 2"):
        fitted(replace(data, edge_feat=data.edge_feat + 1), inputs)


@pytest.mark.parametrize("edges", ["sum", "messages"])
def test_a_model_of_tasks(edges, tmp_path, capsys):
    """Probabilities of each task, categories of nodes and edges, and a missing label."""
    config = CLASSIFY.config("model.compare=[]", "model.backbone=gin", f"model.edges={edges}")
    data = with_categories(load_graphs("motifs", num_graphs=60))
    split = load_graphs("motifs", num_graphs=60).split(0, 2)
    for part in split:
        data.label[part, 0] = torch.arange(len(part)) % 2.0             # ROC-AUC needs both
    data = replace(data, official_split=split, name="ogbg-molhiv")
    run_task(CLASSIFY, config, tmp_path / "r", data.with_edge_sums(keep=edges == "messages"))
    model = load_run(tmp_path / "r")
    batch = data.batch(range(60))
    found = model(batch.graph, batch.feat, edge_feat=batch.edge_feat)
    read = model.scores(fitted(data, model.inputs, edges == "messages"), 16)
    torch.testing.assert_close(model.probabilities(read), found)
    assert not torch.allclose(model(batch.graph, batch.feat, edge_feat=1 - batch.edge_feat), found)
    assert bool(((found > 0) & (found < 1)).all())
    label = data.label.clone()
    label[3] = float("nan")
    _print_score(model, replace(data, label=label), found)
    assert "rocauc of the 59 labelled graphs" in capsys.readouterr().out


# ---------------------------------------------------------------- edges


@pytest.fixture(scope="module")
def with_edges(tmp_path_factory):
    """A run on graphs with weighted edges and two edge features of different scale."""
    cwd = tmp_path_factory.mktemp("edges")
    write_graphs(cwd / "old", edges="bond,length,weight")
    changes = settings("dataset.folder=old", "model.edges=messages", *SMALL)
    call(CLASSIFY.command, "--cfg", "file", *changes, "--out", "r", cwd=cwd)
    return cwd


def changed_edges(cwd, name, change):
    """A copy of the folder old with other rows in edges.csv."""
    shutil.copytree(cwd / "old", cwd / name)
    rows = [line.split(",") for line in (cwd / "old" / "edges.csv").read_text().splitlines()]
    (cwd / name / "edges.csv").write_text("".join(",".join(change(row)) + "\n" for row in rows))


def test_edge_features_are_found_by_their_names(with_edges, tmp_path):
    changed_edges(with_edges, "swapped", lambda row: [*row[:3], row[4], row[3], row[5]])
    found = []
    for name in ("old", "swapped"):
        out = tmp_path / name
        call(CLASSIFY.command, "--predict", "r", *settings(f"dataset.folder={name}"), "--out", out, cwd=with_edges)
        found.append((out / "predictions.csv").read_text())
    assert found[0] == found[1]


def test_graphs_without_the_weights_of_training_are_refused(with_edges, tmp_path):
    changed_edges(with_edges, "bare", lambda row: row[:5])
    arguments = ["--predict", "r", *settings("dataset.folder=bare"), "--out", tmp_path]
    outcome = call(CLASSIFY.command, *arguments, cwd=with_edges, check=False)
    assert (outcome.code, "with edge weights" in outcome.err) == (2, True), outcome.err


def in_other_units(row):
    return [*row, "constant"] if row[0] == "graph" else [*row[:4], f"{float(row[4]) / 1000:.5f}", "0.1"]


@pytest.mark.parametrize("edges", ["sum", "messages"])
def test_the_unit_of_an_edge_feature_does_not_matter(edges, tmp_path):
    """The same graphs with lengths in another unit; another feature is constant, which is ignored."""
    write_graphs(tmp_path / "old", edges="bond,length")
    changed_edges(tmp_path, "one", lambda row: [*row, "0.1" if row[0] != "graph" else "constant"])
    changed_edges(tmp_path, "other", in_other_units)
    found = []
    for name in ("one", "other"):
        changes = settings(f"dataset.folder={name}", f"model.edges={edges}", *SMALL)
        call(CLASSIFY.command, "--cfg", "file", *changes, "--out", f"run-{name}", cwd=tmp_path)
        data = load_graphs("file", folder=tmp_path / name)
        batch = data.batch(range(len(data)))
        found.append(load_run(tmp_path / f"run-{name}")(batch.graph, batch.feat, edge_feat=batch.edge_feat))
    torch.testing.assert_close(*found, rtol=1e-3, atol=1e-3)
    assert found[0].std(0).min() > 0


# ---------------------------------------------------------------- regression


def test_several_targets_of_ones_own_graphs(tmp_path):
    """Trained, and applied to graphs with the columns in another order, with unknown numbers, and without any."""
    sizes = sizes_of(write_targets(tmp_path / "plain", MANY))
    both = [f"{size},{1000 * value:.1f}" for size, value in zip(sizes, np.linspace(0, 1, 24), strict=True)]
    both[4] = both[4].split(",")[0] + ","                                       # unknown
    head = "graph,size,other,split"
    write_targets(tmp_path / "own", both, head)
    changes = settings("dataset.graphs=null", "dataset.folder=own", "dataset.targets=[size, other]", *SMALL)
    call(CLASSIFY.command, "--cfg", "file", *changes, "--out", "r", cwd=tmp_path)
    model = load_run(tmp_path / "r")
    assert (model.classes, result_of(tmp_path / "r")["runs"][0]["metric"]) == (["size", "other"], "rmse")

    turned = [f"{other},{size}" for size, other in (text.split(",") for text in both)]
    write_targets(tmp_path / "turned", turned, "graph,other,size,split")
    text = call(CLASSIFY.command, "--predict", "r", *settings("dataset.folder=turned"), "--out", "p", cwd=tmp_path).out
    header, *rows = (line.split(",") for line in (tmp_path / "p" / "predictions.csv").read_text().splitlines())
    assert header == ["graph", "value_size", "value_other"]
    found = torch.tensor([[float(number) for number in row[1:]] for row in rows]).double()
    label = load_graphs("file", folder=tmp_path / "own", targets=["size", "other"]).label
    shown = float(text.split("rmse: ")[1].split(",")[0])
    assert shown == pytest.approx(mean_of(rmse(found, label)), rel=1e-3)
    assert f"mae: {mean_of(mae(found, label)):.3g}"[:-1] in text
    data = load_graphs("file", folder=tmp_path / "own", targets=["size", "other"])
    torch.testing.assert_close(model.predict(data), found, rtol=1e-4, atol=1e-4)

    write_graphs(tmp_path / "new", head="graph")
    text = call(CLASSIFY.command, "--predict", "r", *settings("dataset.folder=new"), "--out", "q", cwd=tmp_path).out
    assert "rmse" not in text
    assert (tmp_path / "q" / "predictions.csv").read_text() == (tmp_path / "p" / "predictions.csv").read_text()
    write_targets(tmp_path / "one", FEW)
    with pytest.raises(DataError, match="1 targets"):
        model.predict(load_graphs("file", folder=tmp_path / "one", task="regression"))
