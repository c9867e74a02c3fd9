"""Node clustering: every method and backbone, restarts, early stopping, collapse, objectives."""

import json
from dataclasses import replace
from functools import partial
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from commands import CLUSTER, call, result_of, run_task, settings
from sklearn.cluster import KMeans
from sklearn.metrics import normalized_mutual_info_score
from zoo import random_graph, undirected

from jbpool.clustering.auto.number import given as given_number
from jbpool.clustering.baselines import BASELINES
from jbpool.clustering.config import METHODS, NETWORKS
from jbpool.clustering.embed import spectral
from jbpool.clustering.job import collapse_warning
from jbpool.clustering.network import ClusterNet, ClusterProblem, make_model
from jbpool.clustering.node_cluster import NODE_CLUSTER
from jbpool.clustering.run import load_data
from jbpool.clustering.scores import label_scores
from jbpool.data import NodeData, load_nodes
from jbpool.engine.config import load_config
from jbpool.engine.fit import fit
from jbpool.errors import ConfigError, TrainingError
from jbpool.nn.pools import POOLS, CombinedPool, make_pool

SMALL = CLUSTER.changes
run = partial(run_task, CLUSTER)


def test_the_embedded_default(tmp_path):
    call(CLUSTER.command, "--seeds", "0,2", cwd=tmp_path)
    (folder,) = (tmp_path / "runs" / "node_cluster").iterdir()
    result = result_of(folder)
    assert result["mean"]["nmi"] > 0.9
    keys = {"seed", "acc", "nmi", "ari", "modularity", "loss", "used_clusters", "seconds", "seconds_per_step"}
    assert all(keys <= set(run) for run in result["runs"])
    assert [run["seed"] for run in result["runs"]] == [0, 2]
    with np.load(folder / "assign.npz", allow_pickle=False) as stored:
        assert stored["cluster"].shape == (2, 1000)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_beats_chance(method, tmp_path, monkeypatch):
    monkeypatch.setattr("jbpool.clustering.embed.autoencoder.EPOCHS", 60)
    walks = {"deepwalk", "node2vec"}
    changes = [*SMALL, f"method.name={method}", f"dataset.num_nodes={150 if method in walks else 300}"]
    config = load_config(NODE_CLUSTER, None, changes)
    out = run(config, tmp_path / "run")
    assert out.runs[0]["nmi"] > (0.1 if method == "diffpool" else 0.3)
    assert out.method == method


def test_a_given_number_is_said_with_its_agreement(tmp_path, monkeypatch, capsys):
    noise = given_number(3, {3: torch.tensor([-0.004, 0.0])})
    monkeypatch.setattr("jbpool.clustering.run.choose", lambda *args: noise)
    changes = ["dataset.num_nodes=300", "method.name=auto", "method.num_clusters=3", "train.restarts=1"]
    run(load_config(NODE_CLUSTER, None, changes), tmp_path / "run")
    shown = capsys.readouterr().out
    assert "number of clusters: 3, as given; agreement of two random halves of the data: 0.00 (0: chance" in shown
    assert "only 0.00 (0: chance" in shown


@pytest.mark.parametrize("backbone", NETWORKS)
def test_every_backbone_trains(backbone, tmp_path):
    changes = [*SMALL, f"model.backbone={backbone}", "model.layers=2", "model.hidden=16"]
    changes += ["train.epochs=20", "train.eval_every=5"]
    out = run(load_config(NODE_CLUSTER, None, changes), tmp_path / "run")
    assert [row["epoch"] for row in out.history] == [5, 10, 15, 20]
    assert out.history[-1]["loss"] < out.history[0]["loss"]
    assert out.runs[0]["epochs"] == 20


def test_restarts_keep_the_lowest_loss_without_a_look_at_labels(tmp_path, monkeypatch):
    losses = {}
    real = ClusterProblem.finish

    def spy(self):
        found = real(self)
        losses[len(losses)] = found[0]
        return found

    monkeypatch.setattr(ClusterProblem, "finish", spy)
    config = load_config(NODE_CLUSTER, None, [*SMALL, "train.restarts=4", "train.epochs=40"])
    out = run(config, tmp_path / "r")
    assert len(losses) == 4
    assert out.runs[0]["loss"] == min(losses.values())
    assert out.runs[0]["restart"] == min(losses, key=losses.get)
    stored = torch.load(tmp_path / "r" / "model.pt", weights_only=True)
    model = make_model(config, stored["in_feats"], stored["num_clusters"])
    model.load_state_dict(stored["state"])
    data = load_nodes("sbm", **config.dataset.options)
    _, again = model.eval()(data.graph, model.prepare(data.graph, data.feat), None)
    assert again["balance"].item() == pytest.approx(out.runs[0]["loss"], abs=1e-5)


