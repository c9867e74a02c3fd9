"""The run folder: what is finished is restored, and readable files are whole."""

import csv
import json

import numpy as np
import pytest
import torch
import yaml

from jbpool.engine.run_folder import RunFolder, choose_folder, summary, write_assign_csv
from jbpool.errors import RunFolderError

RUNS = [
    {"seed": 0, "fold": 4, "restart": 7, "labelled": 9, "nmi": 0.5, "acc": None, "loss": -1.0, "best": True},
    {"seed": 5, "fold": 6, "restart": 8, "labelled": 9, "nmi": 0.9, "acc": 0.3, "best": False},
    {"seed": 6, "fold": 6, "restart": 8, "labelled": 9, "nmi": None, "acc": 0.3, "loss": -2.0},
]


def folder(path, **more):
    config = {"task": "t", "train": {"seeds": [0], "lr": 0.1}, "model": {"hidden": 8}}
    return RunFolder(path, "t", "set", "jb", **{"config": config, "fingerprint": "f", **more})


def test_only_scores_are_averaged_over_the_runs_that_have_them():
    mean, std = summary(RUNS)
    assert mean == pytest.approx({"nmi": 0.7, "loss": -1.5})
    assert std == pytest.approx({"nmi": np.std([0.5, 0.9], ddof=1), "loss": np.std([1, 2], ddof=1)})
    assert summary(RUNS[:1])[1] == {"nmi": 0.0, "loss": 0.0}
    assert summary([]) == ({}, {})


# ---------------------------------------------------------------- units


def test_what_is_kept_is_restored(tmp_path):
    order = []
    kept = folder(tmp_path, notes=["note"], details={"chosen": 3}, own={"clusters": {0: torch.tensor([1, 0])}})
    kept.write = lambda: order.append((tmp_path / "finished.pt").exists())
    kept.begin(resume=False)
    kept.record({"seed": 0}, {"nmi": 0.5}, [{"epoch": 1}])
    kept.record({"method": "none", "seed": 0}, {"nmi": 0.25}, [{"epoch": 2}])
    kept.record({"method": "none", "seed": 1}, {"nmi": 0.75}, [])
    kept.keep()
    assert order == [False]                             # the record that it is finished comes after the files of it
    kept.checkpoint(seed=1, training=7)

    again = folder(tmp_path, own={"clusters": {}, "new": 1}, write=lambda: order.append("again"))
    again.begin(resume=True)
    assert order == [False, "again"]
    for part in ("runs", "history", "notes", "compared", "details"):
        assert getattr(again, part) == getattr(kept, part)
    assert again.own["clusters"][0].tolist() == [1, 0]
    assert again.own["new"] == 1
    assert again.left([{"seed": 0}, {"seed": 1}]) == [{"method": "jb", "seed": 1}]
    units = [{"method": method, "seed": seed} for method in ("jb", "none") for seed in (0, 1)]
    assert again.left(units) == [{"method": "jb", "seed": 1}]
    assert again.continued(seed=0) == {}
    assert again.continued(seed=1)["training"] == 7
    assert again.continued(seed=1) == {}                # once
    again.keep()
    assert not (tmp_path / "checkpoint.pt").exists()
    other = json.loads((tmp_path / "result.json").read_text())["compared"]["none"]
    assert (other["mean"], other["std"]) == ({"nmi": 0.5}, {"nmi": pytest.approx(0.125**0.5)})


def test_folds_are_units_of_their_own(tmp_path):
    out = folder(tmp_path)
    units = [{"method": "jb", "seed": seed, "fold": fold} for seed in (0, 1) for fold in (0, 1)]
    out.record(units[2], {}, [])
    assert out.runs == [{"seed": 1, "fold": 0}]
    assert out.left(units) == [units[0], units[1], units[3]]


