"""Node clustering as a task of the command line."""

from jbpool.clustering.config import METHODS, ClusterConfig, one_process_only, problems, unused
from jbpool.clustering.predict import predict
from jbpool.clustering.report import write_report
from jbpool.clustering.runner import load_data, run
from jbpool.engine.task import Task

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
    one_process_only=one_process_only,
    unused=unused,
)