def test_a_run_that_dies_after_its_last_epoch_keeps_its_history(tmp_path, monkeypatch):
    monkeypatch.setattr("jbpool.engine.fit.CHECKPOINT_SECONDS", 0)
    config = load_config(NODE_CLUSTER, None, SMALL)
    whole = run(config, tmp_path / "whole")
    with monkeypatch.context() as patch:
        patch.setattr("jbpool.clustering.job.Job.save_clusters", lambda job: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run(config, tmp_path / "broken")
    assert run(config, tmp_path / "broken", resume=True).history == whole.history


@pytest.mark.parametrize("pool", POOLS)
def test_a_loss_that_is_no_number_stops_before_the_step(pool):
    graph = random_graph(20, 60)
    feat = torch.rand(20, 4)
    feat[3, 1] = float("nan")
    model = ClusterNet(4, lambda width: make_pool(pool, width, 2), layers=1, hidden=8)
    before = [parameter.clone() for parameter in model.parameters()]
    with pytest.raises(TrainingError, match=r"epoch 1.*NaN"):
        fit(ClusterProblem(model, graph, feat, None, lambda assign: {}), load_config(NODE_CLUSTER).train)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


def test_patience_stops_early(tmp_path):
    """Also at the usual learning rate: a loss that decreases ever more slowly counts as converged."""
    changes = [*SMALL, "train.epochs=5000", "train.patience=20"]
    out = run(load_config(NODE_CLUSTER, None, changes), tmp_path / "r")
    assert out.runs[0]["epochs"] < 2500
    assert out.runs[0]["nmi"] > 0.9


@pytest.mark.parametrize(
    ("balance", "used", "words"),
    [
        (-0.9, 4, None),
        (None, 4, None),
        (None, 3, "empty clusters: 1 of 4."),
        (None, 1, "one cluster contains all nodes; train longer"),
        (-0.25, 3, "uniform"),
        (-0.5, 3, "one cluster"),
        (-0.9, 2, "only 2 of 4 clusters are used; train longer, or fewer clusters."),
    ],
)
def test_a_collapse_is_reported(balance, used, words):
    warning = collapse_warning(used, 4, "train longer", balance)
    assert warning is None if words is None else words in warning


def test_a_few_empty_clusters_are_mentioned_briefly():
    assert collapse_warning(30, 40, "train longer") == "empty clusters: 10 of 40."
    assert "collapse: only 20 of 40 clusters are used; train longer" in collapse_warning(20, 40, "train longer")


def test_a_seed_gives_the_same_clusters_whatever_seeds_ran_before(tmp_path):
    """Also on fixed features, which the first seed computes for all."""
    changes = [*SMALL, "model.backbone=whitened", "model.mlp=[]", "method.head=cosine", "train.epochs=3"]
    both = run(load_config(NODE_CLUSTER, None, [*changes, "train.seeds=[0,1]"]), tmp_path / "both")
    alone = run(load_config(NODE_CLUSTER, None, [*changes, "train.seeds=[1]"]), tmp_path / "alone")
    assert both.runs[1]["loss"] == alone.runs[0]["loss"]


def test_baselines_are_compared_with_the_result(tmp_path):
    """Scores and agreement by scikit-learn; Leiden only where igraph is installed."""
    call(CLUSTER.command, *CLUSTER.arguments("train.seeds=[3]"), "--baselines", "--out", "r", cwd=tmp_path)
    result, data = result_of(tmp_path / "r"), CLUSTER.task.load_data(CLUSTER.config())
    with np.load(tmp_path / "r" / "assign.npz") as stored:
        (cluster,) = stored["cluster"]
    points = spectral.kmeans(data, 4, 3)
    expected = KMeans(4, n_init=10, random_state=3).fit_predict(points)
    found = result["baselines"]["k-means"]
    assert found["nmi"] == pytest.approx(normalized_mutual_info_score(data.label, expected))
    assert found["agreement"] == pytest.approx(normalized_mutual_info_score(cluster, expected))
    assert {"spectral", "k-means"} <= set(result["baselines"])
    has_igraph = find_spec("igraph") is not None
    assert ("leiden" in result["baselines"]) == has_igraph == (not any("igraph" in note for note in result["notes"]))
    assert "Beside other methods" in (tmp_path / "r" / "report.html").read_text()
    call(CLUSTER.command, "--resume", "--out", "r", cwd=tmp_path)
    assert result_of(tmp_path / "r")["baselines"] == result["baselines"]
    call(CLUSTER.command, "--resume", "--out", "r", "--seeds", "3,4", cwd=tmp_path)     # another result
    assert "baselines" not in result_of(tmp_path / "r")


def test_leiden(tmp_path):
    """Two cliques that one edge joins; weights decide where the edges do not."""
    pytest.importorskip("igraph")
    rows = [(i, j) for i in range(6) for j in range(i)]
    pairs = torch.tensor(rows + [(i + 6, j + 6) for i, j in rows] + [(0, 6)]).T
    data = NodeData(undirected(*pairs), None, None, None, "cliques")
    assert BASELINES["leiden"](data, 5, 0).tolist() == [0] * 6 + [1] * 6
    ring = undirected(torch.arange(8), torch.arange(8).roll(1))
    heavy = torch.where(ring.edge_index.sum(0) % 4 == 1, 9.0, 1.0)              # the edges 0-1, 2-3, 4-5, 6-7
    found = BASELINES["leiden"](NodeData(ring, None, None, None, "ring", edge_weight=heavy), 4, 0).tolist()
    assert found == [0, 0, 1, 1, 2, 2, 3, 3]


def test_a_baseline_that_fails_is_left_out(tmp_path, monkeypatch):
    def failing(data, num_clusters, seed):
        raise TrainingError("no convergence.")

    monkeypatch.setitem(BASELINES, "spectral", failing)
    out = run(load_config(NODE_CLUSTER, None, SMALL), tmp_path / "r", baselines=True)
    assert "spectral" not in out.result["baselines"]
    assert "--baselines: spectral is left out. no convergence." in out.notes


def test_objectives_combine(tmp_path):
    config = load_config(NODE_CLUSTER, None, [*SMALL, "method.objective={cut: 1, balance: 0.5, modularity: 2}"])
    out = run(config, tmp_path / "r")
    last = out.history[-1]
    assert last["loss"] == pytest.approx(last["cut_loss"] + last["balance_loss"] + last["modularity_loss"], abs=1e-5)
    graph, feat = random_graph(30, 60), torch.rand(30, 4)
    pool = CombinedPool(4, 3, objective={"cut": 2.0, "balance": 1.0, "entropy": 0.5})
    _, losses = pool.cluster(graph, feat)
    parts = {}
    for single in (make_pool("jb", 4, 3), make_pool("mincut", 4, 3), make_pool("diffpool", 4, 3)):
        single.load_state_dict(pool.state_dict())
        single.smooth_scores = False
        parts |= single.cluster(graph, feat)[1]
    assert torch.allclose(losses["cut"], 2 * parts["cut"])
    assert torch.allclose(losses["entropy"], 0.5 * parts["entropy"])
    assert torch.allclose(losses["balance"], parts["balance"])
    for name, own in (("diffpool", {"link": 1.0, "entropy": 1.0}), ("mincut", {"cut": 1.0, "ortho": 1.0})):
        plain, same = make_pool(name, 4, 3), make_pool(name, 4, 3, objective=own)
        same.load_state_dict(plain.state_dict())
        torch.testing.assert_close(same.cluster(graph, feat), plain.cluster(graph, feat))
    for wrong in ({}, {"cutt": 1.0}, {"cut": float("nan")}):
        with pytest.raises(ValueError, match="objective"):
            CombinedPool(4, 3, objective=wrong)


def test_the_pools_have_the_same_capacity():
    counts = set()
    for name in POOLS:
        model = make_model(load_config(NODE_CLUSTER, "cora", [f"method.name={name}"]), 1433, 7)
        counts.add(sum(parameter.numel() for parameter in model.parameters()))
    assert len(counts) == 1


@pytest.mark.parametrize("name", ["cora", "citeseer", "pubmed", "dblp"])
def test_a_short_run_on_the_real_sets(name, shared, tmp_path):
    changes = [f"dataset.root={shared}", "train.epochs=4", "train.seeds=[0]", "train.eval_every=2"]
    out = run(load_config(NODE_CLUSTER, name, changes), tmp_path / "r")
    assert out.history[-1]["loss"] < out.history[0]["loss"]


def test_what_auto_prints_is_explained(tmp_path):
    changes = CLUSTER.arguments("method.name=auto", "train.restarts=2")
    printed = call(CLUSTER.command, *changes, "--out", "r", cwd=tmp_path).out
    score = result_of(tmp_path / "r")["runs"][0]["score"]
    assert f"{score:.3f} bits saved per node\n" in printed
    assert f"{score:.3f}   (bits per node that the clusters save" in printed


def test_clusters_of_another_run_keep_their_numbers(tmp_path):
    """By the ids of nodes, from a run folder or a table."""
    small = settings("dataset.num_nodes=300", "method.name=auto", "method.num_clusters=4", "train.restarts=2")
    call(CLUSTER.command, *small, "--seeds", "0", "--out", "a", cwd=tmp_path)
    rows = [line.split(",") for line in (tmp_path / "a" / "assign.csv").read_text().split()[1:]]
    (tmp_path / "table.csv").write_text("id,group\n" + "".join(f"{row[0]},{int(row[1]) + 5}\n" for row in rows))
    for given, shift in (("a", 0), ("table.csv", 5)):
        call(CLUSTER.command, *small, "--seeds", "1", "--previous", given, "--out", f"of-{given}", cwd=tmp_path)
        with np.load(tmp_path / "a" / "assign.npz") as old, np.load(tmp_path / f"of-{given}" / "assign.npz") as new:
            assert (new["cluster"] == old["cluster"] + shift).mean() > 0.95
        assert result_of(tmp_path / f"of-{given}")["mean"]["used_clusters"] == 4
    (tmp_path / "fixed.csv").write_text("".join(f"{row[0]},{row[1]}\n" for row in [["node", "cluster"], *rows[:20]]))
    call(CLUSTER.command, *small, "--seeds", "2", "--fixed", "fixed.csv", "--out", "f", cwd=tmp_path)
    with np.load(tmp_path / "f" / "assign.npz") as new:
        assert new["cluster"][0, :20].tolist() == [int(row[1]) for row in rows[:20]]


@pytest.mark.parametrize("given", ["none.csv", "empty.csv", "."])
def test_a_table_of_clusters_that_cannot_be_read_is_named(given, tmp_path):
    (tmp_path / "empty.csv").touch()
    arguments = [*settings("dataset.num_nodes=300", "method.name=auto"), "--previous", given]
    outcome = call(CLUSTER.command, *arguments, cwd=tmp_path, check=False)
    assert outcome.code == 2
    (line,) = outcome.err.splitlines()
    assert ("assign.csv" if given == "." else given) in line


# ---------------------------------------------------------------- graphs in which some classes are unknown

FEW = ["dataset.num_nodes=300", "train.epochs=20", "train.seeds=[0]", "train.restarts=1"]
CPU = torch.device("cpu")


@pytest.mark.parametrize("method", ["jb", "sc"])
def test_nodes_without_a_label_are_clustered_but_not_scored(tmp_path, method):
    config = load_config(NODE_CLUSTER, None, [*FEW, f"method.name={method}"])
    data = load_data(config)
    label = data.label.clone()
    label[::3] = -1
    out = NODE_CLUSTER.run(config, replace(data, label=label), tmp_path, CPU)
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["runs"][0]["labelled"] == 200
    assert "labelled" not in result["mean"]
    assert all("labelled" not in row for row in out.history)
    cluster = torch.tensor([int(line.split(",")[1]) for line in (tmp_path / "assign.csv").read_text().split()[1:]])
    assert len(cluster) == 300
    expected = label_scores(cluster[label >= 0], label[label >= 0])
    assert {key: result["runs"][0][key] for key in expected} == pytest.approx(expected)

    page = out.write_report().read_text()
    assert "Labels are known for 200 nodes" in page
    for number, size in enumerate(label[label >= 0].bincount().tolist()):
        assert f"<title>{data.class_names[number] if data.class_names else f'class {number}'}: {size}</title>" in page


def test_a_fully_labelled_run_does_not_count_labels(tmp_path):
    config = load_config(NODE_CLUSTER, None, FEW)
    data = load_data(config)
    out = NODE_CLUSTER.run(config, data, tmp_path, CPU)
    assert "labelled" not in out.runs[0]
    assert "Labels are known" not in out.write_report().read_text()


def test_labels_that_are_all_unknown_count_as_none(tmp_path, monkeypatch):
    def unlabelled(*args, **options):
        data = load_nodes(*args, **options)
        return replace(data, label=torch.full_like(data.label, -1), num_classes=0, class_names=[])

    monkeypatch.setattr("jbpool.clustering.run.load_nodes", unlabelled)
    config = load_config(NODE_CLUSTER, None, FEW)
    data = load_data(config)
    with pytest.raises(ConfigError, match=r"has no labels: .* -k 2 \(method\.num_clusters"):
        NODE_CLUSTER.run(config, data, tmp_path, CPU)
    out = NODE_CLUSTER.run(load_config(NODE_CLUSTER, None, [*FEW, "method.num_clusters=4"]), data, tmp_path, CPU)
    assert not {"acc", "nmi", "ari", "labelled"} & set(out.runs[0])
    assert "classes in clusters" not in out.write_report().read_text()
