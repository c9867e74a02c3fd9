"""The report: which test graphs are pictured, and what is said about them."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from commands import CLASSIFY

from jbpool.classification import report
from jbpool.classification.report import _card, _static, choose_pictured, graphs_section, names_of_classes, verdict


@pytest.fixture(scope="module")
def data():
    return CLASSIFY.task.load_data(CLASSIFY.config())


def test_decisions_of_classes(data):
    scores = torch.tensor([[2.0, 0.0, 1.0], [0.0, 0.1, 0.0]])
    found = verdict(data, scores, torch.tensor([0, 2]))
    chance = scores.softmax(1)
    assert found.predicted.tolist() == [0, 1]
    assert found.margin[0] == pytest.approx(float(chance[0, 0] - chance[0, 2]))
    assert found.label.tolist() == [0, 2]


def test_decisions_of_a_binary_task(data):
    task = replace(data, metric="rocauc", num_classes=1)
    found = verdict(task, torch.tensor([[0.0], [3.0], [-3.0]]), torch.tensor([[1.0], [1.0], [1.0]]))
    assert found.predicted.tolist()[1:] == [1, 0]
    assert found.margin[0] == 0
    assert found.margin[1] == pytest.approx(2 * torch.tensor(3.0).sigmoid().item() - 1)
    assert names_of_classes(task) == ["negative", "positive"]


@pytest.mark.parametrize(("metric", "tasks"), [("rmse", 1), ("rocauc", 3)])
def test_no_decisions_without_classes(data, metric, tasks):
    task = replace(data, metric=metric, num_classes=tasks)
    assert verdict(task, torch.zeros(2, tasks), torch.zeros(2, tasks)) is None


def test_every_kind_of_error_is_pictured(data, monkeypatch):
    """60 graphs, nearly all predicted as class 0: the two others are there, and the least certain of the rest."""
    monkeypatch.setattr(report, "PICTURED", 9)
    scores = torch.zeros(60, 3)
    scores[:, 0] = torch.linspace(1, 4, 60)
    scores[7] = torch.tensor([0.0, 9.0, 0.0])
    scores[11] = torch.tensor([0.0, 0.0, 9.0])
    chosen = choose_pictured(data, torch.arange(60), scores)
    assert len(chosen) == 9
    assert {7, 11} <= set(chosen.tolist())
    assert chosen.tolist() == sorted(chosen.tolist())
    rest = [graph for graph in chosen.tolist() if graph not in (7, 11)]
    for label in range(3):
        of_class = [graph for graph in range(60) if data.label[graph] == label and graph not in (7, 11)]
        kept = [graph for graph in rest if data.label[graph] == label]
        assert 2 <= len(kept) <= 3
        assert kept == of_class[: len(kept)]                # scores, and so margins, grow with the number


def test_large_graphs_are_not_pictured(data, monkeypatch):
    limit = int(data.sizes.median())
    monkeypatch.setattr(report, "PICTURED_NODES", limit)
    chosen = choose_pictured(data, torch.arange(60), torch.zeros(60, 3))
    assert chosen.tolist() == torch.arange(60)[data.sizes <= limit].tolist()[:48]


def test_graphs_without_classes_can_be_browsed(data):
    task = replace(data, metric="rmse", num_classes=1, label=torch.zeros(60, 1), class_names=["path"])
    picture = {
        "graph": torch.tensor(3), "cluster": torch.zeros(int(data.sizes[3]), dtype=torch.long),
        "adj": torch.zeros(2, 2), "scores": torch.zeros(1),
    }  # fmt: skip
    page = graphs_section(task, [picture])
    assert "1 of 2 clusters used. path: 0, predicted: 0." in page
    assert "Margin" not in page
    tasks = replace(task, metric="rocauc", num_classes=2, label=torch.zeros(60, 2))
    assert "predicted:" not in graphs_section(tasks, [picture])
    assert graphs_section(task, []) == ""


def test_a_graph_has_the_name_that_its_owner_gave_it(data):
    own = replace(data, ids=np.array([f"<b>mine {index}" for index in range(len(data))]))
    cluster = torch.zeros(int(data.sizes[5]), dtype=torch.long)
    picture = {"graph": torch.tensor(5), "cluster": cluster, "adj": torch.zeros(1, 1)}
    assert "<h3>Graph &lt;b&gt;mine 5</h3>" in _static(_card(own, picture), [])
    assert "<h3>Graph 5</h3>" in _static(_card(data, picture), [])
