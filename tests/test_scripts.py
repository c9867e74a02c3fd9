"""The scripts that print tables, on generated run folders."""

import csv
import importlib
import json
import re
import runpy
import shutil
import statistics
import sys

import pytest
from commands import ROOT, call

SCRIPTS = ROOT / "scripts"


@pytest.fixture
def script(tmp_path, monkeypatch):
    """A function (name, arguments, ...) that runs a script inside ``tmp_path``, in this process."""

    def run(name, *args, check=True):
        def start(argv):
            monkeypatch.setattr(sys, "argv", [name, *argv])
            monkeypatch.syspath_prepend(str((SCRIPTS / name).parent))
            runpy.run_path(str(SCRIPTS / name), run_name="__main__")
            return 0

        return call(start, *args, cwd=tmp_path, check=check)

    return run


def write_run(folder, dataset, method, acc, nmi, *, sqrt="matrix", lr=1e-4, layers=10, seeds=2, objective=None,
              epochs=2000, seconds=None, **options):
    folder.mkdir(parents=True)
    result = {
        "task": "node_cluster", "dataset": dataset, "method": method,
        "runs": [{"seed": seed, "acc": acc, "nmi": nmi, "loss": -0.5} for seed in range(seeds)],
        "mean": {"acc": acc, "nmi": nmi, "seconds": seconds}, "std": {"acc": 0.01, "nmi": 0.02, "seconds": 0.0},
        "compared": {}, "notes": [],
        "config": {"dataset": {"name": dataset, **options}, "train": {"lr": lr, "epochs": epochs, "restarts": 1},
                   "method": {"sqrt": sqrt, "objective": objective},
                   "model": {"backbone": "sage" if layers == 1 else "delta", "layers": layers}},
    }  # fmt: skip
    (folder / "result.json").write_text(json.dumps(result))


def test_table_2_has_our_figures_beside_the_paper_s(tmp_path, script):
    write_run(tmp_path / "r" / "a", "cora", "jb", 0.5, 0.4)
    write_run(tmp_path / "r" / "b", "cora", "jb", 0.45, 0.35, sqrt="diagonal")
    write_run(tmp_path / "r" / "d", "cora", "jb", 0.43, 0.33, lr=5e-5)
    write_run(tmp_path / "r" / "c", "dblp", "mincut", 0.55, 0.3)
    write_run(tmp_path / "r" / "e", "cora", "dmon", 0.52, 0.42, normalize=False)
    write_run(tmp_path / "r" / "f", "cora", "dmon", 0.51, 0.41)
    write_run(tmp_path / "r" / "g", "cora", "mincut", 0.51, 0.41, layers=1, seeds=1)
    write_run(tmp_path / "r" / "h", "cora", "jb", 0.4, 0.4, objective={"cut": 1.0, "balance": 0.5}, epochs=300)
    write_run(tmp_path / "r" / "i", "cora", "jb", 0.1, 0.1, seeds=0)            # interrupted in its first seed
    lines = script("reproduce/table.py", "r").out.splitlines()
    rows = {line.split("|")[1].strip(): [cell.strip() for cell in line.split("|")[2:-1]] for line in lines}
    assert rows["jb"][:5] == ["2/-/-/-", "0.500 ± 0.010", "0.457 ± 0.025", "0.400 ± 0.020", "0.351 ± 0.128"]
    assert rows["jb, diagonal"][1:3] == ["0.450 ± 0.010", "0.457 ± 0.025"]
    assert rows["jb, lr 5e-5"][1] == "0.430 ± 0.010"
    assert rows["mincut"][-4:] == ["0.550 ± 0.010", "0.538 ± 0.033", "0.300 ± 0.020", "0.297 ± 0.024"]
    assert rows["mincut"][1] == "-"
    assert "jb, 1 cut + 0.5 balance, epochs 300" in rows
    assert rows["mincut, one layer"][:3] == ["1/-/-/-", "0.510", "0.534 ± 0.041"]
    assert rows["dmon"][1:3] == ["0.510 ± 0.010", "0.488 ± 0.063; PyAGC 0.530"]
    assert rows["dmon, raw features"][1:3] == ["0.520 ± 0.010", "0.488 ± 0.063"]
    assert len({line.count("|") for line in lines}) == 1


