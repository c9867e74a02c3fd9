"""Node clustering as a task of the command line."""

from __future__ import annotations

from pathlib import Path

import torch

from jbpool.clustering.config import METHODS, ClusterConfig, one_process_only, problems, unused
from jbpool.clustering.explain import explain_nodes
from jbpool.clustering.predict import predict
from jbpool.clustering.report import Shown, page
from jbpool.clustering.runner import load_data, run
from jbpool.clustering.scores import best_run
from jbpool.data import NodeData, node_options
from jbpool.data.arrays import read_arrays
from jbpool.engine.run_folder import read_results, reporting_mismatch
from jbpool.engine.task import Task
from jbpool.errors import RunFolderError
from jbpool.files import write_text


def write_report(folder: Path, data: NodeData) -> Path:
    """Write ``report.html`` into a run folder.

    Parameters
    ----------
    folder : Path
        The run folder.
    data : NodeData
        The graph of the run.
    """
    result, history = read_results(folder)
    if not result["runs"]:
        raise RunFolderError(f"{folder} has no finished seed yet.")
    with reporting_mismatch(folder):
        stored = read_arrays(folder / "assign.npz")
        clusters, seeds, shares = stored["cluster"], stored["seeds"].tolist(), stored.get("confidence")
        best = best_run(result["runs"])
        place = seeds.index(best["seed"])
        names, cluster = torch.from_numpy(clusters[place]).long().unique(return_inverse=True)
        confidence = None if shares is None else torch.from_numpy(shares[place])
        by_seed = dict(zip(seeds, clusters, strict=True))
        explained = explain_nodes(data, names[cluster], confidence)
    path = folder / "report.html"
    shown = Shown(result, history, data, best, cluster, names.tolist(), confidence, explained, by_seed)
    write_text(path, page(shown))
    return path


NODE_CLUSTER = Task(
    name="node_cluster",
    schema=ClusterConfig,
    default="sbm.yaml",
    methods=METHODS,
    problems=problems,
    load_data=load_data,
    run=run,
    write_report=write_report,
    predict=predict,
    dataset_options=lambda config: node_options(config.dataset.name),
    one_process_only=one_process_only,
    unused=unused,
)
