"""Graph classification: data, network, seeds and folds, scores, run folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from tqdm import tqdm

from jbpool.atomic import atomic_file
from jbpool.classification.config import ClassifyConfig
from jbpool.classification.encoders import CategoryEncoder, FeatureEncoder
from jbpool.classification.network import GraphClassifier
from jbpool.classification.pictured import choose_pictured
from jbpool.classification.problem import ClassifyProblem
from jbpool.classification.scores import CLASS_SCORES, LOWER_IS_BETTER, score
from jbpool.data import GraphData, load_graphs
from jbpool.engine.fit import TRAINING, Progress, fit
from jbpool.engine.forecast import Forecast, count
from jbpool.engine.processes import barrier, rank, world_size
from jbpool.engine.run_folder import RunFolder
from jbpool.engine.schema import as_dict
from jbpool.engine.state import save_state, usable
from jbpool.errors import ConfigError
from jbpool.nn.cluster_pool import ClusterPool
from jbpool.nn.pools import make_pool

# Content of finished.pt and checkpoint.pt, for load_state.
FOLD = {"method": str, "seed": int, "fold": int}
RUN = {"seed": int, "fold": int, "valid": float, "test": float}
FINISHED = {
    "runs": [RUN],
    "compared": dict[str, list[dict]],
    "predictions": [{**FOLD, "graph": Tensor, "label": Tensor, "scores": Tensor}],
    "best_valid": float | None,
}
UNFINISHED = {**FOLD, "training": {**TRAINING, "problem": {"best": {"key": list | None, "state": dict | None}}}}



def load_data(config: ClassifyConfig) -> GraphData:
    """The dataset of a configuration, with edge features summed per node."""
    return load_graphs(config.dataset.name, config.dataset.root, **config.dataset.options).with_edge_sums()


def numbers_of_clusters(config: ClassifyConfig, mean_size: float) -> list[int]:
    """K of every level: as configured, or ``ratio`` times the mean size of the graphs of the previous level."""
    levels, given, ratio = config.model.levels, config.model.num_clusters, config.model.ratio
    if given is not None:
        return given if len(given) == levels else given * levels
    return [max(2, round(mean_size * (ratio or 0.5) ** (level + 1))) for level in range(levels)]


def make_model(config: ClassifyConfig, data: GraphData, train: Tensor) -> GraphClassifier:
    """The network of a configuration for these training graphs."""
    model = config.model
    encoder: nn.Module
    if data.feat.is_floating_point():
        encoder = FeatureEncoder(data.batch(train).feat, model.hidden)
    else:
        encoder = CategoryEncoder((data.feat.amax(0) + 1).tolist(), model.hidden)
    clusters = numbers_of_clusters(config, data.sizes[train].float().mean().item())

    def pool(num_clusters: int) -> ClusterPool | None:
        if model.pool == "none":
            return None
        return make_pool(model.pool, model.hidden, num_clusters, model.mlp, options=config.method)

    return GraphClassifier(
        encoder, [pool(num_clusters) for num_clusters in clusters], data.num_classes,
        backbone=model.backbone, layers=model.layers, hidden=model.hidden, delta=model.delta,
        edge_feats=0 if data.edge_sum is None else data.edge_sum.shape[1],
        readout=model.readout.split("+"), read_all=model.readout_of == "all", norm=model.norm, dropout=model.dropout,
    )  # fmt: skip


def run(
    config: ClassifyConfig,
    data: GraphData,
    folder: Path,
    device: torch.device,
    resume: bool = False,
    folds: Sequence[int] | None = None,
) -> RunFolder:
    """Run a configuration into a folder.

    Parameters
    ----------
    config : ClassifyConfig
        What to run.
    data : GraphData
        As returned by :func:`load_data`.
    folder : Path
        The run folder.
    device : torch.device
        Where to train.
    resume : bool, default False
        Continue the run in the folder; what is finished is not repeated.
    folds : sequence of int, optional
        Which folds to run; by default all.
    """
    if data.metric == "acc" and data.num_classes < 2:
        raise ConfigError(f"{data.name} has one class: there is nothing to classify.")
    if config.train.batch_size < world_size():
        raise ConfigError(f"train.batch_size={config.train.batch_size} is less than the {world_size()} processes.")
    if data.official_split is not None:
        if folds not in (None, [0]):
            raise ConfigError(f"--folds: {data.name} has an official split and no folds; use --seeds instead.")
        folds = [0]
    elif folds is None:
        folds = range(config.train.folds)
    for fold in folds:
        if not 0 <= fold < config.train.folds:
            raise ConfigError(f"--folds {fold}: train.folds={config.train.folds}, and folds are numbered from 0.")
    out = RunFolder(folder, config.task, data.name, config.model.pool, as_dict(config), data.fingerprint)
    job = _Job(config, data, out, device)
    if resume:
        job.load()
    barrier()                                               # no process removes files that another is still reading
    if rank() == 0:
        out.start()
        with usable(folder / "finished.pt"):
            job.save_predictions()
        processes = f", {world_size()} processes" if world_size() > 1 else ""
        print(f"{data!r}\n{', '.join(job.methods)}; seeds {config.train.seeds}{processes}, into {folder}")
    try:
        job.run(folds)
    except KeyboardInterrupt:
        if rank() == 0:
            out.history += job.curve
            out.save()                                      # results so far; --resume does not need them
        raise
    return out


class _Job:
    """Runs the folds of all methods and seeds in sequence."""

    def __init__(self, config: ClassifyConfig, data: GraphData, out: RunFolder, device: torch.device):
        self.config, self.data, self.out, self.device = config, data, out, device
        self.methods = list(dict.fromkeys([config.model.pool, *config.model.compare]))
        self.predictions: list[dict[str, Any]] = []         # for the test graphs, one entry per finished fold
        self.best_valid: float | None = None
        self.unfinished: dict[str, Any] = {}
        self.curve: list[dict[str, Any]] = []               # of the current fold

    def load(self) -> None:
        state = self.out.finished(FINISHED)
        if state:
            self.predictions, self.best_valid = state["predictions"], state["best_valid"]
        self.unfinished = self.out.unfinished(UNFINISHED)

    def run(self, folds: Sequence[int]) -> None:
        left = [
            (method, seed, fold)
            for method in self.methods
            for seed in self.config.train.seeds
            for fold in folds
            if (seed, fold) not in self.finished(method)
        ]
        what = f"{count(len(left), 'training')} (pools x seeds x folds)"
        shorter = "shorter: fewer train.epochs, --folds or --seeds, or a lower train.patience"
        forecast = Forecast(len(left), what, shorter) if rank() == 0 else None
        for method, seed, fold in left:
            self.run_fold(method, seed, fold, forecast)

    def finished(self, method: str) -> set[tuple[int, int]]:
        """Finished (seed, fold) pairs of a method."""
        runs = self.out.runs if method == self.out.method else self.out.compared.get(method, [])
        return {(run["seed"], run["fold"]) for run in runs}

    def run_fold(self, method: str, seed: int, fold: int, forecast: Forecast | None) -> None:
        name = f"{method} seed {seed} fold {fold}"
        config = replace(self.config, model=replace(self.config.model, pool=method))
        split = self.data.split(fold, config.train.folds)
        torch.manual_seed(1_000_003 * seed + fold)
        model = make_model(config, self.data, split.train).to(self.device)
        problem = ClassifyProblem(model, self.data, split, config, seed, self.device)
        where = {"method": method, "seed": seed, "fold": fold}
        resume = None
        if {key: self.unfinished.get(key) for key in where} == where:
            resume, self.unfinished = self.unfinished["training"], {}

        with tqdm(total=config.train.epochs, desc=name, leave=False, mininterval=0.5, disable=rank() > 0) as bar:

            def report(progress: Progress, row: dict[str, Any]) -> None:
                self.curve = [{**where, **row} for row in progress.history]
                bar.update(progress.epoch - bar.n)
                shown = {key: f"{row[key]:.3f}" for key in ("loss", "pool_loss", "valid")}
                bar.set_postfix(**shown, s_per_step=f"{progress.seconds_per_step:.4f}", refresh=False)

            progress = fit(
                problem, config.train, weight_decay=config.train.weight_decay, report=report, resume=resume,
                resume_path=self.out.path / "checkpoint.pt", forecast=forecast,
                checkpoint=(lambda state: self.out.checkpoint(**where, training=state)) if rank() == 0 else None,
            )  # fmt: skip
        problem.load_best()
        scores, label = problem.predict(split.test), self.data.label[split.test]       # test graphs are used only here
        found = {
            "seed": seed, "fold": fold, "metric": self.data.metric, "valid": problem.best["valid"],
            "test": score(self.data, scores, label), "epochs": progress.epoch, "best_epoch": progress.best_epoch,
            "seconds": progress.seconds, "seconds_per_step": progress.seconds_per_step,
        }  # fmt: skip
        if self.data.metric == "acc":
            found |= {name: function(scores, label) for name, function in CLASS_SCORES.items()}
        if method == self.out.method:
            self.out.runs.append(found)
        else:
            self.out.compared.setdefault(method, []).append(found)
        self.out.history += [{**where, **row} for row in progress.history]
        self.curve = []
        self.predictions.append({**where, "graph": split.test, "label": label, "scores": scores})
        if rank() > 0:
            return
        self._keep_best(problem, method, found["valid"], split.test, scores)
        self.save_predictions()                             # before the fold is recorded as finished
        self.out.keep(predictions=self.predictions, best_valid=self.best_valid)
        print(f"{name}: valid {found['valid']:.3f}, test {found['test']:.3f}, {progress.epoch} epochs")

    def _keep_best(self, problem: ClassifyProblem, method: str, valid: float, test: Tensor, scores: Tensor) -> None:
        """Save the model with the best validation score, and its clusters of some test graphs."""
        worse = self.best_valid is not None and (
            valid >= self.best_valid if self.data.metric in LOWER_IS_BETTER else valid <= self.best_valid
        )
        if method != self.out.method or worse:
            return
        self.best_valid = valid
        state = {key: value.cpu() for key, value in problem.model.state_dict().items()}
        save_state(self.out.path / "model.pt", {"state": state, "train": problem.split.train})
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
        with atomic_file(self.out.path / "predictions.npz") as file:
            np.savez_compressed(file, **columns)
