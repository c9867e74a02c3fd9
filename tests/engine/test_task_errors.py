"""Errors of both tasks: reported together, one line each, and a traceback only for bugs."""

from pathlib import Path

import pytest
from commands import CASES, CLASSIFY, CLUSTER, call, settings

import jbpool
from jbpool.engine.run_folder import RunFolder
from jbpool.errors import ConfigError, DataError, JBPoolError, ProcessError, RunFolderError, TrainingError


@pytest.fixture(params=CASES.values(), ids=CASES)
def case(request):
    return request.param


WRONG = {
    "node_cluster": ("method.name=jbb", "Did you mean 'jb'"),
    "graph_classify": ("model.pool=jbb", "Did you mean 'jb'"),
}
OPTION = {"node_cluster": ("dataset.num_nodes=many", "num_nodes"), "graph_classify": ("dataset.noise=loud", "noise")}
DATASET = {"node_cluster": ("dataset.name=corra", "cora"), "graph_classify": ("dataset.name=PROTEIN", "PROTEINS")}


@pytest.mark.parametrize("which", [OPTION, DATASET], ids=["option", "dataset"])
def test_all_configuration_errors_are_reported_together(case, which, tmp_path):
    wrong = dict([WRONG[case.task.name], which[case.task.name]])
    wrong |= {
        "model.backbone=gat2": "Did you mean 'gat'", "model.hiden=3": "Did you mean 'model.hidden'",
        "train.lr=0": "above 0", "train.seeds=[1, 1]": "twice", "method.sqrt=diag": "Choose one of",
        "train.epochs=x": "should be a whole number",
    }  # fmt: skip
    outcome = call(case.command, *settings(*wrong), cwd=tmp_path, check=False)
    assert outcome.code == 2
    lines = outcome.err.splitlines()
    for change, words in wrong.items():
        assert any(line.startswith(f"--set {change}: ") and words in line for line in lines), (change, lines)
    assert len(lines) == len(wrong)
    assert not (tmp_path / "runs").exists()


