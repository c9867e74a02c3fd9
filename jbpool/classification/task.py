"""Graph classification as a task of the command line."""

from jbpool.classification.config import EXCLUSIVE, METHODS, ClassifyConfig
from jbpool.classification.predict import predict
from jbpool.classification.report import write_report
from jbpool.classification.runner import load_data, run
from jbpool.classification.search import num_weights, problems, unused
from jbpool.engine.task import Task

GRAPH_CLASSIFY = Task(
    name="graph_classify",
    schema=ClassifyConfig,
    default="motifs.yaml",
    methods=METHODS,
    problems=problems,
    num_weights=num_weights,
    sized_by="model.hidden, model.layers, model.levels, model.num_clusters, model.mlp or model.members",
    load_data=load_data,
    run=run,
    write_report=write_report,
    exclusive=EXCLUSIVE,
    predict=predict,
    unused=unused,
)
