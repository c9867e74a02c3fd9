"""Common behaviour of both tasks: complete run folders, --resume, Ctrl-C, errors."""

import csv
import re
import shutil
import statistics
import sys
import types
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import yaml
from commands import CASES, CLASSIFY, CLUSTER, assert_same_weights, call, numbers, result_of, run_task, settings

import jbpool
from jbpool.engine.config import load_config
from jbpool.engine.run_folder import WRITTEN, RunFolder, choose_folder
from jbpool.errors import ConfigError, JBPoolError, ProcessError, RunFolderError, TrainingError
from jbpool.graph import Graph
from jbpool.schema import as_dict

PACKAGE = Path(jbpool.__file__).parent


@pytest.fixture(scope="module", params=CASES.values(), ids=CASES)
def case(request):
    return request.param


@pytest.fixture(scope="module")
def finished(case, tmp_path_factory):
    """The folder of a run of two seeds, and what the command printed. Tests that change it take a copy."""
    cwd = tmp_path_factory.mktemp(case.task.name)
    outcome = call(case.command, *case.arguments(), "--seeds", "0,1", "--out", "r", cwd=cwd)
    return cwd / "r", outcome


@pytest.fixture
def copy(finished, tmp_path):
    return shutil.copytree(finished[0], tmp_path / "r")


# ---------------------------------------------------------------- the run folder


def test_the_run_folder_is_whole(case, finished):
    folder, outcome = finished
    there = {path.name for path in folder.iterdir()}
    assert {"config.yaml", "result.json", "history.csv", "model.pt", "report.html", case.predictions} <= there
    assert "checkpoint.pt" not in there
    assert there <= set(WRITTEN)                                        # what --out must not replace
    assert not [name for name in there if name.startswith(".")]         # parts of files
    result = result_of(folder)
    assert {"task", "dataset", "method", "runs", "mean", "std", "versions", "config"} <= set(result)
    assert result["task"] == case.task.name
    assert [run["seed"] for run in result["runs"]] == [0, 1]
    values = [run[case.score] for run in result["runs"]]
    assert result["mean"][case.score] == pytest.approx(statistics.fmean(values))
    assert result["std"][case.score] == pytest.approx(statistics.stdev(values))
    assert all(run["seconds"] > 0 for run in result["runs"])
    assert case.score in outcome.out
    assert "report.html" in outcome.out
    assert load_config(case.task, str(folder / "config.yaml")) == case.config("train.seeds=[0, 1]")


def test_the_report_is_one_file(finished):
    page = (finished[0] / "report.html").read_text()
    shown, _, licences = page.partition("<!--")
    assert "http" not in shown.replace("http-equiv", "")                # nothing is fetched
    assert "default-src 'none'" in shown                                # and the browser would refuse
    assert not re.search(r"<[a-z]+ [^>]*\b(src|href)=", shown)
    assert ("Alexis Jacomy" in licences) == ("sigma" in shown)          # of the libraries in the page


def test_a_finished_run_resumed_draws_the_same_page(case, copy):
    page = (copy / "report.html").read_text()
    call(case.command, *case.arguments("train.seeds=[0, 1]"), "--resume", "--out", copy, cwd=copy.parent)
    assert (copy / "report.html").read_text() == page


def test_seeds_repeat_to_the_bit(case, finished, tmp_path):
    folds = {"folds": [0]} if case is CLASSIFY else {}
    run_task(case, case.config("train.seeds=[0, 1]"), tmp_path / "again", **folds)
    assert numbers(tmp_path / "again") == numbers(finished[0])
    assert_same_weights(tmp_path / "again", finished[0])
    first, second = next(iter(numbers(tmp_path / "again").values()))
    assert first["epochs"] == second["epochs"]
    assert {**first, "seed": 1} != second                               # another seed is another run


def test_settings_without_effect_are_reported(case, finished, tmp_path):
    outcome = call(case.command, *case.arguments("train.epochs=1", "method.temperature=0.5"), cwd=tmp_path)
    assert "settings without effect here: method.temperature\n" in outcome.out
    assert "without effect" not in finished[1].out


