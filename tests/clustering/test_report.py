"""The page of clusters from what is in memory: which sections it has, and what they say."""

import pytest
import torch

from jbpool.clustering.auto.number import Choice, Level
from jbpool.clustering.explain import explain
from jbpool.clustering.report import Findings, number_section, page
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
    return Findings.of(
        data, "auto", {"runs": [run], "mean": scores, "std": {}}, {4: data.label}, {4: trust},
        explain(data, data.label, trust), [], {"config": {}, "versions": {}}, **parts,
    )  # fmt: skip


def test_the_curve_over_numbers_names_the_best(data):
    rows = (Level(2, 0.8, 0.1, True), Level(5, 0.4, 0.7, False), Level(6, 0.5, 0.6, True))
    text = number_section(Choice(5, "description", 0.4, rows))
    assert "5 clusters describe the edges most briefly; next: 6, 2" in text
    assert "halves of your data: 0.40 (0: chance, 1: identical). Levels: 2, 6." in text
    assert "smallest number is chosen" in number_section(Choice(2, "reproducibility", 0.8, rows))
    none = Choice(1, "description", None, (Level(2, None, -0.1, False), Level(3, None, -0.2, False)))
    assert "the graph may have no clusters" in number_section(none)
    assert "7, as given. Agreement" in number_section(Choice(7, reproducibility=0.3))
    assert number_section(Choice(7)) == number_section(None) == ""
    assert number_section(none) in page(findings(data, choice=none))


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
