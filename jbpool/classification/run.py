"""Graph classification: data, network, seeds and folds, scores, run folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from jbpool.classification.config import ClassifyConfig
from jbpool.classification.job import Job
from jbpool.classification.search import budget
from jbpool.data import GraphData, load_graphs
from jbpool.data.containers import UNLABELLED
from jbpool.engine.processes import barrier, rank, world_size
from jbpool.engine.run_folder import RunFolder
from jbpool.engine.schema import as_dict
from jbpool.engine.state import usable
from jbpool.errors import ConfigError


def load_data(config: ClassifyConfig) -> GraphData:
    """The dataset of a configuration, with edge features summed per node, and per edge if a trial needs them."""
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
    if config.train.batch_size < world_size():
        raise ConfigError(f"train.batch_size={config.train.batch_size} is less than the {world_size()} processes.")
    cross_validate = folds is not None or not config.train.official_split
    if data.official_split is not None and data.metric == "acc" and cross_validate:
        config = replace(config, train=replace(config.train, official_split=False))     # of all graphs together
        data = replace(data, official_split=None)
        if rank() == 0:
            print(f"the split of {data.name} is not used: folds of all graphs (--folds, or train.official_split=false)")
    _check_classes(data)
    if data.official_split is not None:
        if folds not in (None, [0]) or not config.train.official_split:
            given = "train.official_split=false" if folds is None else "--folds"
            raise ConfigError(f"{given}: {data.name} has an official split and no folds; use --seeds instead.")
        folds = [0]
    elif folds is None:
        folds = range(config.train.folds)
    if len(set(folds)) < len(folds):
        raise ConfigError(f"--folds {','.join(map(str, folds))}: a fold is named twice.")
    for fold in folds:
        if not 0 <= fold < config.train.folds:
            raise ConfigError(f"--folds {fold}: train.folds={config.train.folds}, and folds are numbered from 0.")
    data.split(folds[0], config.train.folds)                # an error before anything is written
    out = RunFolder(folder, config.task, data.name, config.model.pool, as_dict(config), data.fingerprint)
    job = Job(config, data, out, device)
    if resume:
        job.load()
    barrier()                                               # no process removes files that another is still reading
    if rank() == 0:
        out.start()
        if resume:
            with usable(folder / "finished.pt"):
                job.save_predictions()
        processes = f", {world_size()} processes" if world_size() > 1 else ""
        print(f"{data!r}\n{', '.join(job.methods)}; seeds {config.train.seeds}{processes}, into {folder}")
        if config.search.grid:
            print(budget(config, job.methods, len(folds)))
    try:
        job.run(folds)
    except KeyboardInterrupt:
        if rank() == 0:
            out.history += job.curve
            out.save()                                      # results so far; --resume does not need them
        raise
    return out


def _check_classes(data: GraphData) -> None:
    """Every graph needs a class, and there must be two of them."""
    if data.metric != "acc":
        return
    used = data.label if data.official_split is None else data.label[torch.cat(data.official_split)]
    unknown = int((used == UNLABELLED).sum())
    if unknown:
        raise ConfigError(
            f"{data.name}: {unknown} of {len(used)} graphs have no class, but training needs one for every graph; "
            "leave them out, and classify them with --predict afterwards."
        )
    if data.num_classes < 2:
        raise ConfigError(f"{data.name} has one class: there is nothing to classify.")