# ---------------------------------------------------------------- --resume


def interrupt(monkeypatch, checkpoints):
    """Ctrl-C after the given number of checkpoints; every evaluation writes one."""
    monkeypatch.setattr("jbpool.engine.fit.CHECKPOINT_SECONDS", -1)
    real, written = RunFolder.checkpoint, []

    def checkpoint(self, **state):
        real(self, **state)
        written.append(state)
        if len(written) == checkpoints:
            raise KeyboardInterrupt

    monkeypatch.setattr(RunFolder, "checkpoint", checkpoint)


def test_a_run_interrupted_again_and_again_equals_an_unbroken_one(case, finished, tmp_path, monkeypatch):
    arguments = [*case.arguments(), "--seeds", "0,1", "--out", "r", "--resume"]
    codes = []
    while not codes or codes[-1] == 130:
        with monkeypatch.context() as patch:
            interrupt(patch, checkpoints=2)
            outcome = call(case.command, *arguments, cwd=tmp_path, check=False)
        codes.append(outcome.code)
        assert len(codes) < 20
    assert len(codes) > 4
    assert codes[-1] == 0, outcome.err
    assert numbers(tmp_path / "r") == numbers(finished[0])
    assert (tmp_path / "r" / "history.csv").read_text() == (finished[0] / "history.csv").read_text()
    assert_same_weights(tmp_path / "r", finished[0])
    assert (tmp_path / "r" / "report.html").is_file()


def test_what_is_finished_is_not_repeated(case, finished, copy, tmp_path, monkeypatch):
    monkeypatch.setattr("jbpool.engine.fit.Progress", None)             # training would fail
    call(case.command, *case.arguments(), "--seeds", "0,1", "--out", "r", "--resume", cwd=tmp_path)
    assert result_of(copy)["runs"] == result_of(finished[0])["runs"]


def test_more_seeds_may_be_asked_for(case, finished, copy, tmp_path):
    call(case.command, *case.arguments(), "--seeds", "0,1,2", "--out", "r", "--resume", cwd=tmp_path)
    before, after = numbers(finished[0]), numbers(copy)
    for method, runs in before.items():
        assert after[method][:2] == runs
        assert [run["seed"] for run in after[method]] == [0, 1, 2]


@pytest.mark.parametrize("part", ["feat", "edges", "label"])
def test_resume_refuses_changed_data(case, copy, part):
    config = case.config("train.seeds=[0, 1, 2]")
    data = case.task.load_data(config)
    if part == "feat":
        feat = data.feat.to_dense().clone()
        feat[0, 0] += 1
        changed = replace(data, feat=feat)
    elif part == "label":
        changed = replace(data, label=data.label.flip(0))
    elif case is CLUSTER:
        changed = replace(data, graph=Graph(data.graph.edge_index[:, 1:], data.graph.num_nodes))
    else:
        changed = replace(data, source=data.source.flip(0), target=data.target.flip(0))
    before = (copy / "result.json").read_text()
    with pytest.raises(RunFolderError, match="data have changed"):
        run_task(case, config, copy, changed, resume=True)
    assert (copy / "result.json").read_text() == before


def test_a_folder_that_holds_a_run(case, copy, tmp_path):
    outcome = call(case.command, *case.arguments(), "--seeds", "0,1", "--out", "r", cwd=tmp_path, check=False)
    assert outcome.code == 2
    assert "already holds a run" in outcome.err


def test_resume_without_a_run(case, tmp_path):
    outcome = call(case.command, "--cfg", "file", "--resume", cwd=tmp_path, check=False)
    assert outcome.code == 2
    assert "there is no run of file" in outcome.err
    outcome = call(case.command, *case.arguments("train.epochs=1"), "--out", "new", "--resume", cwd=tmp_path)
    assert "new holds no run to continue: starting a new one" in outcome.out
    outcome = call(case.command, "--resume", "--out", "nwe", cwd=tmp_path, check=False)      # what would it start?
    assert outcome.code == 2
    assert "nwe holds no run to continue; to start one, name its --cfg" in outcome.err


