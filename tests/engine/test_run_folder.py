"""State files with wrong content are detected when they are loaded; the error names the path and the fix."""

import csv
import json
import os
import shutil
from unittest.mock import Mock

import numpy as np
import pytest
import torch
import yaml

from jbpool import cli
from jbpool.engine import fit
from jbpool.engine.run_folder import RunFolder, choose_folder, read_results, summary, write_assign_csv
from jbpool.engine.state import load_state, reporting_damage, save_state
from jbpool.errors import DataError, RunFolderError

SMALL = {
    cli.cluster: ["dataset.num_nodes=300", "train.epochs=2", "train.restarts=1", "train.eval_every=1",
                  "train.seeds=[0, 1]"],
    cli.classify: ["dataset.num_graphs=30", "train.epochs=2", "train.folds=2", "model.hidden=8", "model.compare=[]"],
}
COMMANDS = {"cluster": cli.cluster, "classify": cli.classify}
# What a file may hold in place of its content: function of the true state
WRONG = {
    "a list": lambda state: [1, 2],
    "a tensor": lambda state: torch.zeros(3),
    "nothing": lambda state: {},
    "numbers for everything": lambda state: dict.fromkeys(state, 3),
    "texts for everything": lambda state: dict.fromkeys(state, "x"),
    "mappings for everything": lambda state: {key: {"a": 1} for key in state},
    **{
        f"without {key}": lambda state, key=key: {name: value for name, value in state.items() if name != key}
        for key in ("config", "fingerprint", "runs", "history", "training", "seed")
    },
}


def run(command, *more) -> int:
    words = [word for change in SMALL[command] for word in ("--set", change)]
    return command([*words, "--device", "cpu", *map(str, more)])


@pytest.fixture(scope="module", params=COMMANDS.values(), ids=COMMANDS)
def stopped(request, tmp_path_factory):
    """A command and the folder of a run that was interrupted in its second part, with all kinds of files."""
    folder, command = tmp_path_factory.mktemp("stopped") / "run", request.param
    with pytest.MonkeyPatch.context() as patch:
        steps, step = iter(range(10**6)), fit.mean_gradients

        def stopping(parameters):
            if next(steps) == 3:
                raise KeyboardInterrupt
            step(parameters)

        patch.setattr(fit, "CHECKPOINT_SECONDS", -1)
        patch.setattr(fit, "mean_gradients", stopping)
        assert run(command, "--out", folder) == 130
    assert (folder / "finished.pt").exists()
    assert (folder / "checkpoint.pt").exists()
    return command, folder


def assert_refused(command, folder, name, capsys, *more) -> None:
    capsys.readouterr()
    assert run(command, "--out", folder, *more) == 2
    printed = [line for line in capsys.readouterr().err.splitlines() if line.strip() and "|" not in line]
    assert len(printed) == 1
    assert f"{folder / name} is damaged or not of this run or version (" in printed[0]


@pytest.mark.parametrize("name", ["finished.pt", "checkpoint.pt"])
def test_resume_refuses_files_of_other_content(stopped, name, tmp_path, capsys):
    command, original = stopped
    folder = tmp_path / "run"
    shutil.copytree(original, folder)
    state = torch.load(original / name, weights_only=True)
    tried = 0
    for wrong in (make(state) for make in WRONG.values()):
        if isinstance(wrong, dict) and wrong.keys() == state.keys() and wrong == state:
            continue                                                # the file has no such key
        torch.save(wrong, folder / name)
        assert_refused(command, folder, name, capsys, "--resume")
        tried += 1
    for content in (b"", b"no state", (original / name).read_bytes()[:-100]):
        (folder / name).write_bytes(content)
        assert_refused(command, folder, name, capsys, "--resume")
    shutil.copy(original / "model.pt", folder / name)
    assert_refused(command, folder, name, capsys, "--resume")
    assert tried >= 8


def test_a_checkpoint_of_another_network_is_refused(stopped, tmp_path, capsys):
    command, original = stopped
    folder = tmp_path / "run"
    shutil.copytree(original, folder)
    state = torch.load(original / "checkpoint.pt", weights_only=True)
    other = {"start": 7} if "start" in state else {}               # the starts of a clustering are counted
    for change in (other, {"training": {**state["training"], "model": {"weight": torch.zeros(3)}}}):
        if change:
            torch.save(state | change, folder / "checkpoint.pt")
            assert_refused(command, folder, "checkpoint.pt", capsys, "--resume")
    (folder / "checkpoint.pt").unlink()                             # as the message says
    assert run(command, "--out", folder, "--resume") == 0


def test_resume_writes_damaged_readable_files_anew(stopped, tmp_path, capsys):
    command, original = stopped
    folder = tmp_path / "run"
    shutil.copytree(original, folder)
    assert run(command, "--out", folder, "--resume") == 0
    table = {cli.cluster: "assign.npz", cli.classify: "predictions.npz"}[command]
    names = ("result.json", "history.csv", "config.yaml", table)
    before = [(folder / name).read_bytes() for name in names]
    for name in names:
        (folder / name).write_bytes(b"\xff{")
    assert run(command, "--out", folder, "--resume") == 2
    assert "config.yaml, line 1" in capsys.readouterr().err
    name = {cli.cluster: "sbm", cli.classify: "motifs"}[command]
    assert run(command, "--cfg", name, "--out", folder, "--resume") == 0        # there is nothing left to train
    assert [(folder / name).read_bytes() for name in names[:3]] == before[:3]
    assert len((folder / table).read_bytes()) == len(before[3])