def test_every_run_as_csv(tmp_path, script):
    write_run(tmp_path / "r" / "a", "cora", "jb", 0.5, 0.4, sqrt="diagonal")
    lines = script("reproduce/table.py", "r", "--csv").out.splitlines()
    assert lines == ["task,dataset,method,seed,fold,acc,nmi,loss,test",
                     *(f"node_cluster,cora,jb diagonal,{seed},,0.5,0.4,-0.5," for seed in (0, 1))]  # fmt: skip


def write_folds(folder, dataset, method, scores, *, metric="acc", sqrt="matrix", compared=(), folds=10, seed=0):
    runs = [{"seed": seed, "fold": fold, "test": test, "metric": metric} for fold, test in enumerate(scores)]
    spread = statistics.stdev(scores) if len(scores) > 1 else 0.0
    found = {"runs": runs, "mean": {"test": statistics.fmean(scores)}, "std": {"test": spread}}
    train = {"folds": folds, "official_split": True}
    result = {
        "task": "graph_classify", "dataset": dataset, "method": method, **found, "notes": [],
        "compared": {other: found for other in compared},
        "config": {"method": {"sqrt": sqrt}, "dataset": {"name": dataset}, "train": train},
    }  # fmt: skip
    folder.mkdir(parents=True)
    (folder / "result.json").write_text(json.dumps(result))


def test_the_table_of_graph_classification(tmp_path, script):
    write_folds(tmp_path / "r" / "all", "NCI1", "jb", (0.73, 0.75, 0.77), compared=["none", "dmon"])
    write_folds(tmp_path / "r" / "diagonal", "NCI1", "mincut", (0.75, 0.78, 0.81), sqrt="diagonal", compared=["jb"])
    lines, paired = (part.splitlines() for part in script("reproduce/table.py", "r").out.split("\n\n"))
    head, _, row = ([cell.strip() for cell in line.split("|")[1:-1]] for line in lines)
    cells = dict(zip(head, row, strict=True))
    assert cells["jb"] == cells["none"] == cells["dmon"] == "75.0 ± 2.0 (3)"
    assert cells["jb, diagonal"] == cells["mincut"] == "78.0 ± 3.0 (3)"
    assert (cells["set"], cells["diffpool"]) == ("NCI1", "-")
    assert cells["published"] == "GIN 80.0 ± 1.4, DiffPool 76.9 ± 1.9, BN-Pool 80.0"
    error = 100 * ((1 / 3 + 1 / 9) * 0.0001) ** 0.5             # of differences 0.02, 0.03 and 0.04
    assert f"| NCI1 | jb, diagonal | +3.0 ± {error:.1f} (p = 0.05) | 3 |" in paired
    assert "| NCI1 | dmon | +0.0 ± 0.0 (p = 1.00) | 3 |" in paired


