"""A graph from CSV files, and other graphs clustered by its trained model."""

from pathlib import Path

import numpy as np
import pytest
from commands import CLUSTER, CPU, call, result_of, settings

from jbpool import load_run
from jbpool.clustering.node_cluster import NODE_CLUSTER
from jbpool.clustering.predict import predict
from jbpool.data import load_nodes
from jbpool.engine.config import parse_change
from jbpool.engine.predict import config_for
from jbpool.errors import DataError, JBPoolError


def write_graph(folder, name, groups="xy", size=30, seed=0):
    """Two groups of people: CSV files of friendships, features and groups."""
    rng = np.random.default_rng(seed)
    lines, features, labels = ["person,friend"], ["id,a,b,c"], ["id,group"]
    for column, group in enumerate(groups):
        lines += [f"{group}{a},{group}{b}" for a in range(size) for b in rng.integers(0, size, 4) if a != b]
        for a in range(size):
            likes = np.round(rng.random(3) + 2 * np.eye(3)[column], 3)
            features.append(f"{group}{a},{','.join(map(str, likes))}")
            labels.append(f"{group}{a},{group}")
    lines += [f"{groups[0]}1,{groups[1]}1"]
    for kind, table in (("edges", lines), ("features", features), ("labels", labels)):
        (folder / f"{name}-{kind}.csv").write_text("\n".join(table) + "\n")


def read_rows(path):
    head, *rows = (line.split(",") for line in path.read_text().splitlines())
    assert head == ["node", "cluster", "confidence"]
    return rows


