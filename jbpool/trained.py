"""The trained model of a run of either task."""

from __future__ import annotations

from pathlib import Path

import torch

from jbpool.classification import predict as classification
from jbpool.clustering import predict as clustering
from jbpool.engine.config import read_file
from jbpool.errors import RunFolderError


def load_run(
    run_dir: str | Path, device: str | torch.device = "cpu"
) -> clustering.TrainedClusters | classification.TrainedClassifier:
    """Return the trained model of a run folder, in evaluation mode.

    Only tensors and plain values are read, no code. Runs of node clustering have a model if the method is a pool
    (``jb``, ``mincut``, ...) and the graph has features, or if it is ``auto`` and the features count; embeddings and
    k-means leave none.

    Parameters
    ----------
    run_dir : str or Path
        The folder.
    device : str or torch.device, default "cpu"
        Where to put the model.

    Returns
    -------
    TrainedClusters or TrainedClassifier
        Called as ``model(graph, feat)``, or ``model.predict(data)`` for what ``load_nodes`` and ``load_graphs`` return,
        with columns matched by name. Node clustering: cluster and confidence of every node, ``(N,)`` each. Graph
        classification: probabilities ``(B, C)`` of ``model.classes``, in regression the values of the targets, of the
        seed and fold with the best validation score. Features are as in training, not scaled.
    """
    path = Path(run_dir)
    if not (path / "config.yaml").is_file():
        raise RunFolderError(f"{path} is not a run folder: it has no config.yaml.")
    kind = read_file(path / "config.yaml")[0].get("task")
    model: clustering.TrainedClusters | classification.TrainedClassifier
    if kind == "node_cluster":
        model = clustering.load_trained(path)
    elif kind == "graph_classify":
        model = classification.load_trained(path)
    else:
        raise RunFolderError(f"{path / 'config.yaml'}: task is {kind!r}, neither node_cluster nor graph_classify.")
    model.to(device)
    return model
