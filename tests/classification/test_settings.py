"""Every setting of the network and of the training reaches what it is a setting of."""

import pytest
import torch
from commands import CPU, settings

from jbpool.classification import run as job
from jbpool.classification.config import ClassifyModelConfig
from jbpool.classification.model import make_model
from jbpool.classification.run import run
from jbpool.classification.task import GRAPH_CLASSIFY
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


@pytest.mark.parametrize(
    ("change", "key", "value"),
    [
        ("train.weight_decay=0.25", "weight_decay", 0.25),
        ("train.schedule=constant", "schedule", "constant"),
    ],
)
def test_a_setting_reaches_the_optimiser(change, key, value, tmp_path, monkeypatch):
    seen = []
    original = job.fit

    def fit(*args, **options):
        seen.append(options[key])
        return original(*args, **options)

    monkeypatch.setattr(job, "fit", fit)
    changes = settings(change, "train.epochs=1", "train.folds=2", "model.compare=[]", "model.hidden=4")[1::2]
    config = load_config(GRAPH_CLASSIFY, None, changes)
    run(config, load_graphs("motifs", num_graphs=30), tmp_path / "r", CPU, folds=[0])
    assert seen == [value]
