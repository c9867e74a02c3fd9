"""Node clustering as a task of the command line."""

from jbpool.clustering.config import ClusterConfig, problems, unused
from jbpool.clustering.predict import predict
from jbpool.clustering.run import load_data, run
from jbpool.engine.task import Task

NODE_CLUSTER = Task(
    "node_cluster", ClusterConfig, "sbm.yaml", "assign.csv", problems, unused, load_data, run, predict
)
