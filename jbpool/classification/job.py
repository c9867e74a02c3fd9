"""The training runs in sequence: methods, seeds, folds and, in a search, trials."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from jbpool.atomic import atomic_file
from jbpool.classification.config import ClassifyConfig
from jbpool.classification.model import Inputs, make_model, numbers_of_clusters
from jbpool.classification.pictured import choose_pictured
from jbpool.classification.problem import ClassifyProblem
from jbpool.classification.scores import CLASS_SCORES, LOWER_IS_BETTER, score
from jbpool.classification.search import trials, with_settings
from jbpool.data import GraphData
from jbpool.engine.fit import TRAINING, Progress, fit
from jbpool.engine.forecast import Forecast, count
from jbpool.engine.processes import gather, rank
from jbpool.engine.run_folder import RunFolder
from jbpool.engine.schema import as_dict
from jbpool.engine.state import save_state

# Content of finished.pt and checkpoint.pt, for load_state.
FOLD = {"method": str, "seed": int, "fold": int}
RUN = {"seed": int, "fold": int, "valid": float, "test": float}
FINISHED = {
    "runs": [RUN],
    "compared": dict[str, list[dict]],
    "predictions": [{**FOLD, "graph": Tensor, "label": Tensor, "scores": Tensor}],
    "best_valid": float | None,
    "tried": [{**FOLD, "trial": int, "settings": dict, "valid": float}],
    "leader": dict,
}
UNFINISHED = {
    **FOLD,
    "trial": int,
    "training": {**TRAINING, "problem": {"best": {"key": list | None, "state": dict | None}}},
}


class Job:
    """Runs the folds of all methods and seeds in sequence."""

    def __init__(self, config: ClassifyConfig, data: GraphData, out: RunFolder, device: torch.device):
        self.config, self.data, self.out, self.device = config, data, out, device
        self.methods = list(dict.fromkeys([config.model.pool, *config.model.compare]))
        self.trials = {method: trials(config, method) for method in self.methods}
        self.tried: list[dict[str, Any]] = []               # the finished trials of a search
        self.leader: dict[str, Any] = {}                    # the best trial so far of the current fold
        self.predictions: list[dict[str, Any]] = []         # for the test graphs, one entry per finished fold
        self.best_valid: float | None = None
        self.unfinished: dict[str, Any] = {}
        self.curve: list[dict[str, Any]] = []               # of the current training

    def load(self) -> None:
        """Restore finished and interrupted work, read by the first process, since its machine has the folder."""
        if rank() == 0:
            state = self.out.finished(FINISHED)
            if state:
                self.predictions, self.best_valid = state["predictions"], state["best_valid"]
                self.tried, self.leader = state["tried"], state["leader"]
                self.out.details = self.out.kept_details()
            self.unfinished = self.out.unfinished(UNFINISHED)
        decisive = self.tried, self.leader, self.unfinished, self.out.runs, self.out.compared
        self.tried, self.leader, self.unfinished, self.out.runs, self.out.compared = gather(decisive)[0]

    def run(self, folds: Sequence[int]) -> None:
        """Run what is left of these folds."""
        left = [
            (method, seed, fold)
            for method in self.methods
            for seed in self.config.train.seeds
            for fold in folds
            if (seed, fold) not in self.finished(method)
        ]
        trainings = sum(len(self.trials[method]) for method, _, _ in left) - self.leader.get("tried", 0)
        factors = "pools x seeds x folds" + " x trials" * bool(self.config.search.grid)
        what = f"{count(trainings, 'training run')} ({factors})"
        shorter = "shorter: fewer train.epochs, --folds or --seeds"
        forecast = Forecast(trainings, what, shorter) if rank() == 0 else None
        for method, seed, fold in left:
            self.run_fold({"method": method, "seed": seed, "fold": fold}, forecast)

    def finished(self, method: str) -> set[tuple[int, int]]:
        """Finished (seed, fold) pairs of a method."""
        runs = self.out.runs if method == self.out.method else self.out.compared.get(method, [])
        return {(run["seed"], run["fold"]) for run in runs}

    def run_fold(self, where: dict[str, Any], forecast: Forecast | None) -> None:
        """Train every trial, then score the test graphs with the one that has the best validation score."""
        if {key: self.leader.get(key) for key in where} != where:
            self.leader = {}            # another fold was begun since: trials of this one are repeated
            self.tried = [trial for trial in self.tried if {key: trial[key] for key in where} != where]
        for number in range(self.leader.get("tried", 0), len(self.trials[where["method"]])):
            self.run_trial(where, number, forecast)
        self.finish_fold(where)

    def problem(self, where: dict[str, Any], number: int) -> ClassifyProblem:
        """The untrained network of a trial, with the graphs of the fold."""
        config = replace(self.config, model=replace(self.config.model, pool=where["method"]))
        config = with_settings(config, self.trials[where["method"]][number])
        split = self.data.split(where["fold"], config.train.folds)
        torch.manual_seed(1_000_003 * where["seed"] + where["fold"])
        model = make_model(config, self.data, split.train).to(self.device)
        return ClassifyProblem(model, self.data, split, config, where["seed"], self.device)

    def run_trial(self, where: dict[str, Any], number: int, forecast: Forecast | None) -> None:
        """Train with one of the settings to try, and keep the result if it is the best of the fold so far."""
        problem, settings = self.problem(where, number), self.trials[where["method"]][number]
        train = problem.config.train
        here, resume = {**where, "trial": number}, None
        if {key: self.unfinished.get(key) for key in here} == here:
            resume, self.unfinished = self.unfinished["training"], {}
        name = self.name(where) + (f" trial {number}" if self.config.search.grid else "")

        with tqdm(total=train.epochs, desc=name, leave=False, mininterval=0.5, disable=rank() > 0) as bar:

            def report(progress: Progress, row: dict[str, Any]) -> None:
                self.curve = [{**where, **row} for row in progress.history]
                shown = {key: f"{row[key]:.3f}" for key in ("loss", "pool_loss", "valid")}
                bar.set_postfix(**shown, s_per_step=f"{progress.seconds_per_step:.4f}", refresh=False)

            progress = fit(
                problem, train, weight_decay=train.weight_decay, schedule=train.schedule,
                each_epoch=lambda progress: bar.update(progress.epoch - bar.n), report=report, resume=resume,
                resume_path=self.out.path / "checkpoint.pt", forecast=forecast,
                checkpoint=(lambda state: self.out.checkpoint(**here, training=state)) if rank() == 0 else None,
            )  # fmt: skip
        self.curve = []
        best = problem.best
        if not self.leader or best["key"] > self.leader["key"]:
            self.leader = {
                **where, "trial": number, "key": best["key"], "history": progress.history,
                "state": {key: value.cpu() for key, value in best["state"].items()},
                "found": {
                    "valid": best["valid"], "epochs": progress.epoch, "best_epoch": progress.best_epoch,
                    "seconds": progress.seconds, "seconds_per_step": progress.seconds_per_step,
                },
            }  # fmt: skip
        self.leader["tried"] = number + 1
        if not self.config.search.grid:
            return
        self.tried.append(
            {
                **here, "settings": settings, "valid": best["valid"], "valid_loss": -best["key"][1],
                "epochs": progress.epoch, "seconds": progress.seconds,
            }
        )  # fmt: skip
        if rank() == 0:
            self.keep()
            print(f"{name}: valid {best['valid']:.3f} ({_shown(settings)})")

    def finish_fold(self, where: dict[str, Any]) -> None:
        """Score the test graphs with the best trial and save everything."""
        problem, leader = self.problem(where, self.leader["trial"]), self.leader
        problem.model.load_state_dict(leader["state"])
        test = problem.split.test
        scores, label = problem.predict(test), self.data.label[test]                   # test graphs are used only here
        found = {
            "seed": where["seed"], "fold": where["fold"], "metric": self.data.metric,
            "test": score(self.data, scores, label), **leader["found"],
        }  # fmt: skip
        if self.data.metric == "acc":
            found |= {name: function(scores, label) for name, function in CLASS_SCORES.items()}
        settings = self.trials[where["method"]][leader["trial"]]
        if self.config.search.grid:
            found |= {"trial": leader["trial"], "settings": settings}
        if where["method"] == self.out.method:
            self.out.runs.append(found)
        else:
            self.out.compared.setdefault(where["method"], []).append(found)
        self.out.history += [{**where, **row} for row in leader["history"]]
        self.predictions.append({**where, "graph": test, "label": label, "scores": scores})
        self.leader = {}
        if rank() > 0:
            return
        self._keep_best(problem, where, found["valid"], scores)
        self.save_predictions()                             # before the fold is recorded as finished
        self.keep()
        scored = f"valid {found['valid']:.3f}, test {found['test']:.3f}, {found['epochs']} epochs"
        print(f"{self.name(where)}: {scored}" + (f" ({_shown(settings)})" if self.config.search.grid else ""))

    def name(self, where: dict[str, Any]) -> str:
        """``"jb seed 0 fold 3"``."""
        return f"{where['method']} seed {where['seed']} fold {where['fold']}"

    def keep(self) -> None:
        """Save everything that is finished."""
        if self.config.search.grid:
            self.out.details["search"] = self.tried
        self.out.keep(predictions=self.predictions, best_valid=self.best_valid, tried=self.tried, leader=self.leader)

    def _keep_best(self, problem: ClassifyProblem, where: dict[str, Any], valid: float, scores: Tensor) -> None:
        """Save the model with the best validation score, and its clusters of some test graphs."""
        worse = self.best_valid is not None and (
            valid >= self.best_valid if self.data.metric in LOWER_IS_BETTER else valid <= self.best_valid
        )
        if where["method"] != self.out.method or worse:
            return
        self.best_valid = valid
        train, test = problem.split.train, problem.split.test
        content = {
            "state": {key: value.cpu() for key, value in problem.model.state_dict().items()},
            "train": train, **where, "valid": valid, "config": as_dict(problem.config),
            "clusters": numbers_of_clusters(problem.config, self.data.mean_size(train)),
            "inputs": vars(Inputs.of(self.data)),
        }  # fmt: skip
        save_state(self.out.path / "model.pt", content)
        pictured = choose_pictured(self.data, test, scores)
        save_state(self.out.path / "pictures.pt", {"pictures": problem.clusters(pictured.tolist())})

    def save_predictions(self) -> None:
        """Write ``predictions.npz``: labels and scores of the test graphs of every fold."""
        ours = [entry for entry in self.predictions if entry["method"] == self.out.method]
        if not ours:
            return
        columns: dict[str, Any] = {}
        for key in ("graph", "label", "scores"):
            columns[key] = torch.cat([entry[key] for entry in ours])
        for key in ("seed", "fold"):
            columns[key] = np.concatenate([np.full(len(entry["graph"]), entry[key]) for entry in ours])
        columns["id"] = self.data.own_ids[columns["graph"].numpy()].astype(str)
        with atomic_file(self.out.path / "predictions.npz") as file:
            np.savez_compressed(file, **columns)


def _shown(settings: dict[str, Any]) -> str:
    """``"model.dropout=0.3, train.lr=0.001"``."""
    return ", ".join(f"{key}={value}" for key, value in settings.items())