@pytest.mark.parametrize("resume", [[], ["--resume"]])
def test_files_of_the_user_are_not_replaced(case, tmp_path, resume):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "report.html").write_text("my own")
    outcome = call(case.command, *case.arguments(), "--out", "mine", *resume, cwd=tmp_path, check=False)
    assert outcome.code == 2
    assert "report.html exists and would be replaced: choose another --out" in outcome.err
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["report.html"]
    outcome = call(case.command, *case.arguments(), "--out", "", *resume, cwd=tmp_path, check=False)
    assert (outcome.code, outcome.err) == (2, "--out is empty: name a folder, or leave it out.\n")


def test_resume_takes_the_latest_run_of_this_configuration(case, tmp_path, monkeypatch):
    runs = tmp_path / "runs" / case.task.name
    for name in ("default-20240101", "default-20250101", "default-big-20260101", "my[1]-20240101"):
        (runs / f"{name}-000000").mkdir(parents=True)
        (runs / f"{name}-000000" / "config.yaml").write_text(f"task: {case.task.name}")
    (runs / "default-20260101-000000").mkdir()          # of a run that failed before it began
    outcome = call(case.command, *case.arguments("train.epochs=1"), "--resume", cwd=tmp_path)
    assert "default-20250101-000000" in outcome.out
    monkeypatch.chdir(tmp_path)
    assert choose_folder(case.task.name, "my[1].yaml", None, resume=True).name == "my[1]-20240101-000000"


# ---------------------------------------------------------------- Ctrl-C


def test_ctrl_c_in_the_first_seed(case, tmp_path, monkeypatch):
    interrupt(monkeypatch, checkpoints=2)
    outcome = call(case.command, *case.arguments(), "--out", "r", cwd=tmp_path, check=False)
    assert outcome.code == 130
    printed = re.search(r"interrupted; continue with (--resume --out r.*)\.", outcome.err)
    assert result_of(tmp_path / "r")["runs"] == []
    assert len((tmp_path / "r" / "history.csv").read_text().splitlines()) == 3      # header, two evaluations
    assert not (tmp_path / "r" / "report.html").exists()
    monkeypatch.undo()
    call(case.command, *printed[1].split(), cwd=tmp_path)                          # as printed, without the settings
    assert len(result_of(tmp_path / "r")["runs"]) == 1
    assert load_config(case.task, str(tmp_path / "r" / "config.yaml")) == case.config()


def test_a_run_that_was_stopped_before_its_first_checkpoint_keeps_its_settings(case, tmp_path):
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "config.yaml").write_text(yaml.safe_dump(as_dict(case.config())))
    call(case.command, "--resume", "--out", "r", *case.more, cwd=tmp_path)
    assert load_config(case.task, str(tmp_path / "r" / "config.yaml")) == case.config()


@pytest.mark.parametrize(
    ("case", "seeds", "checkpoints"),
    [(CLUSTER, "0,1", 8), (CLASSIFY, "0,1", 5), (CLASSIFY, "0", 5)],        # 6 checkpoints per seed and 3
    ids=["node_cluster", "graph_classify", "a compared method that has finished nothing"],
)
def test_ctrl_c_leaves_a_report_of_what_is_finished(case, seeds, checkpoints, tmp_path, monkeypatch):
    interrupt(monkeypatch, checkpoints)
    outcome = call(case.command, *case.arguments(), "--seeds", seeds, "--out", "r", cwd=tmp_path, check=False)
    assert outcome.code == 130
    assert [run["seed"] for run in result_of(tmp_path / "r")["runs"]] == [0]
    assert "runs: 1" in (tmp_path / "r" / "report.html").read_text()


# ---------------------------------------------------------------- --log


