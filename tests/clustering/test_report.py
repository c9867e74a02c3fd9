"""The page of clusters from what is in memory: which sections it has, and what they say."""

import pytest
import torch

from jbpool.clustering.explain import explain
from jbpool.clustering.report import Findings, page
from jbpool.clustering.scores import ClusterSums, graph_scores
from jbpool.data import load_nodes


@pytest.fixture(scope="module")
def data():
    return load_nodes("sbm", num_nodes=120, num_clusters=3, seed=0)


def findings(data, **parts):
    """Those of one seed, with the planted clusters."""
    scores = graph_scores(ClusterSums.of(data.graph, data.label))
    run = {"seed": 4, "loss": -0.9, "score": 1.5, **scores, **parts.pop("run", {})}
    trust = torch.ones(120)
    return Findings(
        data, "auto", {"runs": [run], "mean": scores, "std": {}}, {4: data.label}, {4: trust},
        explain(data, data.label, trust), [], {"config": {}, "versions": {}}, **parts,
    )  # fmt: skip


def test_the_curve_over_numbers_names_the_best(data):
    choice = {"chosen": 5, "savings": {"6": 0.6, "2": 0.1, "5": 0.7}}           # as in result.json
    assert "5 clusters describe the edges most briefly; next: 6, 2" in page(findings(data, choice=choice))
    none = {"chosen": 1, "savings": {"2": -0.1, "3": -0.2}}
    assert "the graph may have no clusters" in page(findings(data, choice=none))
    assert "Number of clusters" not in page(findings(data))


def test_the_view_of_the_result_comes_first(data):
    trials = [
        {"view": view, "start": 0, "loss": -0.9, "saved": saved, "moved": 3, "kept": False, "agreement": 1.0}
        for view, saved in (("edges", 1.0), ("edges", 1.2), ("features", 1.1))
    ]
    text = page(findings(data, run={"trials": trials, "view": "features"}))
    text = text[text.index("What was tried") :]
    assert text.index("<td>features") < text.index("<td>edges") < text.index("No label was used")
    assert "1.200" in text
    assert "1.000</td><td>-0.900" not in text                                   # of each view only the best


def test_classes_and_training_only_where_there_are_some(data):
    history = [{"seed": 4, "epoch": epoch, "balance_loss": -0.5, "nmi": 0.9} for epoch in (1, 2)]
    text = page(findings(data, history=history))
    assert "Losses and NMI while training" in text
    assert "classes in clusters" in text.lower()
    assert "while training" not in page(findings(data, history=[{**row, "seed": 5} for row in history]))
