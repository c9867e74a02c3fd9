"""Node clustering as a task of the command line."""

from jbpool.clustering.config import ClusterConfig, one_process_only, problems, unused
from jbpool.clustering.run import load_data, run
from jbpool.data.catalogue import NODE_SETS, default_options, loader
from jbpool.engine.task import Task

NODE_CLUSTER = Task(
    name="node_cluster",
    schema=ClusterConfig,
    default="sbm.yaml",
    problems=problems,
    load_data=load_data,
    run=run,
    dataset_options=lambda config: default_options(loader(NODE_SETS, config.dataset.name)),
    one_process_only=one_process_only,
    unused=unused,
)