def test_errors_are_not_percentages_and_refusals(tmp_path, script):
    write_folds(tmp_path / "r" / "a", "ogbg-molesol", "jb-diagonal", (1.1, 1.3), metric="rmse", compared=["none"])
    table, paired = script("reproduce/table.py", "r").out.split("\n\n")
    assert "| ogbg-molesol | - | 1.200 ± 0.141 (2) | 1.200 ± 0.141 (2) |" in table
    assert "| ogbg-molesol | jb, diagonal | +0.000 ± 0.000 (p = 1.00) | 2 |" in paired
    write_folds(tmp_path / "r" / "b", "ogbg-molesol", "jb", (1.1, 1.3), metric="rmse", sqrt="diagonal")
    assert "a and b are both jb, diagonal on ogbg-molesol" in script("reproduce/table.py", "r", check=False).err
    shutil.rmtree(tmp_path / "r" / "b")
    write_folds(tmp_path / "r" / "b", "ogbg-molesol", "dmon", (1.1, 1.3), metric="rmse", folds=5)
    assert "a and b have other graphs or folds" in script("reproduce/table.py", "r", check=False).err
    (tmp_path / "r" / "b" / "result.json").write_text("[]")
    assert "result.json is damaged" in script("reproduce/table.py", "r", check=False).err


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("loss", ["--largest", 4, "--rounds", 2]),
        ("step", ["--datasets", "cora-sim", "--rounds", 2]),
        pytest.param("scale", ["--sizes", 2e3, "--speed-up"], marks=pytest.mark.slow),
        ("layer", ["--sets", "NCI1", "--rounds", 2]),
        ("versions", [ROOT, "--sets", "NCI1", "--rounds", 2]),
        pytest.param("epoch", ["--sets", "NCI1", "--rounds", 2], marks=pytest.mark.slow),
    ],
)
def test_benchmarks_run(name, args, script, request):
    if name in ("layer", "versions", "epoch"):
        request.getfixturevalue("shared")
    assert script(f"bench/{name}.py", *args).out.count("\n|") >= 3


# Others are parts that scripts share.
COMMANDS = sorted(path for path in SCRIPTS.rglob("*.py") if '__name__ == "__main__"' in path.read_text())


@pytest.mark.parametrize("path", COMMANDS, ids=lambda path: str(path.relative_to(SCRIPTS)))
def test_every_script_opens_with_its_command(path):
    assert f"    python {path.relative_to(ROOT)}" in path.read_text().split('"""')[1]


def test_predictors_of_numbers(script):
    """The mean degree is one of the statistics: a linear model knows it, and the mean of other graphs does not."""
    out = script("reproduce/regression.py", "--set", "dataset.num_graphs=300").out.splitlines()
    cells = [line.split("|") for line in out[2:]]
    degree = {name.strip(): float(r2.split(",")[1]) for _, name, r2, *_ in cells}
    assert degree["ridge regression"] > 0.95
    assert degree["the mean of the training graphs"] <= 0


def test_the_forest_on_two_folds(script, shared):
    lines = script("reproduce/forest.py", "--sets", "mutag", "--folds", "0,1").out.splitlines()
    mean = re.fullmatch(r"\| mutag \| acc \| (\d+\.\d) ± \d+\.\d \(2\) \|", lines[-1])[1]
    assert float(mean) > 75                         # two thirds of the molecules are of one class
    _, *rows = csv.reader(script("reproduce/forest.py", "--sets", "mutag", "--folds", "0,1", "--csv").out.splitlines())
    assert [row[:5] for row in rows] == [["graph_classify", "MUTAG", "random forest", "0", fold] for fold in "01"]
    assert 50 * sum(float(row[8]) for row in rows) == pytest.approx(float(mean), abs=0.05)


def test_the_limit_of_the_pooling_benchmark(script):
    row = script("reproduce/gcb_limit.py", "--sets", "gcb-sim", "--graphs", 60).out.splitlines()[-1]
    none, one, more, limit = (float(cell.strip(" %")) for cell in row.split("|")[3:-1])
    assert none + one + more == pytest.approx(100, abs=0.2)
    assert limit == pytest.approx(100 - none * 2 / 3, abs=0.1)
    assert 10 < none < 50


def test_try_settings(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPTS / "reproduce"))
    module = importlib.import_module("try_settings")
    monkeypatch.setattr(module, "TRAIN", 24)
    monkeypatch.setattr(module, "VALID", 12)
    short = ["--set", "train.epochs=1", "--set", "model.hidden=4"]

    def start(argv):
        monkeypatch.setattr(sys, "argv", ["try_settings.py", *argv])
        module.main()
        return 0

    lines = call(start, "--variants", "none", "jb", "--seeds", "0,1", *short, cwd=tmp_path).out.splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines[2:]]
    assert [row[0] for row in rows] == ["none", "jb"]
    assert all(row[-1] == "2" for row in rows)
