"""The expected duration is printed once; the tests control the clock."""

import pytest
import torch

from jbpool.classification.task import GRAPH_CLASSIFY
from jbpool.clustering.task import NODE_CLUSTER
from jbpool.engine import fit as module
from jbpool.engine.config import load_config
from jbpool.engine.fit import Forecast, count, duration


def forecast(seconds_per_epoch: float, trainings: int, epochs: int, resumed: int = 0, stops_early: bool = False):
    """The messages printed during the given trainings."""
    said, now = [], [100.0]
    made = Forecast(trainings, "3 starts", "shorter: less", say=said.append, clock=lambda: now[0])
    for training in range(trainings):
        first = resumed if training == 0 else 0
        made.begin(first)
        for epoch in range(first, epochs):
            now[0] += seconds_per_epoch
            made.after(epoch + 1, epochs, stops_early)
    return said


def test_all_trainings_are_counted_and_it_is_said_once():
    assert forecast(0.64, trainings=5, epochs=300) == ["about 16 min for 3 starts x 300 epochs; shorter: less"]


def test_what_is_done_already_does_not_count():
    assert forecast(1.0, trainings=3, epochs=100, resumed=50)[0].startswith("about 4 min")          # 250 s


def test_early_stopping_makes_it_a_bound():
    assert forecast(1.0, trainings=3, epochs=100, stops_early=True)[0].startswith("up to 5 min")


def test_short_runs_say_nothing():
    assert forecast(0.01, trainings=5, epochs=300) == []
    assert forecast(10.0, trainings=1, epochs=5) == []
    assert forecast(10.0, trainings=1, epochs=7) == ["about 1 min for 3 starts x 7 epochs; shorter: less"]  # 10 + 60 s


def test_the_first_two_seconds_are_not_extrapolated():
    said, now = [], [0.0]
    made = Forecast(1, "1 start", "shorter: less", say=said.append, clock=lambda: now[0])
    made.begin(0)
    for epoch, now[0] in ((1, 1.9), (100, 2.1)):                # a slow first epoch
        made.after(epoch, 100, False)
    assert said == []


def test_a_slow_first_epoch_is_enough():
    assert forecast(300.0, trainings=2, epochs=100)[0].startswith("about 16.7 h")


def test_words_for_durations():
    words = {61: "1 min", 5000: "83 min", 5400: "1.5 h", 10**5: "27.8 h", 48 * 3600: "2 days", 10**6: "12 days"}
    assert {seconds: duration(seconds) for seconds in words} == words


def test_one_is_not_plural():
    assert [count(number, "seed") for number in (0, 1, 2)] == ["0 seeds", "1 seed", "2 seeds"]


@pytest.mark.parametrize(
    ("task", "changes", "more", "said"),
    [
        # 2 seeds x 3 starts, one after another: 6 x 10 epochs of 10 s
        (NODE_CLUSTER, ["train.seeds=[0, 1]", "train.restarts=3", "dataset.num_nodes=300", "train.patience=~"], {},
         "about 10 min for 2 seeds x 3 starts x 10 epochs; shorter: fewer train.epochs, train.restarts or --seeds, "
         "or train.patience to stop early"),
        # 2 pools x 1 seed x 2 folds of at most 10 epochs
        (GRAPH_CLASSIFY, ["dataset.num_graphs=30", "train.patience=9", "train.select=best"], {"folds": [0, 1]},
         "up to 7 min for 4 training runs (pools x seeds x folds) x 10 epochs; shorter: fewer train.epochs, --folds or "
         "--seeds"),
    ],
)  # fmt: skip
def test_both_tasks_say_it_once(task, changes, more, said, tmp_path, monkeypatch):
    lines, now = [], [0.0]

    def clock() -> float:
        now[0] += 10.0                      # read when a training begins and after every epoch
        return now[0]

    monkeypatch.setattr(module.Forecast.__init__, "__defaults__", (lines.append, clock, False))
    config = load_config(task, None, ["train.epochs=10", *changes])
    task.run(config, task.load_data(config), tmp_path / "run", torch.device("cpu"), **more)
    assert lines == [said]

