"""Graphs in which the class of some nodes, or of all, is unknown."""

import json
from dataclasses import replace

import pytest
import torch

from jbpool.clustering.run import load_data, run
from jbpool.clustering.scores import label_scores
from jbpool.clustering.task import NODE_CLUSTER
from jbpool.data import load_nodes
from jbpool.engine.config import load_config
from jbpool.errors import ConfigError

SMALL = ["dataset.num_nodes=300", "train.epochs=20", "train.seeds=[0]", "train.restarts=1"]
CPU = torch.device("cpu")


@pytest.mark.parametrize("method", ["jb", "sc"])
def test_nodes_without_a_label_are_clustered_but_not_scored(tmp_path, method):
    config = load_config(NODE_CLUSTER, None, [*SMALL, f"method.name={method}"])
    data = load_data(config)
    label = data.label.clone()
    label[::3] = -1
    out = run(config, replace(data, label=label), tmp_path, CPU)
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["runs"][0]["labelled"] == 200
    assert "labelled" not in result["mean"]
    assert all("labelled" not in row for row in out.history)
    cluster = torch.tensor([int(line.split(",")[1]) for line in (tmp_path / "assign.csv").read_text().split()[1:]])
    assert len(cluster) == 300
    expected = label_scores(cluster[label >= 0], label[label >= 0])
    assert {key: result["runs"][0][key] for key in expected} == pytest.approx(expected)

    page = out.write_report().read_text()
    assert "Labels are known for 200 nodes" in page
    for number, size in enumerate(label[label >= 0].bincount().tolist()):
        assert f"<title>{data.class_names[number] if data.class_names else f'class {number}'}: {size}</title>" in page


def test_a_fully_labelled_run_does_not_count_labels(tmp_path):
    config = load_config(NODE_CLUSTER, None, SMALL)
    data = load_data(config)
    out = run(config, data, tmp_path, CPU)
    assert "labelled" not in out.runs[0]
    assert "Labels are known" not in out.write_report().read_text()


def test_labels_that_are_all_unknown_count_as_none(tmp_path, monkeypatch):
    def unlabelled(*args, **options):
        data = load_nodes(*args, **options)
        return replace(data, label=torch.full_like(data.label, -1), num_classes=0, class_names=[])

    monkeypatch.setattr("jbpool.clustering.run.load_nodes", unlabelled)
    config = load_config(NODE_CLUSTER, None, SMALL)
    data = load_data(config)
    with pytest.raises(ConfigError, match=r"has no labels: .* -k 2 \(method\.num_clusters"):
        run(config, data, tmp_path, CPU)
    out = run(load_config(NODE_CLUSTER, None, [*SMALL, "method.num_clusters=4"]), data, tmp_path, CPU)
    assert not {"acc", "nmi", "ari", "labelled"} & set(out.runs[0])
    assert "classes in clusters" not in out.write_report().read_text()
