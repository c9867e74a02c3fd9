"""Applying a trained model to another graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np
import torch
from dgl import DGLGraph
from torch import Tensor

from jbpool.clustering.config import ClusterConfig
from jbpool.clustering.consensus import Consensus
from jbpool.clustering.run import load_data
from jbpool.clustering.training import make_model
from jbpool.data import NODE_SETS
from jbpool.engine.config import load_config
from jbpool.engine.run_folder import write_assign_csv
from jbpool.engine.state import load_state, usable
from jbpool.engine.task import DatasetConfig, Task
from jbpool.errors import ConfigError
from jbpool.nn.pools import POOLS

MODEL = {"state": dict[str, torch.Tensor], "in_feats": int, "num_clusters": int, "made_feat": bool}    # in model.pt
DESCRIBING = {"dataset.separator", "dataset.header", "dataset.root"}        # these do not select another graph


def predict(task: Task, run_dir: Path, changes: Sequence[str], out: Path, device: torch.device) -> Path:
    """Cluster the graph that ``changes`` specify, and write ``assign.csv`` with id, cluster, confidence.

    No file of the training graph is read.

    Parameters
    ----------
    task : Task
        Node clustering.
    run_dir : Path
        The folder of a finished run of a pool.
    changes : sequence of str
        ``dataset.key=value``, as given to ``--set``.
    out : Path
        The folder to write to.
    device : torch.device
        Where to compute.
    """
    if not (run_dir / "model.pt").is_file():
        methods = ", ".join(("auto", *POOLS))
        raise ConfigError(f"{run_dir} has no model.pt: give a finished run of {methods}, on a graph with features.")
    other = [change for change in changes if not change.startswith("dataset.")]
    if other:
        raise ConfigError(f"--set {other[0]}: the model of {run_dir} is fixed; only dataset... can be set.")
    path = out / "assign.csv"
    if path.exists():
        raise ConfigError(f"{path} already exists: choose another --out.")
    stored = load_state(run_dir / "model.pt", MODEL)
    if stored["made_feat"]:
        raise ConfigError(
            f"the model of {run_dir} was trained without features: its inputs, eigenvectors of one graph, are not "
            "comparable between graphs. Train on a graph with features, or cluster the new one."
        )
    if not {change.partition("=")[0] for change in changes} - DESCRIBING:
        raise ConfigError(
            "--predict: specify the new graph, such as --set dataset.edges=new.csv "
            "--set dataset.features=new_features.csv; "
            f"the clusters of the training graph are in {run_dir / 'assign.csv'}."
        )
    trained = load_config(task, str(run_dir / "config.yaml")).dataset
    config = load_config(task, str(run_dir / "config.yaml"), [*_forget_files(trained, changes), *changes])
    data = load_data(config)
    if data.feat is None:
        raise ConfigError(
            f"{data.name} has no features, but the model was trained with {stored['in_feats']} per node: add "
            "--set dataset.features=FILE (in a DGL .bin file: ndata 'feat')."
        )
    if data.feat.shape[1] != stored["in_feats"]:
        raise ConfigError(
            f"{data.name} has {data.feat.shape[1]} features, the model was trained on {stored['in_feats']}: "
            "give the new graph the same features."
        )
    with usable(run_dir / "model.pt"):
        assign_nodes = _rebuild(config, stored, device)
    weight = None if data.edge_weight is None else data.edge_weight.to(device)
    with torch.no_grad():
        cluster, confidence = assign_nodes(data.graph.to(device), data.feat.to(device), weight)
    ids = np.arange(len(cluster)) if data.ids is None else data.ids
    write_assign_csv(path, ids, cluster.cpu(), confidence.cpu())
    return path


def _rebuild(
    config: ClusterConfig, stored: dict[str, Any], device: torch.device
) -> Callable[..., tuple[Tensor, Tensor]]:
    """The trained model: (graph, feat, edge_weight) -> cluster and confidence of every node, ``(N,)`` each."""
    if config.method.name == "auto":
        consensus = Consensus.of_members(stored["num_clusters"], stored["members"], stored["in_feats"]).to(device)
        consensus.load_state_dict(stored["state"])
        return consensus
    if config.method.temperature == "auto":
        config = replace(config, method=replace(config.method, temperature=stored["temperature"]))
    model = make_model(config, stored["in_feats"], stored["num_clusters"]).to(device)
    model.load_state_dict(stored["state"])
    model.eval()

    def apply(graph: DGLGraph, feat: Tensor, edge_weight: Tensor | None) -> tuple[Tensor, Tensor]:
        assign, _ = model(graph, model.prepare(graph, feat, edge_weight), edge_weight)
        return assign.argmax(1), assign.amax(1)

    return apply


def _forget_files(trained: DatasetConfig, changes: Sequence[str]) -> list[str]:
    """Changes that remove the files of the training graph; another ``dataset.name`` already removes all options."""
    given = dict(change.split("=", 1) for change in changes if "=" in change)
    if given.get("dataset.name", trained.name) != trained.name:
        return []
    loader = NODE_SETS[trained.name]
    hints = get_type_hints(getattr(loader, "func", loader))             # of the function inside a partial
    files = [option for option in trained.options if Path in get_args(hints[option])]
    return [f"dataset.{option}=null" for option in files if f"dataset.{option}" not in given]
