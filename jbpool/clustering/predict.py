"""Another graph's nodes by a trained model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from jbpool.clustering.run import load_data, make_model
from jbpool.engine.config import load_config
from jbpool.engine.run_folder import write_assign_csv
from jbpool.engine.state import load_state, usable
from jbpool.engine.task import Task
from jbpool.errors import ConfigError
from jbpool.nn.pools import POOLS


def predict(task: Task, run_dir: Path, changes: Sequence[str], out: Path, device: torch.device) -> Path:
    """Assign the nodes of the dataset that ``changes`` name: ``assign.csv`` with id, cluster, confidence."""
    if not (run_dir / "model.pt").is_file():
        raise ConfigError(f"{run_dir} has no model.pt: give the folder of a finished run of {', '.join(POOLS)}.")
    other = [change for change in changes if not change.startswith("dataset.")]
    if other:
        raise ConfigError(f"--set {other[0]}: the model of {run_dir} is as it was trained; only dataset... can change.")
    path = out / "assign.csv"
    if path.exists():
        raise ConfigError(f"{path} is there already: choose another --out.")
    before = load_config(task, str(run_dir / "config.yaml")).dataset
    given = {change.partition("=")[0] for change in changes}
    if "labels" in before.options and not given & {"dataset.labels", "dataset.name"}:
        changes = [*changes, "dataset.labels=null"]             # those of the new graph are not needed, nor known
    config = load_config(task, str(run_dir / "config.yaml"), changes)
    stored = load_state(run_dir / "model.pt", {"state": dict[str, torch.Tensor], "in_feats": int, "num_clusters": int})
    data = load_data(config)
    if data.made_feat:
        raise ConfigError(
            f"{data.name} has no features of its own: those made from the edges are coordinates within one graph and "
            "mean something else on another. Train on graphs with features, or cluster this graph by itself."
        )
    if data.feat.shape[1] != stored["in_feats"]:
        raise ConfigError(
            f"{data.name} has {data.feat.shape[1]} features, the model was trained on {stored['in_feats']}: "
            "give the new graph the same features."
        )
    model = make_model(config, stored["in_feats"], stored["num_clusters"]).to(device)
    with usable(run_dir / "model.pt"):
        model.load_state_dict(stored["state"])
    model.eval()
    graph = data.graph.to(device)
    weight = None if data.edge_weight is None else data.edge_weight.to(device)
    with torch.no_grad():
        assign, _ = model(graph, model.prepare(graph, data.feat.to(device), weight), weight)
    ids = np.arange(len(assign)) if data.ids is None else data.ids
    write_assign_csv(path, ids, assign.argmax(1).cpu(), assign.amax(1).cpu())
    return path
