"""``method.temperature: auto``: chosen by the clusters, without labels; recorded, and used again by --predict."""

import numpy as np
import pytest
import torch
from commands import CLASSIFY, CLUSTER, call, result_of, settings
from torch.nn.functional import normalize

from jbpool.clustering.temperature import TEMPERATURES, choose_temperature
from jbpool.errors import ConfigError

FIXED = (
    "model.backbone=sgc", "model.layers=2", "model.delta=0.5", "model.mlp=[]", "method.head=cosine",
    "train.epochs=30", "train.lr=1e-2", "train.restarts=2",
)  # fmt: skip


def choose(*evidence: float):
    """The choice among TEMPERATURES whose clusters have this evidence."""
    rows = normalize(torch.randn(60, 8, generator=torch.Generator().manual_seed(0)))
    given = iter(evidence)
    return choose_temperature(rows, 3, lambda cluster: next(given), torch.Generator().manual_seed(0))


def test_the_best_evidence_decides_and_the_highest_of_equally_good_temperatures():
    assert choose(0.1, 0.2, 0.5, 0.3, 0.3, 0.2, 0.1).temperature == TEMPERATURES[2]
    assert choose(0.1, 0.5, 0.4, 0.499, 0.3, 0.2, 0.1).temperature == TEMPERATURES[3]
    assert choose(0, 0, 0, 0, 0, 0, 0).temperature == TEMPERATURES[-1]
    tried = choose(0.1, 0.2, 0.5, 0.3, 0.3, 0.2, 0.1).tried
    assert [row["temperature"] for row in tried] == list(TEMPERATURES)
    assert [row["evidence"] for row in tried] == [0.1, 0.2, 0.5, 0.3, 0.3, 0.2, 0.1]
    losses = [row["loss"] for row in tried]
    assert losses == sorted(losses)                         # lower temperatures: lower losses, whatever the features


def test_a_run_equals_one_with_the_chosen_number_and_predict_uses_it(tmp_path):
    def run(temperature, out):
        changes = settings(f"method.temperature={temperature}", *FIXED)
        call(CLUSTER.command, *CLUSTER.arguments(), *changes, "--out", out, cwd=tmp_path)
        return result_of(tmp_path / out)["runs"][0]

    auto = run("auto", "auto")
    assert {row["temperature"] for row in auto["temperatures"]} == set(TEMPERATURES)
    fixed = run(auto["temperature"], "fixed")
    assert (auto["loss"], auto["nmi"]) == (fixed["loss"], fixed["nmi"])
    assert "temperature" not in fixed
    same_graph = settings("dataset.num_nodes=300")
    call(CLUSTER.command, "--predict", "auto", *same_graph, "--out", "again", cwd=tmp_path)
    again, first = (np.loadtxt(tmp_path / out / "assign.csv", delimiter=",", skiprows=1) for out in ("again", "auto"))
    np.testing.assert_allclose(again, first, atol=1e-5)         # node, cluster, and the confidence, which depends on it


@pytest.mark.parametrize(
    ("case", "changes", "words"),
    [
        (CLUSTER, ["method.temperature=auto"], "temperature=auto needs fixed features"),
        (CLUSTER, [*FIXED, "method.temperature=auto", "model.mlp=[8]"], "temperature=auto needs fixed features"),
        (CLUSTER, [*FIXED, "method.temperature=warm"], "temperature='warm': give a number above 0, or auto"),
        (CLASSIFY, ["method.temperature=auto"], "temperature=auto is for node clustering"),
    ],
)
def test_where_it_is_refused(case, changes, words):
    with pytest.raises(ConfigError, match=words):
        case.config(*changes)
