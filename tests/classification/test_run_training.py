"""Training of graph classification: losses, class weights, the best epoch."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from commands import CPU

from jbpool.classification.model import make_model
from jbpool.classification.run import ClassifyProblem
from jbpool.classification.task import GRAPH_CLASSIFY
from jbpool.data import load_graphs
from jbpool.engine.config import load_config
from jbpool.engine.fit import fit
from jbpool.errors import TrainingError


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
    monkeypatch.setattr("jbpool.classification.run.score", lambda data, scores, label: next(values))
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
    words = {"features": "features contain NaN", "weights": "weights have grown out of bounds"}[broken]
    with pytest.raises(TrainingError, match=rf"epoch 1 \(task=.*{words}"):
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
