"""Node clustering: data, method, seeds and restarts, scores, run folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from jbpool.clustering.auto.choose_k import choose_num_clusters, ranked
from jbpool.clustering.auto.weighting import scale_warning
from jbpool.clustering.config import ClusterConfig, cluster_range
from jbpool.clustering.embed import EMBEDDINGS
from jbpool.clustering.job import Job
from jbpool.clustering.room import require_room
from jbpool.data import NodeData, load_nodes
from jbpool.engine.processes import rank, world_size
from jbpool.engine.run_folder import RunFolder
from jbpool.engine.schema import as_dict
from jbpool.engine.state import usable
from jbpool.errors import ConfigError
from jbpool.progress import watched

MOST_CLUSTERS = 30          # of the range that is searched where neither a number nor classes are known


def number_of_clusters(config: ClusterConfig, data: NodeData) -> int | range:
    """K, or the candidates to choose it from: as configured, or the number of classes; ``auto`` may choose freely."""
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
    if found is None and config.method.name == "auto" and data.graph.num_nodes() > 3:
        return range(2, min(MOST_CLUSTERS, data.graph.num_nodes() // 2) + 1)
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
    merged = None
    if isinstance(num_clusters, range):
        num_clusters, merged = _choose(num_clusters, data, config.train.seeds[0], out, device)
    job = Job(config, data, num_clusters, out, device, merged)
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
    if config.method.name in EMBEDDINGS and job.device.type != "cpu":
        print(f"{config.method.name} runs on the CPU")
    if config.method.name == "auto" and (warning := scale_warning(data.feat)):
        _note(out, warning)


def _note(out: RunFolder, note: str) -> None:
    """Print a note and keep it for the report; a resumed run has kept it."""
    print(note)
    if note not in out.notes:
        out.notes.append(note)


def _choose(
    candidates: range, data: NodeData, seed: int, out: RunFolder, device: torch.device
) -> tuple[int, tuple[str, Tensor] | None]:
    """Choose the number of clusters from a range; the curve is kept for the report. Returns also its partition."""
    graph, feat, weight = data.on(device)
    with watched("number of clusters", total=len(candidates)) as watch:
        choice = choose_num_clusters(graph, feat, candidates[0], candidates[-1], weight, seed, watch)
    out.details["num_clusters"] = {"chosen": choice.num_clusters, "savings": choice.savings}
    others = [number for number in ranked(choice.savings) if number != choice.num_clusters][:3]
    print(f"number of clusters: {choice.num_clusters}, then {', '.join(map(str, others)) or 'none'}")
    if warning := choice.warning(candidates[0], candidates[-1]):
        _note(out, warning)
    return choice.num_clusters, choice.merged
