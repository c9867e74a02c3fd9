"""Graph classification as a task of the command line."""

from jbpool.classification.config import EXCLUSIVE, ClassifyConfig
from jbpool.classification.predict import predict
from jbpool.classification.run import load_data, run
from jbpool.classification.search import problems, unused
from jbpool.engine.task import Task

GRAPH_CLASSIFY = Task(
    "graph_classify", ClassifyConfig, "motifs.yaml", "predictions.csv", problems, unused, load_data, run, predict,
    EXCLUSIVE,
)  # fmt: skip
