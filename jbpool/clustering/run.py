"""A run of node clustering: its data, the number of clusters, the seeds, and what is compared with them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from jbpool.clustering.auto.anchors import NOTHING, Anchors, clusters_of
from jbpool.clustering.auto.number import Choice, as_text, ranked
from jbpool.clustering.auto.recipe import choose, default_range, remarks
from jbpool.clustering.auto.views import with_features
from jbpool.clustering.baselines import clusters_by_others
from jbpool.clustering.config import ClusterConfig, cluster_range
from jbpool.clustering.embed import EMBEDDINGS
from jbpool.clustering.job import Job, say
from jbpool.clustering.methods import embed, search, train
from jbpool.clustering.scores import (
    best_run,
    normalized_mutual_information,
)
from jbpool.console import plural, watched
from jbpool.data import NodeData, load_nodes
from jbpool.data.own.cells import write_copy
from jbpool.engine.fit import open_log
from jbpool.engine.run_folder import RunFolder
from jbpool.errors import ConfigError, reported_as
from jbpool.ops.segment import contingency
from jbpool.processes import rank, world_size
from jbpool.schema import as_dict


def cluster_seeds(job: Job) -> None:
    """Cluster the graph with every seed that is not finished."""
    left = job.out.left({"seed": seed} for seed in job.config.train.seeds)
    if left:
        job.out.details.pop("baselines", None)          # of a resumed run, compared with another result
    name = job.config.method.name
    find = search if name == "auto" else embed if name in EMBEDDINGS else train
    for unit in left:
        job.finish(unit["seed"], find(job, unit["seed"]))


def compare_baselines(job: Job) -> None:
    """Cluster the graph by other methods, with the first seed, and compare them with the result."""
    best = job.clusters[best_run(job.out.runs)["seed"]].long()
    data, seed = with_features(job.given, job.num_clusters), job.config.train.seeds[0]
    found: dict[str, dict[str, float]] = {}
    for name, cluster, seconds in clusters_by_others(data, job.num_clusters, seed):
        if isinstance(cluster, str):
            _note(job.out, f"--baselines: {name} is left out{cluster}")
            continue
        agreement = normalized_mutual_information(contingency(best, cluster))
        scores = job.scores(cluster, job.sums_of(cluster, int(cluster.max()) + 1))
        found[name] = scores | {"agreement": agreement, "seconds": seconds}
        shown = [f"{key} {scores[key]:.3f}" for key in ("acc", "nmi", "ari", "modularity") if key in scores]
        print(f"{name}: {', '.join(shown)}, agreement with the result {agreement:.3f}")
    job.out.details["baselines"] = found
    job.out.keep()


def anchors_of(config: ClusterConfig, data: NodeData) -> Anchors:
    """Return the clusters that a run or tables give for some nodes, by the ids of the nodes."""

    def read(given: str | None, key: str) -> Tensor | None:
        if given is None:
            return None
        path = Path(given).expanduser()
        path = path / "assign.csv" if path.is_dir() else path
        with reported_as(path):
            return clusters_of(path, data.own_ids, key, data.graph.shares)

    return Anchors(read(config.method.previous, "method.previous"), read(config.method.fixed, "method.fixed"))


def number_of_clusters(config: ClusterConfig, data: NodeData) -> tuple[int, int]:
    """Return the smallest and the largest K: as configured, or the number of classes; ``auto`` may choose freely."""
    given, num_nodes, auto = config.method.num_clusters, data.graph.shares.num_rows, config.method.name == "auto"
    if given is not None:
        low, high = cluster_range(given)
    elif config.method.cluster_sizes is not None:
        low = high = len(config.method.cluster_sizes)
    elif data.num_classes is not None:
        low = high = data.num_classes
    elif auto and num_nodes > 3:
        low, high = default_range(num_nodes)
    else:
        why = f"has {num_nodes} of the 4 nodes that a choice needs" if auto else "has no labels"
        number = f"the number of clusters, such as -k {min(num_nodes, 2)} (method.num_clusters)"
        raise ConfigError(f"{data.name} {why}: give {number}.")
    if high > num_nodes:
        asked = given if isinstance(given, str) else high
        raise ConfigError(f"{asked} clusters of {num_nodes} nodes: lower -k (method.num_clusters).")
    return low, high


def load_data(config: ClusterConfig) -> NodeData:
    """Return the dataset of a configuration; labels that are all -1 (unknown) are removed."""
    method = config.method.name
    if world_size() > 1 and method != "auto":
        single = f"method.name={method} runs in a single process, without torchrun"
        raise ConfigError(f"{single}: several processes can share method.name=auto (auto.yaml).")
    data = load_nodes(config.dataset.name, config.dataset.root, **config.dataset.options)
    if data.label is not None and not data.graph.shares.total(int((data.label >= 0).any())):
        return replace(data, label=None, num_classes=None, class_names=None)
    return data


def run(
    config: ClusterConfig,
    data: NodeData,
    folder: Path,
    device: torch.device,
    resume: bool = False,
    baselines: bool = False,
    log: str | None = None,
    max_size: int | None = None,
    write: Path | None = None,
) -> RunFolder:
    """Run a configuration on what ``load_data`` returned, into a folder.

    ``resume`` continues the run in the folder; what is finished is not repeated. ``baselines`` compares the result with
    other methods. ``log``: ``"tensorboard"`` or ``"mlflow"``, to pass every evaluation on to.
    ``max_size``: nodes of the smallest communities in ``hierarchy.csv``, at most.
    ``write``: a file for a copy of the user's ``.h5ad`` with the clusters.
    """
    if world_size() > 1 and (baselines or max_size is not None):
        flag = "--baselines" if baselines else "--max-size"
        raise ConfigError(f"{flag} needs the whole graph in one process: run it without torchrun.")
    cells = Path(str(config.dataset.options.get("edges")))
    if write is not None and cells.suffix != ".h5ad":
        raise ConfigError(f"--write {write}: it is a copy of a .h5ad file with the clusters; give such a file.")
    auto = config.method.name == "auto"
    low, high = number_of_clusters(config, data)
    out = RunFolder(folder, config.task, data.name, config.method.name, as_dict(config), data.fingerprint_with_labels)
    out.details["data"] = data.read.counts
    anchors = anchors_of(config, data) if auto else NOTHING
    low = max(low, min(high, anchors.least()))
    choice = _choose(low, high, data, config.train.seeds[0], out, device, anchors) if auto else Choice(low)
    job = Job(config, data, choice, anchors, out, device, open_log(log, folder) if log else None)
    out.begin(resume)
    _announce(config, data, out, job)
    with out.leaving():
        cluster_seeds(job)
        if baselines:
            compare_baselines(job)
        if max_size is not None:
            job.save_hierarchy(max_size)
        if samples := out.details.get("samples"):
            say("confidence by sample: " + ", ".join(f"{name} {value:.2f}" for name, value in samples.items()))
        ids = None if write is None else data.graph.shares.to_first(data.own_ids)
        if write is not None and ids:
            best = best_run(out.runs)["seed"]
            params = {"method": config.method.name, "random_state": str(best), "run": str(out.path)}
            notes = {"params": params, "data": str(data.read), **choice.described()}
            cluster, confidence = (out.own[kind][best].numpy() for kind in ("clusters", "confidence"))
            write_copy(cells, write, np.concatenate(ids), cluster, confidence, notes)
            print(f"the cells with their clusters: {write}")
    return out


def _announce(config: ClusterConfig, data: NodeData, out: RunFolder, job: Job) -> None:
    """Say what will be done."""
    processes = f", {world_size()} processes" if world_size() > 1 else ""
    how = f"{config.method.name}, {plural(job.num_clusters, 'cluster')}, seeds {config.train.seeds}{processes}"
    say(f"{data.summary}\n{how}, into {out.path}")
    if config.method.name in EMBEDDINGS and job.device.type != "cpu":
        say(f"{config.method.name} runs on the CPU")
    if config.method.name == "auto":
        for remark in remarks(data.graph.shares, data.feat):
            _note(out, remark)


def _note(out: RunFolder, note: str) -> None:
    """Print a note and keep it for the report; a resumed run has kept it."""
    say(note)
    if note not in out.notes:
        out.notes.append(note)


def _choose(
    low: int, high: int, data: NodeData, seed: int, out: RunFolder, device: torch.device, anchors: Anchors
) -> Choice:
    """Choose the number of clusters; the curve is kept for the report."""
    graph, feat, weight = data.on(device)
    with watched("number of clusters", total=high - low + 1, disable=rank() > 0) as watch:
        choice = choose(graph, feat, low, high, weight, seed, watch).keeping(anchors.num_previous())
    agreement = {row.n_clusters: row.reproducibility for row in choice.levels if row.reproducibility is not None}
    if not agreement and choice.reproducibility is not None:
        agreement = {choice.num_clusters: choice.reproducibility}
    levels = [row.n_clusters for row in choice.levels if row.level]
    out.details["num_clusters"] = {
        "chosen": choice.num_clusters, "by": choice.by, "levels": levels, "reproducibility": agreement,
        "savings": choice.savings or {},
    }  # fmt: skip
    how = {"given": "as given", "previous": "as before"}.get(choice.by, f"chosen by {choice.by}")
    said = [f"{choice.num_clusters}, {how}"]
    if levels and choice.by == "reproducibility":
        said.append(f"levels: {', '.join(map(str, levels))}")
    elif choice.savings and choice.by == "description":
        others = [str(number) for number in ranked(choice.savings) if number != choice.num_clusters]
        said.append(f"next best: {', '.join(others[:3]) or 'none'}")
    if choice.reproducibility is not None:
        said.append(f"agreement of two random halves of the data: {as_text(choice.reproducibility)}")
    say(f"number of clusters: {'; '.join(said)}")
    for note in choice.notes:
        _note(out, note)
    return choice