def test_an_interrupted_run_is_left_readable(tmp_path):
    out = folder(tmp_path, draw=lambda: "page", curve=[{"epoch": 5}])
    out.record({"seed": 0}, {"nmi": 0.5}, [{"epoch": 1}])
    out.curve = [{"epoch": 5}]
    with pytest.raises(KeyboardInterrupt), out.leaving():
        raise KeyboardInterrupt
    assert (tmp_path / "history.csv").read_text().split() == ["epoch", "1", "5"]
    assert (tmp_path / "report.html").read_text() == "page"


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"task": "t", "train": {"seeds": [0], "lr": 0.1}, "model": {}}, r"configuration \(model\.hidden\)"),
        ({"task": "t", "train": {"seeds": [0], "lr": 0.2}, "model": {"hidden": 8, "new": 1}}, "model.new, train.lr"),
        ({"task": "u", "train": {"seeds": [3], "lr": 0.1}, "model": {"hidden": 8}}, r"configuration \(task\)"),
    ],
)
def test_settings_that_were_changed_added_or_removed(tmp_path, config, words):
    folder(tmp_path).keep()
    with pytest.raises(RunFolderError, match=words):
        folder(tmp_path, config=config).begin(resume=True)
    with pytest.raises(RunFolderError, match="data have changed"):
        folder(tmp_path, fingerprint="g").begin(resume=True)


@pytest.mark.parametrize("content", [[1, 2], torch.zeros(3), {}, {"config": 3}, {"config": {}, "fingerprint": "f"}])
def test_a_state_of_other_content(tmp_path, content):
    for name in ("finished.pt", "checkpoint.pt"):
        torch.save(content, tmp_path / name)
        with pytest.raises(RunFolderError):
            folder(tmp_path).begin(resume=True)
        (tmp_path / name).unlink()


# ---------------------------------------------------------------- files


def test_readable_files(tmp_path):
    """JSON has no NaN, rows of the history may differ in their columns, and config.yaml keeps its order."""
    out = folder(tmp_path, details={"odd": [float("nan"), {"x": float("inf")}, 1.5]}, compared={"none": []})
    out.history = [{"epoch": 1}, {"epoch": 2, "nmi": 0.5}]
    out.begin(resume=False)
    assert list(yaml.safe_load((tmp_path / "config.yaml").read_text())) == ["task", "train", "model"]
    assert "NaN" not in (tmp_path / "result.json").read_text()
    assert json.loads((tmp_path / "result.json").read_text())["odd"] == [None, {"x": None}, 1.5]
    with open(tmp_path / "history.csv", newline="") as file:
        assert list(csv.DictReader(file)) == [{"epoch": "1", "nmi": ""}, {"epoch": "2", "nmi": "0.5"}]


def test_assignments_load_without_pickle(tmp_path):
    ids = np.array(["a", 7], dtype=object)
    folder(tmp_path).save_assign(ids, [3], [torch.tensor([1, 0])], [torch.tensor([0.25, 1 / 3])])
    with np.load(tmp_path / "assign.npz", allow_pickle=False) as stored:
        assert stored["ids"].tolist() == ["a", "7"]
        assert stored["cluster"].tolist() == [[1, 0]]
    write_assign_csv(tmp_path / "a.csv", ids, torch.tensor([1, 0]), torch.tensor([0.25, 1 / 3]))
    assert (tmp_path / "a.csv").read_text().split() == ["node,cluster,confidence", "a,1,0.250000", "7,0,0.333333"]


def test_ids_are_written_as_they_were_given(tmp_path):
    """A prefix that protects spreadsheets against formulas would break joins by id."""
    ids = ["=1+1", "+a", "-3", "@b", "\tc", "d\re", 'f,"g"', "h\ni"]
    write_assign_csv(tmp_path / "a.csv", np.array(ids, dtype=object), torch.zeros(8).long(), torch.ones(8))
    with open(tmp_path / "a.csv", newline="") as file:
        assert [row["node"] for row in csv.DictReader(file)] == ids


def test_a_run_on_this_folder_has_its_name(tmp_path, monkeypatch):
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path / "mine")
    assert choose_folder("graph_classify", ".", None, resume=False).name.startswith("mine-")
