"""Node clustering: data, method, seeds and restarts, scores, run folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from jbpool.clustering.auto.choose_k import choose_num_clusters
from jbpool.clustering.auto.weighting import scale_warning
from jbpool.clustering.config import ClusterConfig, cluster_range
from jbpool.clustering.job import Job
from jbpool.clustering.room import require_room
from jbpool.data import NodeData, load_nodes
from jbpool.engine.processes import rank, world_size
from jbpool.engine.run_folder import RunFolder
from jbpool.engine.schema import as_dict
from jbpool.engine.state import usable
from jbpool.errors import ConfigError
from jbpool.progress import watched


def number_of_clusters(config: ClusterConfig, data: NodeData) -> int | range:
    """K, or the candidates to choose it from: as configured, or the number of classes."""
    given, found = config.method.num_clusters, data.num_classes
    if isinstance(given, str):
        low, high = cluster_range(given)
        if high > data.graph.num_nodes():
            raise ConfigError(f"method.num_clusters={given}: the graph has only {data.graph.num_nodes()} nodes.")
        return range(low, high + 1)
    if given is not None:
        found = given
    elif config.method.cluster_sizes is not None:
        found = len(config.method.cluster_sizes)
    if found is None:
        raise ConfigError(f"{data.name} has no labels: set the number of clusters, such as method.num_clusters=8.")
    if found > data.graph.num_nodes():
        raise ConfigError(f"{found} clusters of {data.graph.num_nodes()} nodes: lower method.num_clusters.")
    return found


def load_data(config: ClusterConfig) -> NodeData:
    """The dataset of a configuration; labels that are all -1 (unknown) are removed."""
    data = load_nodes(config.dataset.name, config.dataset.root, **config.dataset.options)
    if data.label is not None and not bool((data.label >= 0).any()):
        return replace(data, label=None, num_classes=None, class_names=None)
    return data


def run(
    config: ClusterConfig, data: NodeData, folder: Path, device: torch.device, resume: bool = False
) -> RunFolder:
    """Run a configuration into a folder.

    Parameters
    ----------
    config : ClusterConfig
        What to run.
    data : NodeData
        As returned by :func:`load_data`.
    folder : Path
        The run folder.
    device : torch.device
        Where to train.
    resume : bool, default False
        Continue the run in the folder; what is finished is not repeated.
    """
    num_clusters = number_of_clusters(config, data)
    require_room(config, data, num_clusters[-1] if isinstance(num_clusters, range) else num_clusters)
    out = RunFolder(folder, config.task, data.name, config.method.name, as_dict(config), data.fingerprint_with_labels)
    if isinstance(num_clusters, range):
        num_clusters = _choose(num_clusters, data, config.train.seeds[0], out, resume)
    job = Job(config, data, num_clusters, out, device)
    if resume:
        job.load()
    if rank() == 0:
        _begin(config, data, num_clusters, out, job)
    try:
        job.run()
    except KeyboardInterrupt:
        job.leave()
        raise
    return out


def _begin(config: ClusterConfig, data: NodeData, num_clusters: int, out: RunFolder, job: Job) -> None:
    """Write what is known before the first seed, and say what will be done."""
    out.start()
    if job.clusters:
        with usable(out.path / "finished.pt"):
            job.save_clusters()
    processes = f", {world_size()} processes" if world_size() > 1 else ""
    how = f"{config.method.name}, {num_clusters} clusters, seeds {config.train.seeds}{processes}"
    print(f"{data.summary}\n{how}, into {out.path}")
    warning = scale_warning(data.feat) if config.method.name == "auto" else None
    if warning is not None and warning not in out.notes:                    # a resumed run has noted it
        out.notes.append(warning)
        print(warning)


def _choose(candidates: range, data: NodeData, seed: int, out: RunFolder, resume: bool) -> int:
    """Choose the number of clusters from a range; the curve is kept for the report."""
    if resume and out.kept_details():
        out.details = out.kept_details()
        return out.details["num_clusters"]["chosen"]
    with watched("number of clusters", total=len(candidates)) as watch:
        choice = choose_num_clusters(data.graph, data.feat, candidates, data.edge_weight, seed, watch=watch)
    out.details["num_clusters"] = {"chosen": choice.num_clusters, "savings": choice.savings}
    print(f"number of clusters: {choice.num_clusters}, then {', '.join(map(str, choice.ranked[1:4]))}")
    return choice.num_clusters
