"""The networks of a configuration: every setting reaches them, targets are standardised."""

from dataclasses import replace

import pytest
import torch
from commands import CLASSIFY

from jbpool.classification.class_scores import score
from jbpool.classification.config import ClassifyModelConfig
from jbpool.classification.graph_classify import GRAPH_CLASSIFY
from jbpool.classification.model import make_model, mean_and_deviation
from jbpool.data import load_graphs
from jbpool.engine.config import load_config

# A change of each setting of the model, from "model.hidden=16" and the backbone delta.
MODEL = {
    "backbone": "gin", "layers": "1", "hidden": "8", "delta": "0.3", "pool": "mincut", "levels": "2", "ratio": "0.5",
    "num_clusters": "3", "mlp": "[5]", "readout": "sum", "readout_of": "last", "norm": "layer", "dropout": "0.7",
    "members": "2",
}  # fmt: skip
ELSEWHERE = {"compare", "edges", "aux_weight"}      # tested in test_run(_training).py and test_network.py


def described(*changes):
    """The printed network: kinds and sizes of its modules with their options."""
    first = ["model.hidden=16", "model.backbone=delta", "model.readout_of=all"]
    config = load_config(GRAPH_CLASSIFY, None, [*first, *changes])
    data = load_graphs("motifs", num_graphs=12)
    torch.manual_seed(0)
    model = make_model(config, data, torch.arange(8))
    readouts = [(member.readout, member.read_all) for member in model.members]
    return f"{model} {readouts}"


def test_all_settings_of_the_model_are_tested():
    assert set(MODEL) | ELSEWHERE == set(ClassifyModelConfig.__dataclass_fields__)


@pytest.mark.parametrize("key", MODEL)
def test_a_setting_changes_the_network(key):
    changed = described(f"model.{key}={MODEL[key]}")
    assert changed != described()
    assert changed == described(f"model.{key}={MODEL[key]}")


def test_unknown_and_constant_targets():
    nan = float("nan")
    centre, deviation = mean_and_deviation(torch.tensor([[1.0, 7.0, nan], [nan, 7.0, nan], [4.0, 7.0, nan]]).double())
    assert centre.tolist() == [2.5, 7.0, 0.0]
    assert deviation.tolist() == [1.5, 1.0, 1.0]
    data = load_graphs("trees", num_graphs=8)
    model = make_model(CLASSIFY.config(), replace(data, label=data.label * 1e6), torch.arange(8)).eval()
    batch = data.batch(range(8))
    assert (model.on_batch(batch, torch.device("cpu"))[0] / 1e6).mean().item() == pytest.approx(3.5, abs=1)
    assert score(data, data.label, data.label) == 0