def test_a_csv_of_one_s_own(tmp_path):
    write_graph(tmp_path, "one")
    changes = ["dataset.edges=one-edges.csv", "dataset.header=true", "method.num_clusters=2"]
    printed = call(CLUSTER.command, "--cfg", "file", *settings(*changes), "--out", "r", cwd=tmp_path).out
    assert "60 nodes" in printed
    assert "no features, no labels" in printed
    assert f"the cluster of every node: {Path('r', 'assign.csv')}" in printed
    with np.load(tmp_path / "r" / "assign.npz", allow_pickle=False) as stored:
        ids, cluster = stored["ids"], stored["cluster"][0]
    group = np.array([name[0] for name in ids])
    assert len(set(zip(group, cluster, strict=True))) == 2                      # each group is one cluster
    result = result_of(tmp_path / "r")
    assert "nmi" not in result["mean"]
    assert result["mean"]["modularity"] > 0.4
    rows = read_rows(tmp_path / "r" / "assign.csv")
    assert [row[0] for row in rows] == ids.tolist()
    assert [int(row[1]) for row in rows] == cluster.tolist()
    refused = call(CLUSTER.command, "--predict", "r", cwd=tmp_path, check=False)        # coordinates of one graph only
    assert "has no model.pt: give a finished run" in refused.err

    with open(tmp_path / "one-edges.csv", "a") as file:
        file.write("x1,y2\n")
    again = ["--cfg", "file", *settings(*changes), "--seeds", "0,1", "--out", "r", "--resume"]
    changed = call(CLUSTER.command, *again, cwd=tmp_path, check=False)
    assert "the data have changed" in changed.err


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with the files of two graphs, and the run of the first in r."""
    cwd = tmp_path_factory.mktemp("predict")
    write_graph(cwd, "one")
    write_graph(cwd, "two", groups="uv", size=20, seed=1)
    files = ["dataset.edges=one-edges.csv", "dataset.features=one-features.csv", "dataset.labels=one-labels.csv"]
    changes = settings(*files, "dataset.header=true", "method.num_clusters=2")
    call(CLUSTER.command, "--cfg", "file", *changes, "--out", "r", cwd=cwd)
    return cwd


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


TWO = ["dataset.edges=two-edges.csv", "dataset.features=two-features.csv"]


def test_a_second_graph_by_the_same_model(trained, tmp_path):
    out, lines = tmp_path / "new", (trained / "two-edges.csv").read_text().split()[1:]
    edges = len({frozenset(line.split(",")) for line in lines})
    printed = call(CLUSTER.command, "--predict", "r", *settings(*TWO), "--out", out, cwd=trained).out
    assert str(out / "assign.csv") in printed
    assert printed.startswith(f"two-edges: 40 nodes, {edges} edges")
    assert "nmi" not in printed                                                 # no labels
    rows = read_rows(out / "assign.csv")
    assert len(rows) == 40
    assert len({(row[0][0], row[1]) for row in rows}) == 2                      # each group is one cluster
    assert all(0.5 <= float(row[2]) <= 1 for row in rows)


def test_scores_of_a_graph_with_labels(trained, tmp_path):
    labels = tmp_path / "labels.csv"
    labels.write_text((trained / "two-labels.csv").read_text().replace("u3,u\n", "u3,v\n"))
    files = ["two-edges.csv", "--features", "two-features.csv", "--labels", labels]
    printed = call(CLUSTER.command, *files, "--predict", "r", "--out", tmp_path / "new", cwd=trained).out
    assert f"acc: {39 / 40:.3f}\n" in printed                                   # all but the label that was changed
    assert "nmi: 0." in printed


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ([], "already exists"),
        (["--out", "new", "--cfg", "cora"], "--cfg has no effect"),
        (["--out", "new", "--set", "model.layers=2"], "only dataset... can be set"),
        (["--out", "new", "--set", "dataset.features=two-labels.csv"], "two-edges: feature"),
        (["--out", "new", "--set", "dataset.name=sbm"], "Did you mean"),
        (["--out", "new", "--set", "dataset.features=null"], "trained with features (dataset.features"),
    ],
)
def test_what_predict_refuses(trained, args, words):
    (trained / "r" / "predicted").mkdir(exist_ok=True)
    (trained / "r" / "predicted" / "assign.csv").touch()
    refused = call(CLUSTER.command, "--predict", "r", *settings(*TWO), *args, cwd=trained, check=False)
    assert refused.code == 2
    assert words in refused.err
    assert not (trained / "new").exists()


def test_own_files_after_training_on_a_published_set(tmp_path):
    write_graph(tmp_path, "new")
    (tmp_path / "model.pt").touch()
    (tmp_path / "config.yaml").write_text("task: node_cluster\ndataset: {name: cora}\nmethod: {num_clusters: 7}\n")
    config = config_for(NODE_CLUSTER, tmp_path, [parse_change("dataset.edges=new-edges.csv")])
    assert (config.dataset.name, config.dataset.options) == ("file", {"edges": "new-edges.csv"})


def test_a_prediction_uses_nothing_of_the_training_graph(tmp_path):
    """Also if the new graph has the same node ids as the training graph."""
    write_graph(tmp_path, "one")
    write_graph(tmp_path, "two", size=20, seed=1)
    files = ["dataset.edges=one-edges.csv", "dataset.features=one-features.csv", "dataset.labels=one-labels.csv"]
    changes = settings(*files, "dataset.header=true", "method.num_clusters=2")
    call(CLUSTER.command, "--cfg", "file", *changes, "--out", "r", cwd=tmp_path)
    for kind in ("edges", "features", "labels"):
        (tmp_path / f"one-{kind}.csv").unlink()
    for given, words in [
        ([], "give new data"),
        (["dataset.header=true"], "give new data"),
        (["dataset.edges=two-edges.csv"], "trained with features (dataset.features"),
        (["dataset.name=file", "dataset.edges=two-edges.csv"], "trained with features (dataset.features"),
        (["dataset.features=two-features.csv"], "give either edges"),
        (["dataset.name=sbm"], "feat: 128 columns"),
    ]:  # fmt: skip
        refused = call(CLUSTER.command, "--predict", "r", *settings(*given), cwd=tmp_path, check=False)
        assert refused.code == 2
        assert words in refused.err
    assert not (tmp_path / "r" / "predicted").exists()
    refused = call(CLUSTER.command, "two-edges.csv", "--predict", "r", cwd=tmp_path, check=False)
    assert "trained with features (dataset.features" in refused.err    # not: no such file
    printed = call(CLUSTER.command, "two-edges.csv", "--features", "two-features.csv", "--predict", "r", cwd=tmp_path)
    assert "nmi" not in printed.out                                             # no labels, since none were given
    rows = read_rows(tmp_path / "r" / "predicted" / "assign.csv")
    assert {row[0] for row in rows} == {f"{group}{i}" for group in "xy" for i in range(20)}


def test_another_number_of_features(trained, tmp_path, monkeypatch):
    monkeypatch.chdir(trained)
    (tmp_path / "narrow.csv").write_text("id,a,b\n" + "".join(f"{g}{i},1,{i}\n" for g in "uv" for i in range(20)))
    changes = [TWO[0], f"dataset.features={tmp_path / 'narrow.csv'}"]
    config = config_for(NODE_CLUSTER, Path("r"), [parse_change(change) for change in changes])
    with pytest.raises(DataError, match="feature 'c'"):
        predict(Path("r"), config, tmp_path / "out.csv", CPU)


def test_a_run_without_a_model(tmp_path):
    """Embedding methods have no model."""
    changes = settings(*CLUSTER.changes, "method.name=sc")
    call(CLUSTER.command, *changes, "--out", "r", cwd=tmp_path)
    refused = call(CLUSTER.command, "--predict", "r", cwd=tmp_path, check=False)
    assert (refused.code, "r has no model.pt: give a finished run" in refused.err) == (2, True)


def test_a_pool_that_was_trained_without_features(tmp_path):
    write_graph(tmp_path, "one")
    changes = ["dataset.edges=one-edges.csv", "dataset.header=true", "method.num_clusters=2"]
    pool = ["method.name=jb", "train.epochs=2", "train.restarts=1", "model.backbone=sgc"]
    call(CLUSTER.command, "--cfg", "file", *settings(*changes, *pool), "--out", "r", cwd=tmp_path)
    refused = call(CLUSTER.command, "--predict", "r", *settings(*TWO), cwd=tmp_path, check=False)
    assert (refused.code, "was trained without features" in refused.err) == (2, True)


def test_columns_of_other_names_or_order(tmp_path):
    (tmp_path / "edges.csv").write_text("".join(f"n{i},n{j}\n" for i in range(12) for j in range(i) if i % 2 == j % 2))
    rows = "".join(f"n{i},{i % 2},{1 - i % 2}\n" for i in range(12))
    turned = "".join(f"n{i},{1 - i % 2},{i % 2}\n" for i in range(12))
    for name, columns in {"f.csv": "id,one,two", "other.csv": "id,one,three", "plain.csv": ""}.items():
        (tmp_path / name).write_text(f"{columns}\n{rows}".lstrip())
    (tmp_path / "turned.csv").write_text(f"id,two,one\n{turned}")
    given = ["dataset.edges=edges.csv", "dataset.features=f.csv", "method.num_clusters=2", "method.name=jb"]
    given.append("train.epochs=2")
    call(CLUSTER.command, "--cfg", "file", *settings(*given), "--out", "r", cwd=tmp_path)

    def predicted(features):
        new = settings("dataset.edges=edges.csv", f"dataset.features={features}")
        return call(CLUSTER.command, "--predict", "r", *new, "--out", features[:-4], cwd=tmp_path, check=False)

    assert "feature 'three'" in predicted("other.csv").err
    for name in ("f", "turned", "plain"):                                           # without names: by position
        assert predicted(f"{name}.csv").code == 0
        assert (tmp_path / name / "assign.csv").read_text() == (tmp_path / "f" / "assign.csv").read_text()
    model = load_run(tmp_path / "r")
    data = load_nodes("file", edges=tmp_path / "edges.csv", features=tmp_path / "turned.csv")
    cluster, confidence = model.predict(data)
    written = [(row[0], int(row[1])) for row in read_rows(tmp_path / "f" / "assign.csv")]
    assert written == list(zip(data.ids, cluster.tolist(), strict=True))
    assert confidence.shape == (12,)
    with pytest.raises(JBPoolError, match="give what load_nodes returns"):
        model.predict(data.graph)


def test_a_run_of_the_other_task(tmp_path):
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "model.pt").touch()
    (tmp_path / "r" / "config.yaml").write_text("task: graph_classify\nmodel: {pool: jb}\n")
    outcome = call(CLUSTER.command, "--predict", "r", "--set", "dataset.edges=e.csv", cwd=tmp_path, check=False)
    assert outcome.err.endswith("task is 'graph_classify', but this is the task 'node_cluster'\n")
    assert outcome.err.count("\n") == 1
