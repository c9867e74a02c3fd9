"""Graph classification as a task of the command line."""

from jbpool.classification.config import EXCLUSIVE, ClassifyConfig
from jbpool.classification.run import load_data, run
from jbpool.classification.search import problems, unused
from jbpool.data.catalogue import GRAPH_SETS, default_options, loader
from jbpool.engine.task import Task

GRAPH_CLASSIFY = Task(
    name="graph_classify",
    schema=ClassifyConfig,
    default="motifs.yaml",
    problems=problems,
    load_data=load_data,
    run=run,
    exclusive=EXCLUSIVE,
    dataset_options=lambda config: default_options(loader(GRAPH_SETS, config.dataset.name, config.dataset.root)),
    unused=unused,
)
