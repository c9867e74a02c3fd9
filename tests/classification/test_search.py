"""Model selection: distinct trials, equal budgets, choice by validation alone, resuming."""

from functools import partial

import pytest
from commands import CLASSIFY, call, result_of, run_task, settings

from jbpool.classification import run as jobs
from jbpool.classification.graph_classify import GRAPH_CLASSIFY
from jbpool.classification.search import budget, settings_to_try, with_values
from jbpool.engine.config import load_config
from jbpool.errors import ConfigError

GRID = ["search.grid.model.dropout=[0, 0.5]", "search.grid.model.aux_weight=[0.1, 1]"]
run = partial(run_task, CLASSIFY)


def trials(config, method):
    return [setting.values for setting in settings_to_try(config, method)]


def load(*changes):
    return load_config(GRAPH_CLASSIFY, None, [*CLASSIFY.changes, "train.epochs=3", *changes])


def test_settings_that_do_not_concern_a_method_are_tried_once():
    config = load(*GRID, "search.grid.method.temperature=[0.2, 0.5]", "search.grid.method.sqrt=[matrix, diagonal]")
    assert len(trials(config, "jb")) == 8                   # the temperature of a linear head has no effect
    assert len(trials(config, "mincut")) == 4
    assert len(trials(config, "jb-diagonal")) == 4          # its square root is fixed
    assert trials(config, "none") == [{"model.dropout": 0}, {"model.dropout": 0.5}]
    heads = load("search.grid.method.temperature=[0.2, 0.5]", "search.grid.method.head=[linear, cosine]")
    assert len(trials(heads, "jb")) == 3
    assert len(trials(load("search.grid.model.num_clusters=[4, [4], 5, 4]"), "jb")) == 2
    assert len(trials(load("model.levels=2", "search.grid.model.num_clusters=[4, [4, 4], [8, 4]]"), "jb")) == 2
    assert len(trials(load("model.backbone=gin", "search.grid.model.delta=[0.5, 0.85]"), "jb")) == 1
    deltas = load("search.grid.model.delta=[0.5, 0.85]", "search.grid.model.backbone=[gin, delta]")
    assert len(trials(deltas, "jb")) == 3
    assert len(trials(load("search.grid.model.mlp=[[16], [16, 16]]"), "jb")) == 2          # different networks
    kept = load("search.grid.model.ratio=[0.25, 0.5]", "search.grid.model.aux_weight=[0.1, 1]")
    assert [len(trials(kept, method)) for method in ("jb", "topk", "kmis", "none")] == [4, 2, 1, 1]
    assert trials(load(), "jb") == [{}]


def test_random_draws_give_every_method_the_same_number():
    changes = [*GRID, "search.grid.train.lr=[1e-3, 3e-3, 1e-2]", "search.trials=5"]
    config = load(*changes)
    drawn = {method: trials(config, method) for method in ("jb", "none", "dmon")}
    assert all(len({repr(trial) for trial in some}) == 5 for some in drawn.values())
    assert drawn["jb"] == trials(config, "jb") == drawn["dmon"]
    assert drawn["jb"] != trials(load(*changes, "search.seed=1"), "jb")
    assert "5 of jb, 5 of none; 20 training runs in all" in budget({"jb": 5, "none": 5}, 2)
    assert "budgets differ" in budget({"jb": 4, "none": 2}, 2)


def test_one_of_two_exclusive_settings():
    config = load("model.num_clusters=[6]", "search.grid.model.ratio=[0.1, 0.2]")
    tried = [setting.config.model for setting in settings_to_try(config, "jb")]
    assert [(model.ratio, model.num_clusters) for model in tried] == [(0.1, None), (0.2, None)]


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    folder = tmp_path_factory.mktemp("search") / "r"
    return run(load(*GRID), folder), folder


def test_the_best_validation_score_is_chosen_in_every_fold(searched):
    out, _ = searched
    tried = out.result["search"]
    assert len(tried) == 2 * (4 + 2)                        # folds x (jb, none)
    for method, runs in {"jb": out.runs, **out.compared}.items():
        for entry in runs:
            here = [one for one in tried if (one["method"], one["fold"]) == (method, entry["fold"])]
            best = max(here, key=lambda one: (one["valid"], -one["valid_loss"]))
            assert all(entry[key] == best[key] for key in ("trial", "settings", "valid"))
    assert "trial" in out.runs[0]
    assert "trial" not in out.result["mean"]                # the number of a trial is not a score