ONE_SIDED = {"task": "node_cluster", "dataset": "x", "method": "jb", "runs": [{"seed": 0}, {"seed": 1}],
             "mean": {"acc": 0.5}, "std": {}, "compared": {}, "notes": [], "config": {}}  # fmt: skip


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{", b"\xff", b"[" * 100_000, b'{"runs": 3}', json.dumps(ONE_SIDED).encode()]
)
def test_a_damaged_result_names_the_file(tmp_path, content):
    (tmp_path / "history.csv").write_text("epoch\n")
    (tmp_path / "result.json").write_bytes(content)
    with pytest.raises(RunFolderError, match=r"result\.json cannot be read"):
        read_results(tmp_path)


@pytest.mark.parametrize("name", ["model.pt", "config.yaml"])
def test_predict_refuses_files_of_other_content(name, tmp_path, capsys):
    folder = tmp_path / "run"
    assert run(cli.cluster, "--out", folder) == 0
    state = torch.load(folder / "model.pt", weights_only=True)
    contents = [b"", b"\xff", b"[1, 2]"]
    if name == "model.pt":
        for wrong in ({}, [1], dict.fromkeys(state, 3), state | {"state": {"weight": torch.zeros(3)}}):
            torch.save(wrong, tmp_path / "wrong.pt")
            contents.append((tmp_path / "wrong.pt").read_bytes())
    for content in contents:
        (folder / name).write_bytes(content)
        capsys.readouterr()
        assert cli.cluster(["--predict", str(folder), "--set", "dataset.seed=1", "--device", "cpu"]) == 2
        printed = capsys.readouterr().err.splitlines()
        assert len(printed) == 1
        assert str(folder / name) in printed[0]
        assert not (folder / "predicted").exists()


def test_ids_are_written_as_they_were_given(tmp_path):
    """A prefix that protects spreadsheets against formulas would break joins by id; see docs/node_cluster.md."""
    ids = ["=1+1", "+a", "-3", "@b", "\tc", "d\re", 'f,"g"', "h\ni"]
    write_assign_csv(tmp_path / "a.csv", np.array(ids, dtype=object), torch.zeros(8).long(), torch.ones(8))
    with open(tmp_path / "a.csv", newline="") as file:
        assert [row["node"] for row in csv.DictReader(file)] == ids


def test_types_inside_lists_mappings_and_alternatives(tmp_path):
    path, expected = tmp_path / "a.pt", {"runs": [{"seed": int}], "best": (type(None), {"loss": float})}
    for state in ({"runs": [], "best": None}, {"runs": [{"seed": 1}], "best": {"loss": 1.0, "more": 2}}):
        save_state(path, state)
        assert load_state(path, expected) == state
    for state, words in (
        ({"runs": [{"seed": 1}, {}], "best": None}, "'runs.seed' is missing"),
        ({"runs": {"seed": 1}, "best": None}, "runs should be a list"),
        ({"runs": [], "best": {"loss": "x"}}, "best.loss should be of type float"),
    ):
        save_state(path, state)
        with pytest.raises(RunFolderError, match=words):
            load_state(path, expected)


def test_code_in_a_state_file_does_not_run(tmp_path):
    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "made"),)

    torch.save({"a": Evil()}, tmp_path / "a.pt")
    with pytest.raises(RunFolderError, match=r"a\.pt is damaged"):
        load_state(tmp_path / "a.pt", {})
    assert not (tmp_path / "made").exists()


def test_a_state_that_cannot_be_saved_keeps_the_old_one(tmp_path, monkeypatch):
    save_state(tmp_path / "a.pt", {"a": 1})

    def fail(state, file):
        file.write(b"half")
        raise RuntimeError

    monkeypatch.setattr(torch, "save", fail)
    with pytest.raises(RuntimeError):
        save_state(tmp_path / "a.pt", {"a": 2})
    assert load_state(tmp_path / "a.pt", {"a": int}) == {"a": 1}


@pytest.mark.parametrize("error", [PermissionError(13, "no"), MemoryError(), RuntimeError("DefaultCPUAllocator: no")])
def test_a_good_file_is_not_called_damaged(error, monkeypatch):
    monkeypatch.setattr(torch, "load", Mock(side_effect=error))
    with pytest.raises(type(error)):
        load_state("checkpoint.pt", {})


def test_a_damaged_state_is_named_in_plain_text(tmp_path):
    save_state(tmp_path / "x.pt", {"a": 1})
    content = (tmp_path / "x.pt").read_bytes()
    assert b"little" in content
    (tmp_path / "x.pt").write_bytes(content.replace(b"little", b"li\0\x1ble"))
    with pytest.raises(RunFolderError, match=r"x\.pt is damaged") as caught:
        load_state(tmp_path / "x.pt", {"a": int})
    assert str(caught.value).isprintable()