@pytest.fixture(params=["tensorboard", "mlflow"])
def logged(request, monkeypatch):
    """The kind of log, and what a stand-in for its package was given: (curve, key, epoch) -> value."""
    kind, given = request.param, {}

    class SummaryWriter:
        def __init__(self, folder):
            self.folder = Path(folder)

        def add_scalar(self, key, value, epoch):
            assert self.folder.parent == Path("r", "tensorboard")
            given[self.folder.name, key, epoch] = value

        def flush(self):
            pass

    def log_metrics(values, step):
        given.update({(*key.split("/"), step): value for key, value in values.items()})

    fake = types.ModuleType(kind)
    if kind == "tensorboard":
        fake.SummaryWriter = SummaryWriter
        monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", fake)
    else:
        fake.start_run, fake.log_metrics = lambda run_name: given.update(run=run_name), log_metrics
        monkeypatch.setitem(sys.modules, "mlflow", fake)
    return kind, given


def test_a_log_gets_the_history(case, logged, tmp_path):
    kind, given = logged
    call(case.command, *case.arguments(), "--log", kind, "--out", "r", cwd=tmp_path)
    assert given.pop("run", "r") == "r"
    with open(tmp_path / "r" / "history.csv") as file:
        rows = list(csv.DictReader(file))
    losses = sorted((int(row["epoch"]), float(row["loss"])) for row in rows)
    assert sorted((epoch, value) for (_, key, epoch), value in given.items() if key == "loss") == losses
    names = {name for name, _, _ in given}
    assert len(names) == len({(row.get("method"), row["seed"]) for row in rows})


