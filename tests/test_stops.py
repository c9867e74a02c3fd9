"""Stopped runs: Ctrl-C and full or read-only disks in every phase leave complete files and print one line of advice."""

import errno
import json
import os
import resource
from pathlib import Path

import pytest

from jbpool import cli
from jbpool.files import held

SMALL = {
    cli.cluster: ["dataset.num_nodes=300", "train.epochs=1", "train.seeds=[0, 1]", "train.restarts=1"],
    cli.classify: ["dataset.num_graphs=30", "train.epochs=1", "train.folds=2", "model.hidden=8", "model.layers=1"],
}
COMMANDS = {"cluster": cli.cluster, "classify": cli.classify}

both = pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)


def arguments(command, *more) -> list[str]:
    folds = ["--folds", "0"] if command is cli.classify else []
    changes = (word for change in SMALL[command] for word in ("--set", change))
    return [*changes, *folds, "--device", "cpu", *map(str, more)]


def scores(folder: Path) -> list[dict]:
    result = json.loads((folder / "result.json").read_text())
    runs = [*result["runs"], *(run for other in result["compared"].values() for run in other["runs"])]
    return [{key: value for key, value in run.items() if "seconds" not in key} for run in runs]


def parts(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.name.endswith(".part")]


def messages(capsys) -> list[str]:
    """The lines of stderr without the progress bars."""
    return [line for line in capsys.readouterr().err.splitlines() if line.strip() and "|" not in line]


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    """command -> the folder of an uninterrupted run, and the files it wrote, in order."""

    def run(command):
        folder, replaced, replace = tmp_path_factory.mktemp("unbroken") / "run", [], os.replace
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("jbpool.engine.fit.CHECKPOINT_SECONDS", -1)       # a checkpoint in every epoch
            patch.setattr(os, "replace", lambda part, target: (replaced.append(target.name), replace(part, target)))
            assert command(arguments(command, "--out", folder)) == 0
        return folder, replaced

    return {command: run(command) for command in COMMANDS.values()}


def stop_at(patch, number: int, error: BaseException) -> None:
    """Raise an error instead of the n-th replacement of a file, counted from 0."""
    calls, replace = iter(range(10**6)), os.replace

    def stopping(part, target):
        if next(calls) == number:
            raise error
        replace(part, target)

    patch.setattr(os, "replace", stopping)


@both
@pytest.mark.parametrize("stop", ["ctrl-c", "full disk"])
def test_stopped_at_any_file_a_run_can_be_continued(command, stop, unbroken, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("jbpool.engine.fit.CHECKPOINT_SECONDS", -1)
    whole, replaced = unbroken[command]
    assert replaced[0] == "config.yaml"
    assert replaced[-1] == "report.html"
    last = sorted(len(replaced) - 1 - replaced[::-1].index(name) for name in set(replaced))
    for number in last if stop == "ctrl-c" else last[::3]:
        folder = tmp_path / str(number)
        error = KeyboardInterrupt() if stop == "ctrl-c" else OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        capsys.readouterr()
        with pytest.MonkeyPatch.context() as patch:
            stop_at(patch, number, error)
            code = command(arguments(command, "--out", folder))
        printed = messages(capsys)
        place = (number, replaced[number], printed)
        assert len(printed) == 1, place
        full = f"{folder / replaced[number]} cannot be written (No space left on device)"
        assert code == (130 if stop == "ctrl-c" else 1), place
        assert ("interrupted" if stop == "ctrl-c" else full) in printed[0], place
        assert (f"--resume --out {folder}" in printed[0]) == folder.exists() == (number > 0), place
        assert not parts(tmp_path), place
        assert command(arguments(command, "--out", folder, *(["--resume"] if number else []))) == 0, place
        assert scores(folder) == scores(whole), place
        assert {path.name for path in folder.iterdir()} == {path.name for path in whole.iterdir()}, place


@both
@pytest.mark.parametrize("phase", ["data.load_set", "engine.fit.mean_gradients", "cli.print_scores"])
def test_ctrl_c_in_every_phase(command, phase, tmp_path, monkeypatch, capsys):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(f"jbpool.{phase}", interrupt)
    folder = tmp_path / "run"
    assert command(arguments(command, "--out", folder)) == 130
    (printed,) = messages(capsys)
    assert printed.startswith("interrupted")
    assert not parts(tmp_path)
    assert folder.exists() == ("--resume" in printed) == (phase != "data.load_set")
    assert (folder / "finished.pt").exists() == ("finished work" in printed)


# ------------------------------------------------------------ disks


@both
def test_a_place_that_cannot_be_written_is_found_before_data_are_loaded(command, unbroken, monkeypatch, capsys):
    monkeypatch.setattr("jbpool.data.load_set", lambda *_: pytest.fail("data were loaded"))
    out, (run, _) = Path("/proc/run"), unbroken[command]        # not even root can write there
    for given in (arguments(command), ["--predict", str(run), "--set", "dataset.seed=1", "--device", "cpu"]):
        assert command([*given, "--out", str(out)]) == 2
        (printed,) = messages(capsys)
        assert printed.startswith(f"{out} cannot be written (")
        assert printed.endswith("choose another folder with --out.")


@both
def test_a_run_into_a_folder_in_use(command, tmp_path, capsys):
    with held(tmp_path / "run"):
        for more in ([], ["--resume"]):
            assert command(arguments(command, "--out", tmp_path / "run", *more)) == 2
            assert "another process" in capsys.readouterr().err


@pytest.fixture
def small_disk():
    """No file may grow beyond 6 kB: enough for the configuration, not for the state of a run."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (6000, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@both
def test_a_disk_that_fills_up_in_training(command, small_disk, tmp_path, capsys):
    assert command(arguments(command, "--out", tmp_path / "run")) == 1
    (printed,) = messages(capsys)
    assert "cannot be written (File too large): free some space" in printed
    assert f"continue with --resume --out {tmp_path / 'run'}" in printed
    assert not parts(tmp_path)


@both
def test_too_little_memory_is_one_line(command, tmp_path, monkeypatch, capsys):
    def allocate(*_):
        raise RuntimeError("[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory: you tried")

    monkeypatch.setattr("jbpool.engine.fit.mean_gradients", allocate)
    assert command(arguments(command, "--out", tmp_path / "run")) == 1
    assert "not enough memory: " in capsys.readouterr().err
