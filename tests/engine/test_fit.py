"""The training loop on a tiny problem: against a plain loop, evaluations, early stopping, checkpoints, resuming."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from jbpool.engine import fit as module
from jbpool.engine.fit import Problem, fit, weights_diagnosis
from jbpool.errors import RunFolderError, TrainingError
from jbpool.schema import TrainConfig


class Line(Problem):
    """Two random batches per epoch; the score improves in the epochs of ``improves``."""

    def __init__(self, improves=(), nan_in=None):
        torch.manual_seed(3)
        self.model = nn.Linear(2, 1).eval()
        self.improves, self.nan_in, self.judged = improves, nan_in, 0

    def batches(self, epoch):
        assert self.model.training
        self.epoch = epoch + 1
        return (torch.rand(4, 2) for _ in range(2))

    def loss(self, batch):
        return (self.model(batch) ** 2).mean() * (float("nan") if self.epoch == self.nan_in else 1)

    def judge(self, evaluate):
        self.judged += 1
        return self.judged in self.improves, {"seen": self.judged} if evaluate else {}

    def diagnosis(self):
        return "(for a reason)"

    def state(self):
        return {"judged": self.judged}

    def load_state(self, state):
        self.judged = state["judged"]


def config(epochs, eval_every=1, patience=None):
    return TrainConfig(epochs=epochs, lr=0.05, eval_every=eval_every, patience=patience)


def values(problem):
    return torch.cat([parameter.detach().flatten() for parameter in problem.model.parameters()])


def test_it_is_adam_with_weight_decay():
    problem, plain = Line(), Line()
    torch.manual_seed(0)
    progress = fit(problem, config(5), weight_decay=0.1)
    torch.manual_seed(0)
    optimiser = torch.optim.Adam(plain.model.parameters(), lr=0.05, weight_decay=0.1)
    for _ in range(10):
        optimiser.zero_grad()
        (plain.model(torch.rand(4, 2)) ** 2).mean().backward()
        optimiser.step()
    torch.testing.assert_close(values(problem), values(plain))
    assert (progress.epoch, progress.steps) == (5, 10)


def test_gradients_are_averaged_before_every_step(monkeypatch):
    seen = []
    monkeypatch.setattr(module, "mean_gradients", lambda parameters: seen.append([p.grad is None for p in parameters]))
    fit(Line(), config(2))
    assert seen == [[False, False]] * 4


def test_evaluations_every_few_epochs_and_after_the_last():
    reported = []
    problem = Line(improves=(2,))
    progress = fit(problem, config(7, eval_every=3), report=lambda now, row: reported.append((now.epoch, row)))
    assert progress.history == [{"epoch": epoch, "seen": epoch} for epoch in (3, 6, 7)]
    assert reported == [(row["epoch"], row) for row in progress.history]


def test_early_stopping_evaluates_once_more():
    progress = fit(Line(improves=(1, 2)), config(50, eval_every=10, patience=3))
    assert (progress.epoch, progress.best_epoch) == (5, 2)
    assert [row["epoch"] for row in progress.history] == [5]


def test_training_seconds_add_up(monkeypatch):
    ticks = iter(range(100))
    monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: next(ticks), monotonic=lambda: 0.0))
    progress = fit(Line(), config(6))
    assert (progress.seconds, progress.seconds_per_step) == (6, 0.5)
    assert module.Progress(steps=1, seconds=3.0).seconds_per_step == 3
    assert module.Progress().seconds_per_step == 0                      # resumed when all was done


def test_checkpoints_keep_their_distance(monkeypatch):
    ticks = iter(range(100))                                # 0.2 s between two readings of the clock
    clock = SimpleNamespace(perf_counter=lambda: 0.0, monotonic=lambda: 0.2 * next(ticks))
    monkeypatch.setattr(module, "time", clock)
    saved = []
    fit(Line(), config(9), checkpoint=lambda state: saved.append(state["progress"]["epoch"]))
    assert saved == [3, 6, 9]


def saved_after(epoch, monkeypatch, patience=None):
    """The state after some epochs of a run of ten, and the finished problem and progress."""
    states, problem = {}, Line(improves=(1, 4))
    monkeypatch.setattr(module, "CHECKPOINT_SECONDS", -1)

    def save(state):
        text = {"progress": {**state["progress"], "history": list(state["progress"]["history"])}}
        tensors = {key: {name: value.clone() for name, value in state[key].items()} for key in ("model",)}
        optimiser = {**state["optimiser"], "state": {
            key: {name: value.clone() for name, value in entry.items()}
            for key, entry in state["optimiser"]["state"].items()
        }}  # fmt: skip
        states[state["progress"]["epoch"]] = {**state, **text, **tensors, "optimiser": optimiser}

    progress = fit(problem, config(10, patience=patience), checkpoint=save)
    return states[epoch], problem, progress


def test_a_resumed_run_equals_an_unbroken_one(monkeypatch):
    state, whole, expected = saved_after(6, monkeypatch)
    resumed = Line(improves=(1, 4))
    torch.manual_seed(99)
    progress = fit(resumed, config(10), resume=state)
    assert torch.equal(values(resumed), values(whole))
    assert progress.history == expected.history
    assert (progress.epoch, progress.steps, progress.best_epoch) == (10, 20, 4)
    assert progress.seconds > state["progress"]["seconds"] > 0


def test_a_run_that_had_stopped_early_stays_so(monkeypatch):
    """Its last checkpoint is of the epoch it stopped at."""
    state, whole, _ = saved_after(3, monkeypatch, patience=2)
    resumed = Line(improves=(1, 4))                                     # it would have improved
    progress = fit(resumed, config(10, patience=2), resume=state)
    assert (progress.epoch, progress.best_epoch) == (3, 1)
    assert torch.equal(values(resumed), values(whole))


def test_a_state_that_does_not_fit_names_its_file(tmp_path, monkeypatch):
    state, _, _ = saved_after(6, monkeypatch)
    with pytest.raises(RunFolderError, match=r"here\.pt is damaged"):
        fit(Line(), config(10), resume={**state, "model": {}}, resume_path=tmp_path / "here.pt")


def test_a_loss_that_is_no_number_changes_no_weight():
    problem, before = Line(nan_in=3), Line()
    torch.manual_seed(0)
    fit(before, config(2))
    torch.manual_seed(0)
    with pytest.raises(TrainingError, match=r"NaN or infinite at epoch 3 \(for a reason\)\."):
        fit(problem, config(5))
    assert torch.equal(values(problem), values(before))


def test_the_likely_cause():
    model = nn.Linear(2, 1)
    assert weights_diagnosis(model).startswith("the features grew")
    with torch.no_grad():
        model.bias[0] = float("nan")
    assert weights_diagnosis(model).startswith("the weights have grown")