def test_a_log_whose_package_is_missing(case, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow", None)            # importing it raises an ImportError
    outcome = call(case.command, *case.arguments(), "--log", "mlflow", "--out", "r", cwd=tmp_path, check=False)
    assert outcome.code == 2
    assert outcome.err.startswith("--log mlflow needs mlflow (")
    assert outcome.err.endswith("): pip install mlflow\n")
    assert not (tmp_path / "r").exists()


# ---------------------------------------------------------------- errors


COMMON = [
    (["--cfg", "nowhere.yaml"], "--cfg nowhere.yaml: no such file"),
    (["--set", "train.epoch=3"], "train.epochs"),
    (["--out", "afile/x"], "a file of that name exists"),
    (["--device", "cuda"], "no GPU"),
    (["--device", "tpu"], "'tpu'"),
    (["--resumee"], "--resumee"),
    (["--predict", "nowhere"], "nowhere has no model.pt (no such folder)"),
]
OWN = [
    (CLUSTER, ["--cfg", "file"], "edges.csv: no such file"),
    (CLUSTER, ["--set", "method.cluster_sizes=[0.5, 0.5]", "--set", "method.num_clusters=3"], "2 entries for 3"),
    (CLUSTER, ["--set", "method.num_clusters=2000"], "2000 clusters of 1000 nodes"),
    (CLASSIFY, ["--set", "model.backbone=ginn", "--set", "model.readout=mean+maxx"], "'max'"),
    (CLASSIFY, ["--set", "model.norm=bach"], "'batch'"),
    (CLASSIFY, ["--set", "model.ratio=1.5"], "model.ratio=1.5"),
    (CLASSIFY, ["--set", "model.levels=2", "--set", "model.num_clusters=[3, 2, 1]"], "one per level"),
    (CLASSIFY, ["--cfg", "mutag", "--set", "model.levels=9"], "8 levels"),
    (CLASSIFY, ["--folds", "7", "--set", "dataset.num_graphs=30"], "numbered from 0"),
    (CLASSIFY, ["--folds", "a"], "--folds a"),
    (CLASSIFY, ["--set", "method.cluster_sizes=[0.5, 0.5]"], "2 entries for 6 clusters"),
    (CLASSIFY, ["--set", "method.cluster_sizes=[0.5, 0.5]", "--set", "model.ratio=0.5"], "depends on the fold"),
]


@pytest.mark.parametrize(
    ("case", "args", "words"),
    [(case, *mistake) for case in CASES.values() for mistake in COMMON] + OWN,
    ids=lambda value: value.task.name if value in CASES.values() else None,
)
def test_mistakes_are_reported_without_a_traceback(case, args, words, tmp_path, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    (tmp_path / "afile").touch()
    outcome = call(case.command, *args, cwd=tmp_path, check=False)
    assert outcome.code == 2
    assert words in outcome.err


def test_a_configuration_of_the_other_task(case, tmp_path):
    other = next(other for other in CASES.values() if other is not case)
    (tmp_path / "other.yaml").write_text(f"task: {other.task.name}\n")
    outcome = call(case.command, "--cfg", "other.yaml", cwd=tmp_path, check=False)
    assert (outcome.code, f"this is the task '{case.task.name}'" in outcome.err) == (2, True)


def broken(error):
    def start(*_):
        raise error

    return start


BUGS = [ValueError("a bug"), OSError("a bug"), FileNotFoundError(2, "missing", str(PACKAGE / "report" / "page.css"))]


@pytest.mark.parametrize("error", BUGS)
def test_a_bug_shows_its_traceback(case, error, tmp_path, monkeypatch):
    monkeypatch.setattr(RunFolder, "write_report", broken(error))
    with pytest.raises(type(error)):
        call(case.command, *case.arguments(), cwd=tmp_path)


@pytest.mark.parametrize("kind", [JBPoolError, ConfigError, RunFolderError, ProcessError, TrainingError])
def test_errors_of_the_package_are_one_line(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(RunFolder, "begin", broken(kind("do this instead.")))
    outcome = call(CLUSTER.command, *CLUSTER.arguments(), cwd=tmp_path, check=False)
    assert outcome.code == (1 if kind in (ProcessError, TrainingError) else 2)
    assert outcome.err == ("stopped: " if kind is TrainingError else "") + "do this instead.\n"


def test_a_file_that_cannot_be_read(case, tmp_path, monkeypatch):
    error = PermissionError(13, "Permission denied", "edges.csv")
    monkeypatch.setattr("jbpool.data.load_set", lambda *_: broken(error)(None))
    outcome = call(case.command, cwd=tmp_path, check=False)
    assert (outcome.code, outcome.err) == (2, "edges.csv: Permission denied\n")


@pytest.mark.parametrize("name", ["model.pt", "config.yaml"])
def test_predict_names_a_damaged_file(case, finished, copy, name):
    contents = [b"", b"\xff", b"[1, 2]"]
    if name == "model.pt":
        (copy / "wrong.pt").touch()
        for wrong in ({}, [1], torch.load(copy / name, weights_only=True) | {"state": {"weight": torch.zeros(3)}}):
            torch.save(wrong, copy / "wrong.pt")
            contents.append((copy / "wrong.pt").read_bytes())
    for content in contents:
        (copy / name).write_bytes(content)
        outcome = call(case.command, "--predict", copy, *settings("dataset.seed=1"), cwd=copy.parent, check=False)
        assert outcome.code == 2
        (line,) = outcome.err.splitlines()
        assert str(copy / name) in line
        assert not (copy / "predicted").exists()


def test_resume_names_a_damaged_state_and_writes_readable_files_anew(case, finished, copy):
    arguments = [*case.arguments("train.seeds=[0, 1]"), "--resume", "--out", copy]
    good, states = (copy / "finished.pt").read_bytes(), torch.load(copy / "finished.pt", weights_only=True)
    (copy / "wrong.pt").touch()
    for wrong in ({**states, "own": {}}, {key: value for key, value in states.items() if key != "runs"}):
        torch.save(wrong, copy / "finished.pt")
        outcome = call(case.command, *arguments, cwd=copy.parent, check=False)
        assert outcome.code == 2
        assert f"{copy / 'finished.pt'} is damaged" in outcome.err
    (copy / "finished.pt").write_bytes(good)
    names = ("result.json", "history.csv", case.predictions)
    for name in names:
        (copy / name).write_bytes(b"\xff{")
    call(case.command, *arguments, cwd=copy.parent)
    assert (copy / "history.csv").read_text() == (finished[0] / "history.csv").read_text()
    assert all((copy / name).stat().st_size == (finished[0] / name).stat().st_size for name in names)
