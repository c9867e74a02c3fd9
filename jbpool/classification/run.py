"""A run of graph classification: its folds, seeds and trials, and what of them is kept in the run folder."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from jbpool.classification.class_scores import MORE_SCORES, averaged, digits, score
from jbpool.classification.config import ClassifyConfig
from jbpool.classification.model import Inputs, make_model, numbers_of_clusters
from jbpool.classification.report import Results, choose_pictured, page, target_names
from jbpool.classification.search import budget, settings_to_try
from jbpool.classification.training import ClassifyProblem
from jbpool.data import GraphData, load_graphs
from jbpool.data.datasets import UNLABELLED
from jbpool.engine.fit import Log, fit_unit, open_log
from jbpool.engine.run_folder import RunFolder
from jbpool.errors import ConfigError
from jbpool.files import atomic_file, save_state
from jbpool.processes import rank, world_size
from jbpool.schema import as_dict


class Job:
    """Runs the folds of all methods and seeds in sequence."""

    def __init__(self, config: ClassifyConfig, data: GraphData, out: RunFolder, device: torch.device, log: Log | None):
        self.config, self.data, self.out, self.device, self.log = config, data, out, device, log
        self.methods = list(dict.fromkeys([config.model.pool, *config.model.compare]))
        self.trials = {method: settings_to_try(config, method) for method in self.methods}
        self.own = out.own
        self.own |= {
            "tried": [],                # the finished trials of a search
            "leader": {},               # the best trial so far of the current fold
            "predictions": [],          # for the test graphs, one entry per finished fold
            "best_valid": None,
            "pictures": [],             # of test graphs, by the model with this score
        }
        if rank() > 0:
            return
        out.write = self.save_predictions
        out.draw = lambda: page(Results(out.result, out.history, data, self.tested(), self.own["pictures"]))

    def run(self, folds: Sequence[int]) -> None:
        """Run what is left of these folds."""
        units = itertools.product(self.methods, self.config.train.seeds, folds)
        for unit in self.out.left(dict(zip(("method", "seed", "fold"), unit, strict=True)) for unit in units):
            self.run_fold(unit)

    def run_fold(self, unit: dict[str, Any]) -> None:
        """Train every trial, then score the test graphs with the one that has the best validation score."""
        if {key: self.own["leader"].get(key) for key in unit} != unit:
            self.own["leader"] = {}            # another fold was begun since: trials of this one are repeated
            self.own["tried"] = [trial for trial in self.own["tried"] if {key: trial[key] for key in unit} != unit]
        best: ClassifyProblem | None = None
        for number in range(self.own["leader"].get("tried", 0), len(self.trials[unit["method"]])):
            problem = self.problem(unit, number)
            self.run_trial(problem, unit, number)
            best = problem if self.own["leader"]["trial"] == number else best
        if best is None:                # the best trial was before an interruption
            best = self.problem(unit, self.own["leader"]["trial"])
        best.model.load_state_dict(self.own["leader"]["state"])
        self.finish_fold(best, unit)

    def problem(self, unit: dict[str, Any], number: int) -> ClassifyProblem:
        """Return the untrained network of a trial, with the graphs of the fold."""
        config = self.trials[unit["method"]][number].config
        split = self.data.split(unit["fold"], config.train.folds)
        torch.manual_seed(1_000_003 * unit["seed"] + unit["fold"])
        model = make_model(config, self.data, split.train).to(self.device)
        return ClassifyProblem(model, self.data, split, config, unit["seed"], self.device)

    def run_trial(self, problem: ClassifyProblem, unit: dict[str, Any], number: int) -> None:
        """Train with one of the settings to try, and keep the result if it is the best of the fold so far."""
        train, settings = problem.config.train, self.trials[unit["method"]][number].values
        here = {**unit, "trial": number}
        name = self.name(unit) + (f" trial {number}" if self.config.search.grid else "")
        progress = fit_unit(
            problem, train, self.out, unit, name=name, shown=("loss", "pool_loss", "valid"), log=self.log,
            kept={"trial": number}, resume=self.out.continued(**here).get("training"),
            weight_decay=train.weight_decay, schedule=train.schedule,
        )  # fmt: skip
        self.out.curve = []
        best = problem.best
        if not self.own["leader"] or best["key"] > self.own["leader"]["key"]:
            self.own["leader"] = {
                **unit, "trial": number, "key": best["key"], "history": progress.history,
                "state": {key: value.cpu() for key, value in best["state"].items()},
                "scores": {
                    "valid": best["valid"], "epochs": progress.epoch, "best_epoch": progress.best_epoch,
                    "seconds": progress.seconds, "seconds_per_step": progress.seconds_per_step,
                },
            }  # fmt: skip
        self.own["leader"]["tried"] = number + 1
        if not self.config.search.grid:
            return
        self.own["tried"].append(
            {
                **here, "settings": settings, "valid": best["valid"], "valid_loss": -best["key"][1],
                "epochs": progress.epoch, "seconds": progress.seconds,
            }
        )  # fmt: skip
        if rank() == 0:
            self.out.keep()
            print(f"{name}: valid {digits(best['valid'], self.data.metric)} ({_shown(settings)})")

    def finish_fold(self, problem: ClassifyProblem, unit: dict[str, Any]) -> None:
        """Score the test graphs with the best trial and save everything."""
        leader, test = self.own["leader"], problem.split.test
        members, label = problem.predict(test), self.data.label[test]                  # test graphs are used only here
        scores = averaged(members, self.data.metric)
        scored = {"metric": self.data.metric, "test": score(self.data, scores, label), **leader["scores"]}
        if len(members) > 1:
            scored["test_single"] = float(np.mean([score(self.data, member, label) for member in members]))
        more = MORE_SCORES.get(self.data.metric, {})
        scored |= {name: function(scores, label) for name, function in more.items()}
        if self.config.search.grid:
            scored |= {"trial": leader["trial"], "settings": self.trials[unit["method"]][leader["trial"]].values}
        self.own["predictions"].append({**unit, "graph": test, "label": label, "scores": scores})
        self.out.record(unit, scored, [{**unit, **row} for row in leader["history"]])
        self.own["leader"] = {}
        if rank() > 0:
            return
        self._keep_best(problem, unit, scored["valid"], scores)
        self.out.keep()
        names = {"valid": "valid", "test": "test", "test_single": "single networks"}
        shown = [f"{name} {digits(scored[key], self.data.metric)}" for key, name in names.items() if key in scored]
        settings = f" ({_shown(scored['settings'])})" if self.config.search.grid else ""
        print(f"{self.name(unit)}: {', '.join(shown)}, {scored['epochs']} epochs{settings}")

    def name(self, unit: dict[str, Any]) -> str:
        """Return ``"jb seed 0 fold 3"``."""
        return f"{unit['method']} seed {unit['seed']} fold {unit['fold']}"

    def _keep_best(self, problem: ClassifyProblem, unit: dict[str, Any], valid: float, scores: Tensor) -> None:
        """Save the model with the best validation score, and its clusters of some test graphs."""
        worse = self.own["best_valid"] is not None and (
            valid >= self.own["best_valid"] if self.data.is_regression else valid <= self.own["best_valid"]
        )
        if unit["method"] != self.out.method or worse:
            return
        self.own["best_valid"] = valid
        train, test = problem.split.train, problem.split.test
        content = {
            "state": {key: value.cpu() for key, value in problem.model.state_dict().items()},
            "train": train, **unit, "valid": valid, "config": as_dict(problem.config),
            "clusters": numbers_of_clusters(problem.config, self.data.mean_size(train)),
            "inputs": vars(Inputs.of(self.data)),
        }  # fmt: skip
        save_state(self.out.path / "model.pt", content)
        self.own["pictures"] = problem.clusters(choose_pictured(self.data, test, scores).tolist())

    def tested(self) -> dict[str, Tensor]:
        """Return the test graphs of every fold with their labels and scores, and seed and fold of each."""
        ours = [entry for entry in self.own["predictions"] if entry["method"] == self.out.method]
        columns = {key: torch.cat([entry[key] for entry in ours]) for key in ("graph", "label", "scores")}
        for key in ("seed", "fold"):
            columns[key] = torch.cat([torch.full((len(entry["graph"]),), entry[key]) for entry in ours])
        return columns

    def save_predictions(self) -> None:
        """Write ``predictions.npz``: labels and scores of the test graphs of every fold."""
        if self.config.search.grid:
            self.out.details["search"] = self.own["tried"]
        if self.out.runs:
            columns: dict[str, Any] = {key: column.numpy() for key, column in self.tested().items()}
            columns["id"] = self.data.own_ids[columns["graph"]].astype(str)
            with atomic_file(self.out.path / "predictions.npz") as file:
                np.savez_compressed(file, **columns)


def _shown(settings: dict[str, Any]) -> str:
    """Return ``"model.dropout=0.3, train.lr=0.001"``."""
    return ", ".join(f"{key}={value}" for key, value in settings.items())


def load_data(config: ClassifyConfig) -> GraphData:
    """Return the dataset of a configuration, with edge features summed per node, and per edge if a trial needs them."""
    data = load_graphs(config.dataset.name, config.dataset.root, **config.dataset.options)
    tried = [config.model.edges, *config.search.grid.get("model", {}).get("edges", [])]
    return data.with_edge_sums(keep="messages" in tried)


def run(
    config: ClassifyConfig,
    data: GraphData,
    folder: Path,
    device: torch.device,
    resume: bool = False,
    folds: Sequence[int] | None = None,
    log: str | None = None,
) -> RunFolder:
    """Run a configuration on what ``load_data`` returned, into a folder.

    ``resume`` continues the run in the folder; what is finished is not repeated. ``folds``: which to run, by default
    all. ``log``: ``"tensorboard"`` or ``"mlflow"``, to pass every evaluation on to.
    """
    if config.train.batch_size < world_size():
        size = f"train.batch_size={config.train.batch_size} is less than the {world_size()} processes"
        raise ConfigError(f"{size}: give each of them a graph.")
    cross_validate = folds is not None or not config.train.official_split
    if data.official_split is not None and (data.metric == "acc" or data.is_regression) and cross_validate:
        config = replace(config, train=replace(config.train, official_split=False))     # of all graphs together
        data = replace(data, official_split=None)
        if rank() == 0:
            print(f"the split of {data.name} is not used: folds of all graphs (--folds, or train.official_split=false)")
    _check_labels(data)
    if data.official_split is not None:
        if folds not in (None, [0]) or not config.train.official_split:
            given = "train.official_split=false" if folds is None else "--folds"
            raise ConfigError(f"{given}: {data.name} has an official split and no folds; use --seeds instead.")
        folds = [0]
    elif folds is None:
        folds = range(config.train.folds)
    folds = list(dict.fromkeys(folds))
    if unknown := {*folds} - {*range(config.train.folds)}:
        raise ConfigError(f"--folds {min(unknown)}: train.folds={config.train.folds}, and folds are numbered from 0.")
    data.split(folds[0], config.train.folds)                # an error before anything is written
    out = RunFolder(folder, config.task, data.name, config.model.pool, as_dict(config), data.fingerprint)
    job = Job(config, data, out, device, open_log(log, folder) if log else None)
    out.begin(resume)
    if rank() == 0:
        processes = f", {world_size()} processes" if world_size() > 1 else ""
        print(f"{data!r}\n{', '.join(job.methods)}; seeds {config.train.seeds}{processes}, into {folder}")
        if config.search.grid:
            counts = {method: len(settings) for method, settings in job.trials.items()}
            print(budget(counts, len(folds) * len(config.train.seeds)))
    with out.leaving():
        job.run(folds)
    return out


def _check_labels(data: GraphData) -> None:
    """Refuse graphs without a class or a number to predict, and fewer than two classes."""
    used = data.label if data.official_split is None else data.label[torch.cat(data.official_split)]
    unknown = int((used == UNLABELLED).sum()) if data.metric == "acc" else 0
    if data.is_regression:
        for name, column in zip(target_names(data), used.unbind(1), strict=True):
            if not bool(column.isfinite().any()):
                raise ConfigError(f"{data.name}: no graph has a number to predict {name!r}: training needs them.")
        unknown = int((~used.isfinite()).all(1).sum())
    if unknown:
        kind, apply = ("number", "predict") if data.is_regression else ("class", "classify")
        fix = f"leave them out, and {apply} them with --predict afterwards"
        raise ConfigError(f"{data.name}: {unknown} of {len(used)} graphs have no {kind} to train on; {fix}.")
    if data.metric == "acc" and data.num_classes < 2:
        raise ConfigError(f"{data.name} has one class: there is nothing to classify.")
