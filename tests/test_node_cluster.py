"""The node-clustering task from outside, as a user runs it."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import dgl
import numpy as np
import pytest
import torch
from zoo import symmetric_weights

from jbpool.clustering import ClusterProblem, collapse_warning
from jbpool.config import load_config
from jbpool.data import load_nodes
from jbpool.models import ClusterNet
from jbpool.node_cluster import METHODS, make_model, run
from jbpool.pool import POOLS, CombinedPool, JBPool
from jbpool.starts import Starts
from jbpool.train import TrainingError, fit

ROOT = Path(__file__).parent.parent
TASK = [sys.executable, str(ROOT / "tasks" / "node_cluster.py")]
SHARED = ROOT.parent / "shared" / "data"
SMALL = ["dataset.num_nodes=300", "train.epochs=150", "train.lr=5e-3", "train.seeds=[0]", "train.restarts=1"]


def settings(*changes):
    return [word for change in changes for word in ("--set", change)]


def task(*args, cwd, check=True, **environment):
    env = {**os.environ, "XDG_CACHE_HOME": str(cwd / "cache"), "OMP_NUM_THREADS": "1", **environment}
    result = subprocess.run([*TASK, *map(str, args)], cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert not check or result.returncode == 0, result.stdout + result.stderr
    return result


def scores(folder):
    result = json.loads((folder / "result.json").read_text())
    timed = {"seconds", "seconds_per_step"}
    return [{key: value for key, value in run.items() if key not in timed} for run in result["runs"]]


def test_the_embedded_default(tmp_path):
    out = task(cwd=tmp_path)
    (folder,) = (tmp_path / "runs" / "node_cluster").iterdir()
    files = {"config.yaml", "result.json", "history.csv", "model.pt", "assign.npz", "report.html"}
    assert files <= {path.name for path in folder.iterdir()}
    result = json.loads((folder / "result.json").read_text())
    assert result["mean"]["nmi"] > 0.9
    assert {"task", "dataset", "method", "runs", "mean", "std", "versions", "config"} <= set(result)
    keys = {"seed", "acc", "nmi", "ari", "modularity", "loss", "used_clusters", "seconds", "seconds_per_step"}
    assert all(keys <= set(run) for run in result["runs"])
    assert [run["seed"] for run in result["runs"]] == [0, 1, 2]
    stored = np.load(folder / "assign.npz", allow_pickle=False)
    assert stored["cluster"].shape == (3, 1000)
    assert "nmi" in out.stdout
    assert "report.html" in out.stdout
    page = (folder / "report.html").read_text()
    assert "http" not in page.replace("http-equiv", "")             # one file, nothing fetched


def test_help_needs_no_torch(tmp_path):
    code = f"import sys, runpy; sys.argv = ['x', '--help']; sys.path.insert(0, {str(ROOT)!r})\ntry:\n    "
    code += f"runpy.run_path({TASK[1]!r}, run_name='__main__')\n"
    code += "except SystemExit:\n    assert 'torch' not in sys.modules"
    assert "--cfg" in subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_list(tmp_path):
    out = task("--list", cwd=tmp_path).stdout
    for words in ("dblp.yaml", "node2vec", "2,708 nodes"):
        assert words in out


@pytest.mark.parametrize("method", METHODS)
def test_every_method_beats_chance(method, tmp_path):
    walks = {"deepwalk", "node2vec"}
    changes = [*SMALL, f"method.name={method}", f"dataset.num_nodes={150 if method in walks else 300}"]
    config = load_config("node_cluster", None, changes)
    out = run(config, tmp_path / "run", torch.device("cpu"))
    assert out.runs[0]["nmi"] > (0.1 if method == "diffpool" else 0.3)
    assert out.method == method


@pytest.mark.parametrize("backbone", ["delta", "gcn", "gin", "sage", "gat", "sgc"])
def test_every_backbone_trains(backbone, tmp_path):
    changes = [*SMALL, f"model.backbone={backbone}", "model.layers=2", "model.hidden=16"]
    changes += ["train.epochs=20", "train.eval_every=5"]
    out = run(load_config("node_cluster", None, changes), tmp_path / "run", torch.device("cpu"))
    assert [row["epoch"] for row in out.history] == [5, 10, 15, 20]
    assert out.history[-1]["loss"] < out.history[0]["loss"]
    assert out.runs[0]["epochs"] == 20


def test_seeds_are_repeatable_bit_for_bit(tmp_path):
    for name in ("one", "two"):
        run(load_config("node_cluster", None, [*SMALL, "train.seeds=[0, 1]"]), tmp_path / name, torch.device("cpu"))
    assert scores(tmp_path / "one") == scores(tmp_path / "two")
    assert scores(tmp_path / "one")[0] != scores(tmp_path / "one")[1]
    one, two = (torch.load(tmp_path / name / "model.pt", weights_only=True)["state"] for name in ("one", "two"))
    assert all(torch.equal(one[key], two[key]) for key in one)


@pytest.mark.parametrize("max_nodes", [0, 600, 10_000], ids=["one by one", "two at a time", "all at once"])
def test_restarts_keep_the_lowest_loss_without_a_look_at_labels(tmp_path, monkeypatch, max_nodes):
    losses, groups = {}, []
    real = ClusterProblem.finish

    def spy(self):
        assign, loss = real(self)
        groups.append(len(loss))
        losses.update({len(losses) + index: value for index, value in enumerate(loss.tolist())})
        return assign, loss

    monkeypatch.setattr(ClusterProblem, "finish", spy)
    monkeypatch.setattr("jbpool.starts.MAX_NODES", max_nodes)
    config = load_config("node_cluster", None, [*SMALL, "train.restarts=4", "train.epochs=40"])
    out = run(config, tmp_path / "r", torch.device("cpu"))
    assert groups == {0: [1, 1, 1, 1], 600: [2, 2], 10_000: [4]}[max_nodes]
    assert out.runs[0]["loss"] == min(losses.values())
    assert out.runs[0]["restart"] == min(losses, key=losses.get)
    stored = torch.load(tmp_path / "r" / "model.pt", weights_only=True)
    model = make_model(config, stored["in_feats"], stored["num_clusters"])
    model.load_state_dict(stored["state"])
    data = load_nodes("sbm", **config.dataset.options)
    _, again = model.eval()(data.graph, model.prepare(data.graph, data.feat), None)
    assert again["balance"].item() == pytest.approx(out.runs[0]["loss"], abs=1e-5)


@pytest.mark.parametrize("method", POOLS)
@pytest.mark.parametrize("backbone", ["delta", "sgc", "gcn"])
@pytest.mark.parametrize("weighted", [False, True])
def test_starts_train_together_as_they_would_alone(backbone, method, weighted):
    """The same losses and the same gradients, for shared sparse features and weighted edges too."""
    data = load_nodes("sbm", num_nodes=60, num_clusters=3)
    graph = data.graph
    weight = symmetric_weights(graph) if weighted else None
    changes = [f"model.backbone={backbone}", f"method.name={method}", "model.layers=3", "model.mlp=[8]"]
    config = load_config("node_cluster", None, changes)
    torch.manual_seed(0)
    nets = [make_model(config, data.feat.shape[1], 3) for _ in range(3)]
    feat = nets[0].prepare(graph, data.feat, weight)
    together = Starts(nets, graph, weight)
    assert together.stacked == (backbone != "gcn")
    assign, losses = together(feat)
    sum(value.sum() for value in losses.values()).backward()
    grads = [[parameter.grad.clone() for parameter in net.parameters()] for net in nets]
    for index, net in enumerate(nets):
        net.zero_grad()
        alone, its = net(graph, feat, weight)
        sum(value.sum() for value in its.values()).backward()
        torch.testing.assert_close(assign[index], alone, rtol=1e-5, atol=1e-6)
        for name in its:
            torch.testing.assert_close(losses[name][index], its[name][0])
        for grad, parameter in zip(grads[index], net.parameters(), strict=True):
            torch.testing.assert_close(grad, parameter.grad, rtol=1e-4, atol=1e-6)


def test_kill_and_resume_equals_an_unbroken_run(tmp_path):
    changes = settings(*SMALL, "train.epochs=1500", "train.eval_every=50", "train.seeds=[0, 1]", "train.restarts=2")
    told = task(*changes, "--out", "whole", "--resume", cwd=tmp_path).stdout
    assert "whole holds no run to continue: a new one begins" in told
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"}
    for _ in range(2):                                              # killed twice, at whatever point it is
        resume = ["--resume"] if (tmp_path / "broken").exists() else []
        with subprocess.Popen([*TASK, *changes, "--out", "broken", *resume], cwd=tmp_path, env=env,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:  # fmt: skip
            before = stamp(tmp_path / "broken" / "checkpoint.pt")
            deadline = time.monotonic() + 60
            while process.poll() is None and stamp(tmp_path / "broken" / "checkpoint.pt") == before:
                assert time.monotonic() < deadline
                time.sleep(0.01)
            process.send_signal(signal.SIGKILL)
    assert not (tmp_path / "broken" / "report.html").exists()
    task(*changes, "--out", "broken", "--resume", cwd=tmp_path)
    assert scores(tmp_path / "broken") == scores(tmp_path / "whole")
    history = [(tmp_path / name / "history.csv").read_text() for name in ("broken", "whole")]
    assert history[0] == history[1]


def test_a_run_that_dies_after_its_last_epoch_keeps_its_history(tmp_path, monkeypatch):
    monkeypatch.setattr("jbpool.train.CHECKPOINT_SECONDS", 0)
    config, cpu = load_config("node_cluster", None, SMALL), torch.device("cpu")
    whole = run(config, tmp_path / "whole", cpu)
    with monkeypatch.context() as patch:
        patch.setattr("jbpool.node_cluster._Job.keep", lambda job: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run(config, tmp_path / "broken", cpu)
    assert run(config, tmp_path / "broken", cpu, resume=True).history == whole.history


def stamp(path):
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return None


def test_resume_refuses_another_configuration(tmp_path):
    task(*settings(*SMALL), "--out", "r", cwd=tmp_path)
    result = task(*settings(*SMALL, "train.lr=1e-2"), "--out", "r", "--resume", cwd=tmp_path, check=False)
    assert result.returncode == 2
    assert "another configuration" in result.stderr
    again = task(*settings(*SMALL), "--out", "r", cwd=tmp_path, check=False)
    assert "holds a run already" in again.stderr
    shutil.copytree(tmp_path / "r", tmp_path / "cut")
    (tmp_path / "cut" / "finished.pt").write_bytes((tmp_path / "r" / "finished.pt").read_bytes()[:1000])
    cut = task(*settings(*SMALL), "--out", "cut", "--resume", cwd=tmp_path, check=False)
    assert (cut.returncode, "finished.pt cannot be read" in cut.stderr) == (2, True)
    first = scores(tmp_path / "r")
    task(*settings(*SMALL), "--seeds", "0,1", "--out", "r", "--resume", cwd=tmp_path)      # more seeds are welcome
    assert scores(tmp_path / "r")[0] == first[0]
    assert [run["seed"] for run in scores(tmp_path / "r")] == [0, 1]
    nowhere = task("--cfg", "cora", "--resume", cwd=tmp_path, check=False)
    assert "there is no run of cora" in nowhere.stderr


@pytest.mark.parametrize("awaited", ["checkpoint.pt", "result.json"], ids=["in the first seed", "later"])
def test_ctrl_c_leaves_a_readable_folder(tmp_path, awaited):
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"}
    epochs, starts = (100_000, 1) if awaited == "checkpoint.pt" else (100, 20)
    seeds = "train.seeds=[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"
    changes = settings(*SMALL, f"train.epochs={epochs}", seeds, f"train.restarts={starts}")
    # A shell starts background jobs with SIGINT ignored, which children inherit.
    with subprocess.Popen([*TASK, *changes, "--out", "r"], cwd=tmp_path, env=env,
                          preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:  # fmt: skip
        deadline = time.monotonic() + 90
        while not (tmp_path / "r" / awaited).exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "what is done so far is in r, --resume --out r continues" in error
    assert "Traceback" not in error
    done = len(scores(tmp_path / "r"))
    assert done == 0 if awaited == "checkpoint.pt" else 1 <= done < 10
    assert len((tmp_path / "r" / "history.csv").read_text().splitlines()) > 1
    assert (tmp_path / "r" / "report.html").exists() == (done > 0)


def own_graph(folder, name, groups="xy", size=30, seed=0):
    """Two groups of people: a CSV of friendships, one of what they read, one of their groups."""
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


def test_a_csv_of_one_s_own(tmp_path):
    own_graph(tmp_path, "one")
    changes = ["dataset.edges=one-edges.csv", "dataset.header=true", "method.num_clusters=2"]
    told = task("--cfg", "file", *settings(*changes), "--out", "r", cwd=tmp_path).stdout
    assert "60 nodes" in told
    assert "features made from the edges, no labels" in told
    assert f"the cluster of every node: {Path('r', 'assign.csv')}" in told
    stored = np.load(tmp_path / "r" / "assign.npz", allow_pickle=False)
    group = np.array([name[0] for name in stored["ids"]])
    assert len(set(zip(group, stored["cluster"][0], strict=True))) == 2         # each group is one cluster
    result = json.loads((tmp_path / "r" / "result.json").read_text())
    assert "nmi" not in result["mean"]
    assert result["mean"]["modularity"] > 0.4
    rows = [line.split(",") for line in (tmp_path / "r" / "assign.csv").read_text().splitlines()]
    assert rows[0] == ["node", "cluster", "confidence"]
    assert [row[0] for row in rows[1:]] == stored["ids"].tolist()
    assert [int(row[1]) for row in rows[1:]] == stored["cluster"][0].tolist()
    refused = task("--predict", "r", cwd=tmp_path, check=False)                 # coordinates of one graph only
    assert "was trained without features" in refused.stderr

    with open(tmp_path / "one-edges.csv", "a") as file:
        file.write("x1,y2\n")
    again = ["--cfg", "file", *settings(*changes), "--seeds", "0,1", "--out", "r", "--resume"]
    changed = task(*again, cwd=tmp_path, check=False)
    assert "the data have changed" in changed.stderr


def test_a_second_graph_by_the_same_model(tmp_path):
    own_graph(tmp_path, "one")
    own_graph(tmp_path, "two", groups="uv", size=20, seed=1)
    files = ["dataset.edges=one-edges.csv", "dataset.features=one-features.csv", "dataset.labels=one-labels.csv"]
    task("--cfg", "file", *settings(*files, "dataset.header=true", "method.num_clusters=2"), "--out", "r", cwd=tmp_path)
    changes = settings("dataset.edges=two-edges.csv", "dataset.features=two-features.csv")
    told = task("--predict", "r", *changes, cwd=tmp_path).stdout
    assert str(Path("r", "predicted", "assign.csv")) in told
    rows = [line.split(",") for line in (tmp_path / "r" / "predicted" / "assign.csv").read_text().splitlines()[1:]]
    assert len(rows) == 40
    assert len({(row[0][0], row[1]) for row in rows}) == 2                      # each group is one cluster
    assert {row[0][0] for row in rows} == {"u", "v"}
    for more, words in [
        ([], "is there already"),
        (["--out", "new", "--cfg", "cora"], "--cfg has no say"),
        (["--out", "new", "--set", "model.layers=2"], "only dataset... can change"),
    ]:
        refused = task("--predict", "r", *changes, *more, cwd=tmp_path, check=False)
        assert refused.returncode != 0
        assert words in refused.stderr


def test_a_prediction_uses_nothing_of_the_training_graph(tmp_path):
    """Also where the new graph has the node ids of the training graph, or some of them."""
    own_graph(tmp_path, "one")
    own_graph(tmp_path, "two", size=20, seed=1)
    files = ["dataset.edges=one-edges.csv", "dataset.features=one-features.csv", "dataset.labels=one-labels.csv"]
    changes = [*files, "dataset.header=true", "method.num_clusters=2", "train.epochs=30", "train.restarts=1"]
    task("--cfg", "file", *settings(*changes), "--out", "r", cwd=tmp_path)
    for kind in ("edges", "features", "labels"):
        (tmp_path / f"one-{kind}.csv").unlink()

    def predict(*changes, check=False):
        return task("--predict", "r", *settings(*changes), cwd=tmp_path, check=check)

    for given, words in [
        ([], f"name the new graph, such as --set dataset.edges=new.csv --set dataset.features=new_features.csv; the "
             f"clusters of the training graph are in {Path('r', 'assign.csv')}"),
        (["dataset.header=true"], "name the new graph"),
        (["dataset.edges=two-edges.csv"], "trained with 3 per node: give those of the new graph, --set dataset.feat"),
        (["dataset.name=file", "dataset.edges=two-edges.csv"], "trained with 3 per node"),
        (["dataset.features=two-features.csv"], "give either edges"),
        (["dataset.name=sbm"], "has 128 features, the model was trained on 3"),
    ]:  # fmt: skip
        refused = predict(*given)
        assert (refused.returncode, "Traceback" in refused.stderr) == (2, False)
        assert words in refused.stderr
    assert not (tmp_path / "r" / "predicted").exists()
    predict("dataset.edges=two-edges.csv", "dataset.features=two-features.csv", check=True)
    lines = (tmp_path / "r" / "predicted" / "assign.csv").read_text().splitlines()[1:]
    assert {line.split(",")[0] for line in lines} == {f"{group}{i}" for group in "xy" for i in range(20)}


def test_a_model_of_made_features_is_not_for_other_features(tmp_path):
    own_graph(tmp_path, "one")
    small = ["dataset.edges=one-edges.csv", "dataset.header=true", "method.num_clusters=2", "train.epochs=5"]
    task("--cfg", "file", *settings(*small), "--out", "r", cwd=tmp_path)
    width = torch.load(tmp_path / "r" / "model.pt", weights_only=True)["in_feats"]
    np.savetxt(tmp_path / "x.csv", np.column_stack([np.arange(4), np.eye(4, width)]), "%g", ",")
    (tmp_path / "e.csv").write_text("0,1\n1,2\n2,3\n")
    changes = settings("dataset.edges=e.csv", "dataset.header=false", "dataset.features=x.csv")
    refused = task("--predict", "r", *changes, cwd=tmp_path, check=False)
    assert (refused.returncode, "was trained without features" in refused.stderr) == (2, True)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--cfg", "corra"], "Did you mean 'cora"),
        (["--set", "train.epoch=3"], "Did you mean 'train.epochs'"),
        (["--set", "dataset.mixin=0.3"], "Did you mean 'mixing'"),
        (["--cfg", "file"], "edges.csv: no such file"),
        (["--seeds", "a"], "train.seeds"),
        (["--predict", "nowhere"], "no model.pt"),
        (["--set", "method.num_clusters=2000"], "2000 clusters of 1000 nodes"),
        (["--out", "afile"], "cannot be made a folder"),
        (["--out", "afile/x"], "cannot be made a folder"),
        (["--device", "cuda"], "torch sees no GPU"),
    ],
)
def test_mistakes_are_told_without_a_traceback(tmp_path, args, words):
    if "cuda" in args and torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    (tmp_path / "afile").touch()
    result = task(*args, cwd=tmp_path, check=False)
    assert result.returncode != 0
    assert words in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("pool", POOLS.values(), ids=POOLS)
def test_a_loss_that_is_no_number_stops_before_the_step(pool):
    graph = dgl.rand_graph(20, 60)
    feat = torch.rand(20, 4)
    feat[3, 1] = float("nan")
    model = ClusterNet(4, lambda width: pool(width, 2), layers=1, hidden=8)
    before = [parameter.clone() for parameter in model.parameters()]
    with pytest.raises(TrainingError, match=r"epoch 1 .*features hold NaN"):
        fit(ClusterProblem(Starts([model], graph), feat, lambda assign: {}), load_config("node_cluster").train)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


def test_patience_stops_early(tmp_path):
    """At the usual learning rate too: a loss that falls by less and less has stopped."""
    changes = [*SMALL, "train.epochs=5000", "train.patience=20"]
    out = run(load_config("node_cluster", None, changes), tmp_path / "r", torch.device("cpu"))
    assert out.runs[0]["epochs"] < 2500
    assert out.runs[0]["nmi"] > 0.9


@pytest.mark.parametrize(
    ("balance", "used", "trained", "words"),
    [
        (-0.9, 4, True, None),
        (None, 4, True, None),
        (None, 3, True, "empty clusters: 1 of 4."),
        (None, 1, True, "one cluster holds every node; train longer"),
        (None, 1, False, "one cluster holds every node; try another seed or another method"),
        (-0.25, 3, True, "uniform"),
        (-0.5, 3, True, "one cluster"),
        (-0.9, 2, True, "only 2 of 4 clusters"),
    ],
)
def test_collapse_is_told(balance, used, trained, words):
    warning = collapse_warning(used, 4, trained=trained, balance=balance)
    assert warning is None if words is None else words in warning


def test_a_few_empty_clusters_are_mentioned_briefly():
    assert collapse_warning(30, 40) == "empty clusters: 10 of 40."
    assert "collapse: only 20 of 40 clusters hold nodes; train longer" in collapse_warning(20, 40)


def test_objectives_combine(tmp_path):
    config = load_config("node_cluster", None, [*SMALL, "method.objective={cut: 1, balance: 0.5, modularity: 2}"])
    out = run(config, tmp_path / "r", torch.device("cpu"))
    last = out.history[-1]
    assert last["loss"] == pytest.approx(last["cut_loss"] + last["balance_loss"] + last["modularity_loss"], abs=1e-5)
    graph, feat = dgl.add_reverse_edges(dgl.rand_graph(30, 60)), torch.rand(30, 4)
    pool = CombinedPool(4, 3, objective={"cut": 2.0, "balance": 1.0, "entropy": 0.5})
    _, losses = pool.cluster(graph, feat)
    parts = {}
    for single in (JBPool(4, 3), POOLS["mincut"](4, 3), POOLS["diffpool"](4, 3)):
        single.load_state_dict(pool.state_dict())
        single.logits = lambda graph, scores, weight: scores                   # DiffPool without its smoothing
        parts |= single.cluster(graph, feat)[1]
    assert torch.allclose(losses["cut"], 2 * parts["cut"])
    assert torch.allclose(losses["entropy"], 0.5 * parts["entropy"])
    assert torch.allclose(losses["balance"], parts["balance"])
    for name, own in (("diffpool", {"link": 1.0, "entropy": 1.0}), ("mincut", {"cut": 1.0, "ortho": 1.0})):
        plain, same = POOLS[name](4, 3), CombinedPool(4, 3, objective=own, like=name)
        same.load_state_dict(plain.state_dict())
        torch.testing.assert_close(same.cluster(graph, feat), plain.cluster(graph, feat))
    for wrong in ({}, {"cutt": 1.0}, {"cut": float("nan")}):
        with pytest.raises(ValueError, match="objective"):
            CombinedPool(4, 3, objective=wrong)


def test_the_pools_have_the_same_capacity():
    counts = set()
    for name in POOLS:
        model = make_model(load_config("node_cluster", "cora", [f"method.name={name}"]), 1433, 7)
        counts.add(sum(parameter.numel() for parameter in model.parameters()))
    assert len(counts) == 1


@pytest.mark.parametrize("name", ["cora", "citeseer", "pubmed", "dblp"])
def test_a_short_run_on_the_real_sets(name, tmp_path):
    if not SHARED.is_dir():
        pytest.skip("the real datasets are not beside this checkout (../shared/data)")
    changes = [f"dataset.root={SHARED}", "train.epochs=10", "train.seeds=[0]", "train.eval_every=5"]
    out = run(load_config("node_cluster", name, changes), tmp_path / "r", torch.device("cpu"))
    assert out.history[-1]["loss"] < out.history[0]["loss"]


def test_the_report_in_a_browser(tmp_path):
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no Chromium on this machine")
    task(*settings(*SMALL), "--out", "r", cwd=tmp_path)
    page = (tmp_path / "r" / "report.html").as_uri()
    flags = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/profile", "--dump-dom"]
    dom = subprocess.run([browser, *flags, page], capture_output=True, text=True, timeout=120, check=True).stdout
    assert dom.count("<svg") == 5
    for words in ("Losses and NMI", "Cluster sizes", "coarsened graph", "in the plane"):
        assert words in dom
