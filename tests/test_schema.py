"""Numbers out of range are rejected when a configuration is read."""

import pytest

from jbpool.classification.graph_classify import GRAPH_CLASSIFY
from jbpool.clustering.node_cluster import NODE_CLUSTER
from jbpool.engine.config import load_config
from jbpool.errors import ConfigError
from jbpool.schema import DatasetConfig, Range, TrainConfig, build

HUGE = "9" * 30
GB = 10**9


@pytest.mark.parametrize("value", [HUGE, "-1", ".inf", ".nan", "9" * 400])
@pytest.mark.parametrize(
    ("task", "key"),
    [
        *((NODE_CLUSTER, key) for key in (
            "train.epochs", "train.seeds", "train.lr", "train.eval_every", "train.patience", "train.restarts",
            "model.hidden", "model.layers", "model.mlp", "method.num_clusters", "dataset.num_nodes", "dataset.seed",
            "dataset.num_clusters", "dataset.num_features", "dataset.avg_degree", "dataset.words",
        )),
        *((GRAPH_CLASSIFY, key) for key in (
            "train.batch_size", "train.folds", "train.weight_decay", "model.levels", "model.num_clusters",
            "model.aux_weight", "dataset.num_graphs", "dataset.noise",
        )),
    ],
)  # fmt: skip
def test_no_number_is_without_bounds(task, key, value):
    with pytest.raises(ConfigError) as caught:
        load_config(task, None, [f"{key}={value}"])
    assert all(line.startswith(f"--set {key}=") for line in str(caught.value).splitlines())


def test_weights_of_an_objective_are_finite():
    with pytest.raises(ConfigError, match="finite"):
        load_config(NODE_CLUSTER, None, ["method.objective={cut: .inf}"])


def test_bounds_are_written_in_full():
    assert str(Range(0, 2**32 - 1)) == "at least 0 and at most 4294967295"
    assert str(Range(above=0, high=1e3)) == "above 0 and at most 1000"


@pytest.mark.parametrize("seed", [0, 2**32 - 1])
def test_every_seed_in_range_can_be_used(seed, tmp_path):
    import torch

    changes = [f"train.seeds=[{seed}]", "train.epochs=1", "dataset.num_nodes=300", "method.name=netmf"]
    config = load_config(NODE_CLUSTER, None, changes)
    NODE_CLUSTER.run(config, NODE_CLUSTER.load_data(config), tmp_path / "n", torch.device("cpu"))
    changes = [f"train.seeds=[{seed}]", "train.epochs=1", "dataset.num_graphs=30", "model.compare=[]"]
    config = load_config(GRAPH_CLASSIFY, None, changes)
    GRAPH_CLASSIFY.run(config, GRAPH_CLASSIFY.load_data(config), tmp_path / "g", torch.device("cpu"), folds=[0])


@pytest.mark.parametrize(
    ("allowed", "inside", "outside"),
    [
        (Range(0, 1), (0, 0.5, 1), (-0.1, 1.1)),
        (Range(above=0, below=1), (0.1, 0.9), (0, 1)),
        (Range(), (-1e300, 1e300), (float("nan"), float("inf"), float("-inf"))),
    ],
)
def test_which_bounds_belong_to_a_range(allowed, inside, outside):
    assert [value for value in (*inside, *outside) if value in allowed] == list(inside)


def test_two_configurations_share_no_list():
    one, other = TrainConfig(), TrainConfig()
    one.seeds.append(1)
    assert other.seeds == TrainConfig().seeds == [0]


def test_an_option_may_be_called_options():
    built = build(DatasetConfig, {"name": "x", "options": 3, "seed": 1}, "dataset.", str, problems := [])
    assert built.options == {"options": 3, "seed": 1}
    assert not problems
