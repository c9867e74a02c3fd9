"""Node clustering as a task of the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jbpool.clustering.config import ClusterConfig, one_process_only, problems, unused
from jbpool.clustering.runner import load_data, run, write_report
from jbpool.data import node_options
from jbpool.engine.task import Task


def predict(*arguments: Any) -> Path:
    """Apply a trained model to another graph, see ``jbpool.clustering.predict``, which is loaded only for this."""
    from jbpool.clustering.predict import predict

    return predict(*arguments)


NODE_CLUSTER = Task(
    name="node_cluster",
    schema=ClusterConfig,
    default="sbm.yaml",
    problems=problems,
    load_data=load_data,
    run=run,
    write_report=write_report,
    predict=predict,
    dataset_options=lambda config: node_options(config.dataset.name),
    one_process_only=one_process_only,
    unused=unused,
)
