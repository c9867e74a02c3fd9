"""Training, folds and seeds: losses, the best epoch, no use of test labels, the run folder, real datasets."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from commands import CLASSIFY, CPU, assert_same_weights, call, result_of, run_task, settings
from own_graphs import MANY, write_targets
from own_graphs import SMALL as SMALL_OWN
from sklearn.metrics import r2_score

from jbpool.classification import run as job
from jbpool.classification.class_scores import r2
from jbpool.classification.graph_classify import GRAPH_CLASSIFY
from jbpool.classification.model import make_model
from jbpool.classification.training import ClassifyProblem
from jbpool.data import Split, load_graphs
from jbpool.engine.config import load_config
from jbpool.engine.fit import fit
from jbpool.errors import ConfigError, RunFolderError, TrainingError

SMALL = CLASSIFY.changes
run = partial(run_task, CLASSIFY)


def test_the_task_leaves_a_whole_run_folder(tmp_path):
    printed = call(CLASSIFY.command, *settings(*SMALL), "--folds", "0,1", "--out", "r", cwd=tmp_path).out
    folder = tmp_path / "r"
    result = result_of(folder)
    assert (result["task"], result["dataset"], result["method"]) == ("graph_classify", "motifs", "jb")
    assert [(run["seed"], run["fold"], run["metric"]) for run in result["runs"]] == [(0, 0, "acc"), (0, 1, "acc")]
    assert list(result["compared"]) == ["none"]
    assert result["mean"]["test"] == pytest.approx(np.mean([run["test"] for run in result["runs"]]))
    assert "jb seed 0 fold 0: valid" in printed
    with np.load(folder / "predictions.npz") as stored:
        for fold in (0, 1):
            here = stored["fold"] == fold
            accuracy = (stored["scores"][here].argmax(1) == stored["label"][here]).mean()
            assert accuracy == pytest.approx(result["runs"][fold]["test"])
    page = (folder / "report.html").read_text()
    parts = "Learning curves", "clusters and pooled graph", "predictions (columns)", "minus none", "test balanced"
    assert [words for words in parts if words not in page] == []


def test_pooling_beats_the_flat_network_on_motifs(tmp_path):
    """One fold of the default, for most of its epochs: the class depends on the coarse graph."""
    out = run(load_config(GRAPH_CLASSIFY, None, ["train.epochs=8"]), tmp_path / "r", folds=[0])
    assert out.runs[0]["test"] > 0.9
    assert out.compared["none"][0]["test"] < 0.7


def test_every_method_gets_the_same_folds(tmp_path):
    changes = [*SMALL, "train.epochs=1", "model.compare=[none, mincut, dmon, diffpool]"]
    run(load_config(GRAPH_CLASSIFY, None, changes), tmp_path / "r")
    entries = torch.load(tmp_path / "r" / "finished.pt", weights_only=True)["own"]["predictions"]
    assert len(entries) == 10
    for fold in (0, 1):
        tests = [entry["graph"] for entry in entries if entry["fold"] == fold]
        assert all(torch.equal(tests[0], other) for other in tests)
    assert set(entries[0]["graph"].tolist()) | set(entries[1]["graph"].tolist()) == set(range(60))


def test_test_labels_have_no_say(tmp_path, monkeypatch):
    """With the labels of the test fold shuffled, training is the same to the last bit, and the score that of chance."""
    config = load_config(GRAPH_CLASSIFY, None, ["dataset.num_graphs=600", "model.compare=[]", "train.epochs=6"])
    data = GRAPH_CLASSIFY.load_data(config)
    split = data.split(0, 3)
    label = data.label.clone()
    label[split.test] = label[split.test][torch.randperm(len(split.test), generator=torch.Generator().manual_seed(0))]
    monkeypatch.setattr(type(data), "split", lambda *_: split)
    plain = run(config, tmp_path / "plain", data, folds=[0])
    shuffled = run(config, tmp_path / "shuffled", replace(data, label=label), folds=[0])
    assert_same_weights(plain.path, shuffled.path)
    assert plain.runs[0]["valid"] == shuffled.runs[0]["valid"]
    assert plain.runs[0]["test"] > 0.55
    assert shuffled.runs[0]["test"] < 1 / 3 + 3 * (2 / 9 / len(split.test)) ** 0.5     # three deviations above chance


def test_folds_of_a_dataset_with_an_official_split(tmp_path, capsys):
    config = load_config(GRAPH_CLASSIFY, None, [*SMALL, "model.compare=[]", "train.epochs=1"])
    data = GRAPH_CLASSIFY.load_data(config)
    data = replace(data, official_split=Split(*torch.arange(60).split([40, 10, 10])))
    official = run(config, tmp_path / "official", data)
    assert [entry["fold"] for entry in official.runs] == [0]
    entries = torch.load(tmp_path / "official" / "finished.pt", weights_only=True)["own"]["predictions"]
    assert entries[0]["graph"].tolist() == list(range(50, 60))
    assert "split" not in capsys.readouterr().out
    run(config, tmp_path / "folds", data, folds=[0, 1])
    assert "the split of motifs is not used" in capsys.readouterr().out
    entries = torch.load(tmp_path / "folds" / "finished.pt", weights_only=True)["own"]["predictions"]
    assert set(entries[0]["graph"].tolist()) | set(entries[1]["graph"].tolist()) == set(range(60))
    assert result_of(tmp_path / "folds")["config"]["train"]["official_split"] is False
    with pytest.raises(RunFolderError, match=r"train\.official_split"):      # two kinds of results in one folder
        run(config, tmp_path / "folds", data, resume=True)
    label = data.label.clone()
    label[:50], label[50:] = torch.arange(50) % 3, 0                        # no test graph of the last classes
    page = run(config, tmp_path / "rare", replace(data, label=label)).write_report().read_text()
    assert not any(words in page for words in ("minus none", "Differences to none"))       # it was not trained
    label[:5] = -1
    inside = replace(data, label=label, official_split=Split(*torch.arange(5, 60).split([35, 10, 10])))
    with pytest.raises(ConfigError, match="5 of 60 graphs have no class"):  # in no part of the split, but in the folds
        run(config, tmp_path / "gaps", inside, folds=[0])
    without = replace(config, train=replace(config.train, official_split=False))
    assert len(run(without, tmp_path / "all", data).runs) == 2


@pytest.mark.parametrize("name", ["mutag", "enzymes", "proteins", "nci1"])
def test_a_short_run_on_the_real_sets(name, shared, tmp_path):
    changes = [f"dataset.root={shared}", "train.epochs=2"]
    out = run(load_config(GRAPH_CLASSIFY, name, changes), tmp_path / "r", folds=[0])
    assert out.history[-1]["loss"] < out.history[0]["loss"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dd", "reddit-binary", "molhiv"])
def test_a_short_run_on_the_large_sets(name, shared, tmp_path):
    changes = [f"dataset.root={shared}", "train.epochs=1", "train.seeds=[0]"]
    out = run(load_config(GRAPH_CLASSIFY, name, changes), tmp_path / "r", folds=[0])
    assert out.runs[0]["test"] > 0.5


def test_too_few_graphs_for_the_folds_leave_nothing_behind(tmp_path):
    few = [*settings(*SMALL, "dataset.num_graphs=9", "train.folds=5"), "--out", "r"]
    outcome = call(CLASSIFY.command, *few, cwd=tmp_path, check=False)
    assert "has 3 graphs, too few for 5 stratified folds; every class needs at least 4 graphs" in outcome.err
    assert not (tmp_path / "r").exists()


# ---------------------------------------------------------------- regression


def test_a_regression(tmp_path):
    """The degree of generated graphs is learned, and every file has the numbers in their unit."""
    changes = ["dataset.num_graphs=300", "train.epochs=12", "model.compare=[none]", "model.members=2"]
    more = ("--folds", "0", "--out", "r")
    text = call(CLASSIFY.command, "--cfg", "regression", *settings(*changes), *more, cwd=tmp_path).out
    run = result_of(tmp_path / "r")["runs"][0]
    assert (run["metric"], run["fold"]) == ("rmse", 0)
    data = load_graphs("trees", num_graphs=300)
    with np.load(tmp_path / "r" / "predictions.npz") as stored:
        label, found = (torch.from_numpy(stored[key]) for key in ("label", "scores"))
        torch.testing.assert_close(label, data.label[stored["graph"]])
    assert run["test"] == pytest.approx(((found - label) ** 2).mean(0).sqrt().mean().item())
    assert run["test_r2"] == pytest.approx(r2_score(label, found))
    assert r2(found, label)[1] > 0.6                                    # the mean has 0
    assert run["test_single"] > run["test"]
    assert f"test {run['test']:.4g}, single networks {run['test_single']:.4g}" in text
    page = (tmp_path / "r" / "report.html").read_text()
    for words in ("trees predicted with jb", "distance: predicted against true", "RMSE of the mean", "test, single"):
        assert words in page


def test_targets_are_standardised(tmp_path):
    """Another unit and another origin change nothing but the unit of the error, also far from zero."""
    config = load_config(GRAPH_CLASSIFY, "regression", ["train.epochs=2", "model.compare=[]", "model.hidden=16"])
    data, found = load_graphs("trees", num_graphs=80), []
    for name, factor, shift in (("plain", 1, 0), ("other", 1e-3, 1e6)):
        other = replace(data, label=data.label * factor + shift)
        run = run_task(CLASSIFY, config, tmp_path / name, other, folds=[0]).runs[0]
        found.append((run["test"] / factor, run["test_r2"]))
    assert found[0] == pytest.approx(found[1], rel=1e-3)


def test_graphs_without_numbers_are_not_trained_on(tmp_path):
    folder = write_targets(tmp_path / "own", ["", *MANY[1:]])
    config = load_config(GRAPH_CLASSIFY, "file", ["dataset.graphs=null", f"dataset.folder={folder}", *SMALL_OWN])
    with pytest.raises(ConfigError, match="1 of 24 graphs have no number"):
        run_task(CLASSIFY, config, tmp_path / "r")
    config.dataset.options["targets"] = ["hight"]
    with pytest.raises(ConfigError, match="no graph has a number to predict 'hight'"):
        run_task(CLASSIFY, config, tmp_path / "r")


# ---------------------------------------------------------------- training


def problem_for(metric, label, *changes):
    data = load_graphs("motifs", num_graphs=60)
    width = 3 if metric == "acc" else label.shape[1]
    data = replace(data, metric=metric, label=label, num_classes=width)
    config = load_config(
        GRAPH_CLASSIFY, None, ["train.batch_size=8", "model.hidden=16", "model.compare=[]", *changes]
    )
    split = load_graphs("motifs", num_graphs=60).split(0, 2)
    return ClassifyProblem(make_model(config, data, split.train), data, split, config, 0, CPU)


def test_unknown_labels_count_nothing():
    label = torch.tensor([[1.0, float("nan")], [0.0, 1.0], [float("nan"), float("nan")]])
    problem = problem_for("rocauc", torch.zeros(60, 2), "train.label_smoothing=0")
    scores = torch.tensor([[2.0, 9.0], [-1.0, 3.0], [5.0, 5.0]], requires_grad=True)
    loss = problem._task_loss(scores, label)
    expected = [np.log1p(np.exp(-2)), (np.log1p(np.exp(-1)) + np.log1p(np.exp(-3))) / 2, 0.0]
    np.testing.assert_allclose(loss.detach(), expected, rtol=1e-5)
    loss.sum().backward()
    assert scores.grad[0, 1] == 0
    assert torch.equal(scores.grad[2], torch.zeros(2))


def test_smoothed_labels():
    """A fifth of every label is spread evenly: over three classes, or over positive and negative."""
    scores = torch.tensor([[2.0, -1.0, 0.5]])
    classes = problem_for("acc", torch.zeros(60).long())
    parts = -scores.log_softmax(1)[0]
    expected = 0.8 * parts[0] + 0.2 * parts.mean()
    torch.testing.assert_close(classes._task_loss(scores, torch.tensor([0]), 0.2), expected.view(1))
    tasks = problem_for("rocauc", torch.zeros(60, 1))
    yes, no = np.log1p(np.exp(-2)), np.log1p(np.exp(2))
    found = tasks._task_loss(torch.tensor([[2.0]]), torch.tensor([[1.0]]), 0.2)
    np.testing.assert_allclose(found, [0.9 * yes + 0.1 * no], rtol=1e-6)


def test_the_loss_of_the_pools_counts_by_its_weight():
    found = []
    for weight in (0, 1, 2.5):
        torch.manual_seed(0)
        changes = f"model.aux_weight={weight}", "model.dropout=0"
        problem = problem_for("acc", torch.arange(60) % 3, *changes)
        batch = next(iter(problem.batches(0)))
        found.append(problem.loss(batch).item())
        task, pools = (problem.sums / batch.of).tolist()
        assert found[-1] == pytest.approx(task + weight * pools, rel=1e-5)
    assert found[2] - found[0] == pytest.approx(2.5 * (found[1] - found[0]), rel=1e-4)
    assert found[0] != found[1]


@pytest.mark.parametrize("change", ["train.label_smoothing=0.2", "train.class_weight=true"])
def test_labels_are_smoothed_and_weighted_in_training_only(change):
    """So that validation losses of different settings can be compared."""
    found, label = [], (torch.arange(60) % 3 == 0).long()
    for changes in ([], [change]):
        torch.manual_seed(0)
        problem = problem_for("acc", label, "train.label_smoothing=0", "model.dropout=0", *changes)
        batch = next(iter(problem.batches(0)))
        loss = problem.loss(batch).item()
        found.append((loss, problem.judge(evaluate=True)[1]["valid_loss"]))
    (plain, valid), (changed, same) = found
    assert valid == same
    assert plain != pytest.approx(changed, rel=1e-3)


def test_class_weights_are_those_of_the_training_graphs():
    train = problem_for("acc", torch.zeros(60).long()).split.train
    label = torch.zeros(60).long()
    label[train[:1]], label[train[1:3]] = 2, 1                  # of the rest all are 0
    weights = problem_for("acc", label, "train.class_weight=true").class_weight
    counts = torch.tensor([len(train) - 3, 2, 1])
    torch.testing.assert_close(weights * counts, torch.full((3,), len(train) / 3))
    assert problem_for("acc", label).class_weight is None


def test_yeses_are_weighed_by_noes_per_yes():
    label = torch.zeros(60, 2)
    problem = problem_for("rocauc", label)
    train = problem.split.train
    label[train[:2], 0] = 1
    label[train[0], 1] = float("nan")
    weights = problem_for("rocauc", label, "train.class_weight=true").class_weight
    assert weights.tolist() == [(len(train) - 2) / 2, len(train) - 1]


@pytest.mark.parametrize("select", ["best", "last"])
@pytest.mark.parametrize(("metric", "better"), [("acc", 0.9), ("rmse", 0.1)])
def test_the_epoch_that_is_used(metric, better, select, monkeypatch):
    label = torch.tensor([0, 1, 2] * 20) if metric == "acc" else torch.rand(60, 1)
    problem = problem_for(metric, label, f"train.select={select}")
    problem.sums = torch.zeros(2)
    values = iter([0.5, better, 0.5])
    monkeypatch.setattr("jbpool.classification.training.score", lambda data, scores, label: next(values))
    with torch.no_grad():
        found = []
        for step in range(3):
            for parameter in problem.model.parameters():
                parameter.fill_(float(step))
            found.append(problem.judge(True)[0])
    used = {"best": 1, "last": 2}[select]
    assert found == [True, True, select == "last"]
    assert problem.best["valid"] == {"best": better, "last": 0.5}[select]
    assert all(bool((problem.best["state"][name] == used).all()) for name, _ in problem.model.named_parameters())


def test_members_are_trained_as_each_would_be_alone():
    """The gradient of a member does not depend on the others; losses are reported as means over members."""
    label = torch.arange(60) % 3
    together = problem_for("acc", label, "model.members=2", "model.dropout=0")
    alone = [problem_for("acc", label, "model.dropout=0") for _ in range(2)]
    for problem, member in zip(alone, together.model.members, strict=True):
        problem.model.members[0].load_state_dict(member.state_dict())
    for problem in (together, *alone):
        problem.loss(next(iter(problem.batches(0)))).backward()
    torch.testing.assert_close(together.sums, (alone[0].sums + alone[1].sums) / 2)
    for problem, member in zip(alone, together.model.members, strict=True):
        for one, other in zip(problem.model.parameters(), member.parameters(), strict=True):
            torch.testing.assert_close(one.grad, other.grad)


@pytest.mark.parametrize("broken", ["features", "weights"])
def test_a_loss_that_is_no_number_stops_before_the_step(broken):
    problem = problem_for("acc", torch.tensor([0, 1, 2] * 20))
    if broken == "features":
        feat = problem.data.feat.clone()
        feat[0] = float("nan")
        problem.data = replace(problem.data, feat=feat)
    else:
        with torch.no_grad():
            problem.model.members[0].head[0].weight[0, 0] = float("inf")
    before = {name: parameter.clone() for name, parameter in problem.model.named_parameters()}
    words = {"features": "NaN", "weights": "weights have grown out of bounds"}[broken]
    with pytest.raises(TrainingError, match=rf"epoch 1.*{words}"):
        fit(problem, problem.config.train)
    if broken == "weights":                             # the very first batch shows it
        for name, parameter in problem.model.named_parameters():
            assert torch.equal(parameter, before[name]), name


@pytest.mark.parametrize(("schedule", "factors"), [("constant", [1, 1, 1, 1]), ("cosine", [1, 0.85355, 0.5, 0.14645])])
def test_the_learning_rate_over_the_epochs(schedule, factors, monkeypatch):
    problem, rates = problem_for("acc", torch.arange(60) % 3, "train.epochs=4", "train.lr=0.01"), []
    step = torch.optim.Adam.step

    def recorded(optimiser, *args):
        rates.append(optimiser.param_groups[0]["lr"])
        return step(optimiser, *args)

    monkeypatch.setattr(torch.optim.Adam, "step", recorded)
    progress = fit(problem, problem.config.train, schedule=schedule)
    steps = progress.steps // 4
    assert rates[::steps] == pytest.approx([0.01 * factor for factor in factors], rel=1e-4)


@pytest.mark.parametrize(
    ("change", "key", "value"),
    [
        ("train.weight_decay=0.25", "weight_decay", 0.25),
        ("train.schedule=constant", "schedule", "constant"),
    ],
)
def test_a_setting_reaches_the_optimiser(change, key, value, tmp_path, monkeypatch):
    seen = []
    original = job.fit_unit

    def seeing(*args, **options):
        seen.append(options[key])
        return original(*args, **options)

    monkeypatch.setattr(job, "fit_unit", seeing)
    changes = settings(change, "train.epochs=1", "train.folds=2", "model.compare=[]", "model.hidden=4")[1::2]
    config = load_config(GRAPH_CLASSIFY, None, changes)
    run(config, tmp_path / "r", load_graphs("motifs", num_graphs=30), folds=[0])
    assert seen == [value]