def test_errors_while_a_state_is_used(tmp_path):
    """Those of its content name the file on one line; those of the package pass unchanged."""
    words = r"checkpoint\.pt is damaged .*\(x{200}\): delete it"
    with pytest.raises(RunFolderError, match=words), reporting_damage(tmp_path / "checkpoint.pt"):
        raise ValueError("x" * 300 + "\nsecond line")
    with pytest.raises(DataError, match=r"^mine$"), reporting_damage(tmp_path / "checkpoint.pt"):
        raise DataError("mine")


# ---------------------------------------------------------------- results


RUNS = [
    {"seed": 0, "fold": 4, "restart": 7, "labelled": 9, "nmi": 0.5, "acc": None, "loss": -1.0, "best": True},
    {"seed": 5, "fold": 6, "restart": 8, "labelled": 9, "nmi": 0.9, "acc": 0.3, "best": False},
    {"seed": 6, "fold": 6, "restart": 8, "labelled": 9, "nmi": None, "acc": 0.3, "loss": -2.0},
]


def test_only_scores_are_averaged_over_the_runs_that_have_them():
    mean, std = summary(RUNS)
    assert mean == pytest.approx({"nmi": 0.7, "loss": -1.5})
    assert std == pytest.approx({"nmi": np.std([0.5, 0.9], ddof=1), "loss": np.std([1, 2], ddof=1)})
    assert summary(RUNS[:1])[1] == {"nmi": 0.0, "loss": 0.0}
    assert summary([]) == ({}, {})


def folder(path, **more):
    config = {"task": "t", "train": {"seeds": [0], "lr": 0.1}, "model": {"hidden": 8}}
    return RunFolder(path, "t", "set", "jb", **{"config": config, "fingerprint": "f", **more})


def test_what_is_kept_is_restored(tmp_path):
    kept = folder(tmp_path, runs=RUNS, history=[{"epoch": 1}], notes=["note"], details={"chosen": 3})
    kept.compared = {"none": [{"seed": 0, "nmi": 0.25}, {"seed": 1, "nmi": 0.75}]}
    kept.checkpoint(more=1)
    assert folder(tmp_path).unfinished({"more": int})["more"] == 1
    kept.keep(more=2)
    assert not (tmp_path / "checkpoint.pt").exists()
    assert (tmp_path / "history.csv").exists()
    again = folder(tmp_path)
    assert again.finished({"more": int})["more"] == 2
    for part in ("runs", "history", "notes", "compared", "details"):
        assert getattr(again, part) == getattr(kept, part)
    other = json.loads((tmp_path / "result.json").read_text())["compared"]["none"]
    assert (other["mean"], other["std"]) == ({"nmi": 0.5}, {"nmi": pytest.approx(0.125**0.5)})


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
        folder(tmp_path, config=config).finished({})
    with pytest.raises(RunFolderError, match="data have changed"):
        folder(tmp_path, fingerprint="g").finished({})


def test_readable_files(tmp_path):
    """JSON has no NaN, rows of the history may differ in their columns, and config.yaml keeps its order."""
    out = folder(tmp_path, details={"odd": [float("nan"), {"x": float("inf")}, 1.5]}, compared={"none": []})
    out.history = [{"epoch": 1}, {"epoch": 2, "nmi": 0.5}]
    out.start()
    assert list(yaml.safe_load((tmp_path / "config.yaml").read_text())) == ["task", "train", "model"]
    assert "NaN" not in (tmp_path / "result.json").read_text()
    result, history = read_results(tmp_path)
    assert result["odd"] == [None, {"x": None}, 1.5]
    assert history == [{"epoch": "1", "nmi": ""}, {"epoch": "2", "nmi": "0.5"}]


@pytest.mark.parametrize("content", [None, "epoch\n" + "1" * 200_000])
def test_a_damaged_history_names_the_file(tmp_path, content):
    folder(tmp_path).save()
    (tmp_path / "history.csv").unlink()
    if content is not None:
        (tmp_path / "history.csv").write_text(content)
    with pytest.raises(RunFolderError, match=r"history\.csv cannot be read"):
        read_results(tmp_path)


def test_assignments_load_without_pickle(tmp_path):
    ids = np.array(["a", 7], dtype=object)
    folder(tmp_path).save_assign(ids, [3], [torch.tensor([1, 0])], [torch.tensor([0.25, 1 / 3])])
    with np.load(tmp_path / "assign.npz", allow_pickle=False) as stored:
        assert stored["ids"].tolist() == ["a", "7"]
        assert stored["cluster"].tolist() == [[1, 0]]
    write_assign_csv(tmp_path / "a.csv", ids, torch.tensor([1, 0]), torch.tensor([0.25, 1 / 3]))
    assert (tmp_path / "a.csv").read_text().split() == ["node,cluster,confidence", "a,1,0.250000", "7,0,0.333333"]


def test_a_run_on_this_folder_has_its_name(tmp_path, monkeypatch):
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path / "mine")
    assert choose_folder("graph_classify", ".", None, resume=False).name.startswith("mine-")
