"""Graphs whose rows are divided between processes: several give what one gives, in every step and in all."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from commands import ROOT, SHARED, run_ranks
from divided_rows import BLOCK, CASES
from divided_rows import found as found_by_steps
from shared_runs import run

from jbpool import processes
from jbpool.clustering import run as seeds_run
from jbpool.clustering.config import METHODS
from jbpool.clustering.node_cluster import NODE_CLUSTER
from jbpool.engine.config import load_config
from jbpool.errors import ConfigError

SCRIPT = ROOT / "tests" / "shared_runs.py"
STEPS = ROOT / "tests" / "divided_rows.py"
REAL = pytest.mark.skipif(not (SHARED / "planetoid").is_dir(), reason="the data are not beside this checkout")


@pytest.fixture(scope="module")
def steps(tmp_path_factory):
    """A folder with what one process finds."""
    folder, before = tmp_path_factory.mktemp("steps"), processes.ROWS
    processes.ROWS = BLOCK
    torch.save({name: found_by_steps(make()) for name, make in CASES.items()}, folder / "one.pt")
    processes.ROWS = before
    return folder


SOME, REST = ["words", "components", "six nodes"], ["weighted", "measurements", "hard"]


@pytest.mark.parametrize(
    ("count", "cases"),
    [(2, REST), (4, SOME), *(pytest.param(count, CASES, marks=pytest.mark.slow) for count in (2, 3, 4))],
)
def test_every_step_finds_what_one_process_finds(steps, count, cases):
    run_ranks(STEPS, steps, ",".join(cases), cwd=steps, processes=count)
    assert [(steps / f"{place}.txt").read_text() for place in range(count)] == [""] * count


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return run_by_several(["sbm"], tmp_path_factory)


def run_by_several(names, tmp_path_factory):
    """Number of processes -> folder with the runs of these datasets."""
    folders = {count: tmp_path_factory.mktemp(f"{count}-processes") for count in (1, 2, 3)}
    for count in (2, 3):
        run_ranks(SCRIPT, folders[count], ",".join(names), cwd=folders[count], processes=count)
    for name in names:
        run(name, folders[1] / name)
    return folders


def result(folder: Path) -> dict:
    return json.loads((folder / "result.json").read_text())


@pytest.mark.parametrize("count", [2, 3])
def test_several_processes_give_what_one_gives(runs, count):
    assert_same_runs(runs, "sbm", count)


def test_another_number_of_processes_continues_from_parts(runs, tmp_path):
    run_ranks(SCRIPT, tmp_path, "sbm", "[0]", 1000, cwd=tmp_path, processes=3)
    files = sorted(path.name for path in (tmp_path / "sbm").glob("assign*"))
    assert files == [f"assign-0000{place}-of-00003.npz" for place in range(3)]
    run_ranks(SCRIPT, tmp_path, "sbm", "[0, 1]", 10**8, cwd=tmp_path, processes=2)
    assert_same_runs({1: runs[1], 2: tmp_path}, "sbm", 2)


@REAL
@pytest.mark.slow
def test_several_processes_give_what_one_gives_on_a_larger_graph(tmp_path_factory):
    runs = run_by_several(["pubmed"], tmp_path_factory)
    for count in (2, 3):
        assert_same_runs(runs, "pubmed", count)


def assert_same_runs(runs, name, count):
    one, several = runs[1] / name, runs[count] / name
    for expected, found in zip(result(one)["runs"], result(several)["runs"], strict=True):
        assert found["loss"] == pytest.approx(expected["loss"], abs=1e-6)
        assert found["score"] == pytest.approx(expected["score"], rel=1e-6)
        tried = [[(trial["view"], trial["start"]) for trial in run["trials"]] for run in (expected, found)]
        assert tried[0] == tried[1]
    clusters = [np.load(folder / "assign.npz")["cluster"] for folder in (one, several)]
    assert (clusters[0] == clusters[1]).all()
    models = [torch.load(folder / "model.pt", weights_only=True)["state"] for folder in (one, several)]
    assert all(torch.allclose(models[0][key], models[1][key], atol=1e-5) for key in models[0])


def test_all_processes_have_the_same_number_of_clusters(runs):
    assert [result(runs[count] / "sbm")["num_clusters"]["chosen"] for count in (1, 2, 3)] == [4, 4, 4]


@pytest.mark.parametrize("name", sorted(set(METHODS) - {"auto"}))
def test_methods_that_cannot_be_shared_say_so_before_anything_is_loaded(name, monkeypatch):
    monkeypatch.setattr(seeds_run, "world_size", lambda: 2)
    monkeypatch.setattr(seeds_run, "load_nodes", None)
    with pytest.raises(ConfigError, match=f"method.name={name} "):
        NODE_CLUSTER.load_data(load_config(NODE_CLUSTER, None, [f"method.name={name}"]))
