"""State files with wrong content are detected when they are loaded; the error names the path and the fix."""

import csv
import shutil

import numpy as np
import pytest
import torch

from jbpool import cli
from jbpool.engine import fit
from jbpool.engine.run_folder import read_results, write_assign_csv
from jbpool.engine.state import load_state, save_state
from jbpool.errors import RunFolderError

SMALL = {
    cli.cluster: ["dataset.num_nodes=300", "train.epochs=2", "train.eval_every=1", "train.seeds=[0, 1]"],
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
    told = [line for line in capsys.readouterr().err.splitlines() if line.strip() and "|" not in line]
    assert len(told) == 1
    assert f"{folder / name} is damaged or not a file of this run (" in told[0]


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
    state["training"]["model"] = {"weight": torch.zeros(3)}
    torch.save(state, folder / "checkpoint.pt")
    assert_refused(command, folder, "checkpoint.pt", capsys, "--resume")
    (folder / "checkpoint.pt").unlink()                             # as the message says
    assert run(command, "--out", folder, "--resume") == 0


def test_resume_writes_damaged_readable_files_anew(stopped, tmp_path):
    command, original = stopped
    folder = tmp_path / "run"
    shutil.copytree(original, folder)
    assert run(command, "--out", folder, "--resume") == 0
    table = {cli.cluster: "assign.npz", cli.classify: "predictions.npz"}[command]
    names = ("result.json", "history.csv", "config.yaml", table)
    before = [(folder / name).read_bytes() for name in names]
    for name in names:
        (folder / name).write_bytes(b"\xff{")
    assert run(command, "--out", folder, "--resume") == 0           # there is nothing left to train
    assert [(folder / name).read_bytes() for name in names[:3]] == before[:3]
    assert len((folder / table).read_bytes()) == len(before[3])


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff", b"[" * 100_000, b'{"runs": 3}'])
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
        told = capsys.readouterr().err.splitlines()
        assert len(told) == 1
        assert str(folder / name) in told[0]
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