COMMON = [
    (["--cfg", "nowhere.yaml"], "--cfg nowhere.yaml: no such file"),
    (["--set", "train.epoch=3"], "Did you mean 'train.epochs'"),
    (["--set", "epochs"], "write it as section.key=value"),
    (["--seeds", "a"], "train.seeds"),
    (["--out", "afile"], "a file of that name exists"),
    (["--out", "afile/x"], "a file of that name exists"),
    (["--device", "cuda"], "torch sees no GPU"),
    (["--device", "tpu"], "invalid choice: 'tpu'"),
    (["--resumee"], "unrecognized arguments: --resumee"),
]
OWN = [
    (CLUSTER, ["--cfg", "corra"], "Did you mean 'cora"),
    (CLUSTER, ["--set", "dataset.mixin=0.3"], "Did you mean 'mixing'"),
    (CLUSTER, ["--cfg", "file"], "edges.csv: no such file"),
    (CLUSTER, ["--predict", "nowhere"], "no model.pt"),
    (CLUSTER, ["--set", "method.cluster_sizes=[0.5, 0.5]", "--set", "method.num_clusters=3"], "2 entries for 3"),
    (CLUSTER, ["--set", "method.num_clusters=2000"], "2000 clusters of 1000 nodes"),
    (CLASSIFY, ["--set", "model.backbone=ginn", "--set", "model.readout=mean+maxx"], "Did you mean 'max'"),
    (CLASSIFY, ["--set", "model.norm=bach"], "Did you mean 'batch'"),
    (CLASSIFY, ["--set", "model.ratio=1.5"], "model.ratio=1.5"),
    (CLASSIFY, ["--set", "model.levels=2", "--set", "model.num_clusters=[3, 2, 1]"], "one per level"),
    (CLASSIFY, ["--cfg", "mutag", "--set", "model.levels=9"], "with more than 8 levels, set model.num_clusters"),
    (CLASSIFY, ["--cfg", "protein"], "Did you mean 'proteins.yaml'"),
    (CLASSIFY, ["--set", "train.lr=1e30"], "train.lr=1e+30 should be above 0 and at most 1000"),
    (CLASSIFY, ["--folds", "7", "--set", "dataset.num_graphs=30"], "numbered from 0"),
    (CLASSIFY, ["--folds", "a"], "--folds a"),
    (CLASSIFY, ["--folds", "0,1,0"], "--folds 0,1,0: a fold is named twice"),
    (CLASSIFY, ["--set", "method.cluster_sizes=[0.5, 0.5]"], "2 entries for 6 clusters"),
    (CLASSIFY, ["--set", "method.cluster_sizes=[0.5, 0.5]", "--set", "model.ratio=0.5"], "it depends on the fold"),
    (CLASSIFY, ["--cfg", str(CLUSTER.task.default)], "no such file"),
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


def test_a_bug_shows_its_traceback(case, tmp_path, monkeypatch):
    monkeypatch.setattr(RunFolder, "start", broken(ValueError("a bug")))
    with pytest.raises(ValueError, match="a bug"):
        call(case.command, *case.arguments(), cwd=tmp_path)


@pytest.mark.parametrize("error", [ValueError("a bug"), KeyError("a bug"), RuntimeError("a bug"), OSError("a bug")])
def test_a_bug_in_the_report_shows_its_traceback(case, error, tmp_path, monkeypatch):
    package = "clustering" if case.task.name == "node_cluster" else "classification"
    monkeypatch.setattr(f"jbpool.{package}.report.SECTIONS", [broken(error)])
    with pytest.raises(type(error), match="a bug"):
        call(case.command, *case.arguments(), cwd=tmp_path)


def test_a_bug_while_predictions_are_written_is_not_a_damaged_file(tmp_path, monkeypatch):
    monkeypatch.setattr("jbpool.classification.run.Job.save_predictions", broken(ValueError("a bug")))
    with pytest.raises(ValueError, match="a bug"):
        call(CLASSIFY.command, *CLASSIFY.arguments(), cwd=tmp_path)


def test_a_bug_in_a_network_is_not_a_damaged_model(case, tmp_path, monkeypatch):
    call(case.command, *case.arguments(), "--out", "trained", cwd=tmp_path)
    maker = {"node_cluster": "clustering.predict.make_model", "graph_classify": "classification.predict.build_model"}
    monkeypatch.setattr(f"jbpool.{maker[case.task.name]}", broken(TypeError("a bug")))
    with pytest.raises(TypeError, match="a bug"):
        call(case.command, "--predict", "trained", "--set", "dataset.seed=1", cwd=tmp_path)


def test_a_missing_file_of_the_package_is_a_bug(case, tmp_path, monkeypatch):
    error = FileNotFoundError(2, "No such file or directory", str(Path(jbpool.__file__).parent / "report" / "page.css"))
    monkeypatch.setattr(RunFolder, "start", broken(error))
    with pytest.raises(FileNotFoundError):
        call(case.command, *case.arguments(), cwd=tmp_path)


@pytest.mark.parametrize("kind", [JBPoolError, ConfigError, DataError, RunFolderError, ProcessError, TrainingError])
def test_errors_of_the_package_are_one_line(case, kind, tmp_path, monkeypatch):
    monkeypatch.setattr(RunFolder, "start", broken(kind("do this instead.")))
    outcome = call(case.command, *case.arguments(), cwd=tmp_path, check=False)
    assert outcome.code == (1 if kind in (ProcessError, TrainingError) else 2)
    assert outcome.err == ("stopped: " if kind is TrainingError else "") + "do this instead.\n"


def test_a_file_that_cannot_be_read(case, tmp_path, monkeypatch):
    error = PermissionError(13, "Permission denied", "edges.csv")
    monkeypatch.setattr("jbpool.data.load_set", lambda *_: broken(error)(None))
    outcome = call(case.command, cwd=tmp_path, check=False)
    assert (outcome.code, outcome.err) == (2, "edges.csv: Permission denied\n")