def test_the_result_is_that_of_the_chosen_settings_alone(searched, tmp_path):
    out, _ = searched
    entry = out.runs[1]
    config = with_values(load("model.compare=[]"), entry["settings"])
    alone = run(config, tmp_path / "r", folds=[1]).runs[0]
    assert all(alone[key] == entry[key] for key in ("valid", "test", "best_epoch"))


def stop_in(monkeypatch, number):
    """Ctrl-C in a training; returns the trainings that are begun."""
    fit, fits = jobs.fit_unit, []

    def fit_and_stop(problem, *args, **kwargs):
        fits.append(problem)
        if len(fits) == number:
            raise KeyboardInterrupt
        return fit(problem, *args, **kwargs)

    monkeypatch.setattr(jobs, "fit_unit", fit_and_stop)
    return fits


def without_times(out):
    return [{key: value for key, value in entry.items() if key != "seconds"} for entry in out.result["search"]]


def test_a_search_continues_after_the_last_finished_trial(searched, tmp_path, monkeypatch):
    whole, _ = searched
    fits = stop_in(monkeypatch, 4)
    with pytest.raises(KeyboardInterrupt):
        run(load(*GRID), tmp_path / "r")
    assert len(result_of(tmp_path / "r")["search"]) == 3
    out = run(load(*GRID), tmp_path / "r", resume=True)
    assert len(fits) == 1 + 12                              # the fourth was begun twice
    assert without_times(out) == without_times(whole)
    assert [entry["test"] for entry in out.runs] == [entry["test"] for entry in whole.runs]
    again = run(load(*GRID), tmp_path / "r", resume=True)
    assert len(fits) == 13
    assert again.result["search"] == out.result["search"]


def test_trials_that_are_repeated_are_listed_once(tmp_path, monkeypatch):
    """Another fold is begun before the interrupted one is continued."""
    stop_in(monkeypatch, 3)
    config = load(*GRID, "model.compare=[]", "train.epochs=1")
    with pytest.raises(KeyboardInterrupt):
        run(config, tmp_path / "r", folds=[0])
    run(config, tmp_path / "r", resume=True, folds=[1])
    out = run(config, tmp_path / "r", resume=True, folds=[0, 1])
    assert sorted((one["fold"], one["trial"]) for one in out.result["search"]) == [
        (fold, trial) for fold in (0, 1) for trial in range(4)
    ]


def test_the_command_prints_the_budget_and_lists_the_trials(tmp_path):
    changes = [*CLASSIFY.changes, *GRID, "train.epochs=1", "model.compare=[]"]
    printed = call(CLASSIFY.command, *settings(*changes), "--folds", "0", "--out", "r", cwd=tmp_path).out
    assert "4 of jb; 4 training runs in all" in printed
    assert "jb seed 0 fold 0 trial 3: valid" in printed
    page = (tmp_path / "r" / "report.html").read_text()
    assert "model.dropout 0.5, model.aux_weight 0.1" in page


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("search.grid.model.drop=[0]", "dropout"),
        ("search.grid.model.dropout=0.3", "list"),
        ("search.grid.model.dropout=[]", "list"),
        ("search.grid.modle.dropout=0", "Did you mean 'model'"),
        ("search.grid.dropout=[0, 0.3]", "mapping"),
        ("search.trials=4", "search.grid, which is empty"),
        ("search.grid.model={ratio: [0.1], num_clusters: [4]}", "search only one of them"),
        ("search.grid.dataset.name=[MUTAG]", "cannot be searched"),
        ("search.grid.train.seeds=[[0], [1]]", "cannot be searched"),
        (f"search.grid.train={{lr: {[1e-3] * 200}, epochs: {[3] * 200}}}", "40,000 combinations"),
        (f"search.grid.train={{lr: {[1e-3] * 200}, epochs: {[3] * 20}}}", "4,000 combinations: draw some"),
    ],
)
def test_errors(change, words):
    with pytest.raises(ConfigError, match=words):
        load(change)


def test_without_a_search_nothing_changes():
    config = load()
    assert [setting.config for setting in settings_to_try(config, "jb")] == [config]


def test_all_problems_of_a_grid_are_reported_together():
    changes = ["search.grid.model.dropout=[0, 2.0]", "search.grid.model.norm=[batch, bach]", "search.grid.train.lr=[0]",
               "search.grid.model.hiden=[8]", "search.grid.model.hidden=[many]"]  # fmt: skip
    with pytest.raises(ConfigError) as caught:
        load(*changes)
    for words in ("model.dropout=2", "'bach'", "train.lr=0", "hiden", "many"):
        assert words in str(caught.value)
    assert str(caught.value).count("bach") == 1
