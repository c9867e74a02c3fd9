"""Bounded heads on fixed features: two and three processes give what one gives, and continue each other's runs."""

import csv
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from commands import CPU, ROOT, SHARED, call, run_ranks
from shared_runs import config_of

from jbpool import cli
from jbpool.clustering.auto import bounded_heads as heads
from jbpool.clustering.config import METHODS, one_process_only
from jbpool.clustering.task import NODE_CLUSTER
from jbpool.engine.config import load_config

SCRIPT = ROOT / "tests" / "shared_runs.py"
REAL = pytest.mark.skipif(not (SHARED / "planetoid").is_dir(), reason="the data are not beside this checkout")


@pytest.fixture(scope="module", autouse=True)
def _restore_blocks():
    """``config_of`` makes them smaller."""
    before = heads.BLOCK
    yield
    heads.BLOCK = before


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return run_by_several(["sbm", "cora"] if (SHARED / "planetoid").is_dir() else ["sbm"], tmp_path_factory)


def run_by_several(names, tmp_path_factory):
    """Number of processes -> folder with the runs of these datasets."""
    folders = {count: tmp_path_factory.mktemp(f"{count}-processes") for count in (1, 2, 3)}
    for count in (2, 3):                                    # two processes stop a run, which others continue
        folder = folders[count]
        run_ranks(SCRIPT, folder, ",".join(names), folder / "stopped", cwd=folder, processes=count)
        if count == 2:
            assert (folders[2] / "stopped" / "checkpoint.pt").exists()
            assert not (folders[2] / "stopped" / "finished.pt").exists()
            for other in (1, 3):
                shutil.copytree(folders[2] / "stopped", folders[other] / "stopped")
    config = config_of("sbm")
    NODE_CLUSTER.run(config, NODE_CLUSTER.load_data(config), folders[1] / "stopped", CPU, resume=True)
    for name in names:
        config = config_of(name)
        NODE_CLUSTER.run(config, NODE_CLUSTER.load_data(config), folders[1] / name, CPU)
    return folders


def losses(folder: Path) -> list[float]:
    with open(folder / "history.csv", newline="") as file:
        return [float(row["loss"]) for row in csv.DictReader(file)]


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("name", ["sbm", pytest.param("cora", marks=REAL)])
def test_several_processes_give_what_one_gives(runs, name, count):
    assert_same_runs(runs, name, count)


@REAL
@pytest.mark.slow
def test_several_processes_give_what_one_gives_on_a_larger_graph(tmp_path_factory):
    runs = run_by_several(["pubmed"], tmp_path_factory)
    for count in (2, 3):
        assert_same_runs(runs, "pubmed", count)


def assert_same_runs(runs, name, count):
    one, several = runs[1] / name, runs[count] / name
    assert len(losses(one)) == 6
    assert losses(several) == pytest.approx(losses(one), abs=1e-6)
    assert losses(one)[-1] < losses(one)[0]
    clusters = [np.load(folder / "assign.npz")["cluster"] for folder in (one, several)]
    assert (clusters[0] == clusters[1]).all()
    models = [torch.load(folder / "model.pt", weights_only=True)["state"] for folder in (one, several)]
    assert all(torch.allclose(models[0][key], models[1][key], atol=1e-5) for key in models[0])


@pytest.mark.parametrize("count", [1, 3])
def test_another_number_of_processes_continues_a_run(runs, count):
    assert losses(runs[count] / "stopped") == pytest.approx(losses(runs[1] / "sbm"), abs=1e-6)


@pytest.mark.parametrize("name", METHODS)
def test_methods_that_cannot_be_shared_say_so(name):
    reason = one_process_only(load_config(NODE_CLUSTER, None, [f"method.name={name}"]))
    assert reason.startswith(f"method.name={name} ")
    assert "large.yaml" in reason


def test_what_can_be_shared():
    assert one_process_only(load_config(NODE_CLUSTER, "large")) is None
    for change in ("method.sqrt=diagonal", "model.mlp=[8]", "model.backbone=delta", "method.head=linear",
                   "method.objective={balance: 1, cut: 1}", "method.name=mincut"):  # fmt: skip
        assert one_process_only(load_config(NODE_CLUSTER, "large", [change])) is not None


def test_it_is_said_before_anything_is_loaded(tmp_path, monkeypatch):
    monkeypatch.setattr("jbpool.processes.world_size", lambda: 2)
    monkeypatch.setattr("jbpool.processes.gather", lambda value: [value] * 2)
    outcome = call(cli.cluster, "--set", "method.name=dmon", "--out", "r", cwd=tmp_path, check=False)
    assert outcome.code == 2
    assert outcome.err.count("\n") == 1
    assert "runs in a single process" in outcome.err
    assert not (tmp_path / "r").exists()
