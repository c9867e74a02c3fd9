"""The graph-classification task from outside, as a user runs it."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from jbpool.classification.run import PICTURED
from jbpool.classification.task import GRAPH_CLASSIFY
from jbpool.engine.config import load_config
from jbpool.engine.run_folder import RunFolder
from jbpool.errors import RunFolderError

ROOT = Path(__file__).parent.parent
SCRIPT = str(ROOT / "tasks" / "graph_classify.py")
SHARED = ROOT.parent / "shared" / "data"
SMALL = ["dataset.num_graphs=60", "train.epochs=3", "train.folds=2", "model.hidden=16", "train.batch_size=16"]
CPU = torch.device("cpu")
NUMBERS = ("seed", "fold", "metric", "valid", "test", "epochs", "best_epoch")


def settings(*changes):
    return [word for change in changes for word in ("--set", change)]


def environment(cwd):
    return {**os.environ, "XDG_CACHE_HOME": str(cwd / "cache"), "OMP_NUM_THREADS": "1"}


def task(*args, cwd, check=True, processes=1):
    start = [sys.executable]
    if processes > 1:
        start += ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    result = subprocess.run(
        [*start, SCRIPT, *map(str, args)], cwd=cwd, env=environment(cwd), capture_output=True, text=True, check=False
    )
    assert not check or result.returncode == 0, result.stdout + result.stderr
    return result


def run(config, folder, data=None, **more):
    return GRAPH_CLASSIFY.run(config, data or GRAPH_CLASSIFY.load_data(config), folder, CPU, **more)


def result_of(folder):
    return json.loads((folder / "result.json").read_text())


def numbers(folder):
    result = result_of(folder)
    methods = {result["method"]: result["runs"], **{name: part["runs"] for name, part in result["compared"].items()}}
    return {name: [[run[key] for key in NUMBERS] for run in runs] for name, runs in methods.items()}


def test_the_task_leaves_a_whole_run_folder(tmp_path):
    told = task(*settings(*SMALL), "--folds", "0,1", "--out", "r", cwd=tmp_path).stdout
    folder = tmp_path / "r"
    for name in ("config.yaml", "result.json", "history.csv", "model.pt", "predictions.npz", "report.html"):
        assert (folder / name).is_file(), name
    assert not (folder / "checkpoint.pt").exists()
    result = result_of(folder)
    assert (result["task"], result["dataset"], result["method"]) == ("graph_classify", "motifs", "jb")
    assert [(run["seed"], run["fold"], run["metric"]) for run in result["runs"]] == [(0, 0, "acc"), (0, 1, "acc")]
    assert list(result["compared"]) == ["none"]
    assert result["mean"]["test"] == pytest.approx(np.mean([run["test"] for run in result["runs"]]))
    assert "jb seed 0 fold 0: valid" in told
    with np.load(folder / "predictions.npz") as stored:
        for fold in (0, 1):
            here = stored["fold"] == fold
            accuracy = (stored["scores"][here].argmax(1) == stored["label"][here]).mean()
            assert accuracy == pytest.approx(result["runs"][fold]["test"])
    page = (folder / "report.html").read_text()
    for words in ("Learning curves", "its clusters, and pooled", "predictions (columns)"):
        assert words in page


def test_pooling_beats_the_flat_network_on_motifs(tmp_path):
    """The default, one fold of it: the class lies in the coarse graph."""
    out = run(load_config(GRAPH_CLASSIFY), tmp_path / "r", folds=[0])
    assert out.runs[0]["test"] > out.compared["none"][0]["test"] + 0.2


def test_every_method_gets_the_same_folds(tmp_path):
    changes = [*SMALL, "train.epochs=1", "model.compare=[none, mincut, dmon, diffpool]"]
    run(load_config(GRAPH_CLASSIFY, None, changes), tmp_path / "r")
    entries = torch.load(tmp_path / "r" / "finished.pt", weights_only=True)["predictions"]
    assert len(entries) == 10
    for fold in (0, 1):
        tests = [entry["graph"] for entry in entries if entry["fold"] == fold]
        assert all(torch.equal(tests[0], other) for other in tests)
    assert set(entries[0]["graph"].tolist()) | set(entries[1]["graph"].tolist()) == set(range(60))


def test_test_labels_have_no_say(tmp_path, monkeypatch):
    """With the labels of the test fold shuffled, training is the same to the last bit, and the score that of chance."""
    config = load_config(GRAPH_CLASSIFY, None, ["model.compare=[]", "train.epochs=12"])
    data = GRAPH_CLASSIFY.load_data(config)
    split = data.split(0, 3)
    label = data.label.clone()
    label[split.test] = label[split.test][torch.randperm(len(split.test), generator=torch.Generator().manual_seed(0))]
    honest = run(config, tmp_path / "honest", folds=[0])
    monkeypatch.setattr(type(data), "split", lambda *_: split)
    shuffled = run(config, tmp_path / "shuffled", replace(data, label=label), folds=[0])
    one, two = (torch.load(tmp_path / name / "model.pt", weights_only=True)["state"] for name in ("honest", "shuffled"))
    assert all(torch.equal(one[key], two[key]) for key in one)
    assert honest.runs[0]["valid"] == shuffled.runs[0]["valid"]
    assert honest.runs[0]["test"] > 0.55
    assert shuffled.runs[0]["test"] < 1 / 3 + 3 * (2 / 9 / len(split.test)) ** 0.5     # three deviations above chance


def test_seeds_repeat_to_the_bit(tmp_path):
    for name in ("one", "two"):
        run(load_config(GRAPH_CLASSIFY, None, [*SMALL, "train.seeds=[0, 1]"]), tmp_path / name, folds=[0])
    assert numbers(tmp_path / "one") == numbers(tmp_path / "two")
    one, two = (torch.load(tmp_path / name / "model.pt", weights_only=True)["state"] for name in ("one", "two"))
    assert all(torch.equal(one[key], two[key]) for key in one)


def wait_for(path, process, before=None, seconds=90):
    deadline = time.monotonic() + seconds
    while process.poll() is None:
        stamp = path.stat().st_mtime_ns if path.exists() else None
        if stamp not in (None, before):
            return stamp
        assert time.monotonic() < deadline
        time.sleep(0.01)
    pytest.fail("the run ended before it left a checkpoint")


def test_kill_and_resume_equals_an_unbroken_run(tmp_path):
    changes = settings(*SMALL, "model.compare=[]", "train.epochs=60", "train.patience=60")
    task(*changes, "--folds", "0", "--out", "whole", cwd=tmp_path)
    command = [sys.executable, SCRIPT, *changes, "--folds", "0", "--out", "broken"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, cwd=tmp_path, env=environment(tmp_path), **quiet) as process:
        wait_for(tmp_path / "broken" / "checkpoint.pt", process)
        process.kill()
    task(*changes, "--folds", "0", "--out", "broken", "--resume", cwd=tmp_path)
    assert numbers(tmp_path / "whole") == numbers(tmp_path / "broken")


def test_two_processes_do_what_one_does(tmp_path):
    """Batch normalisation, pools, an uneven last batch: the same weights but for rounding."""
    changes = settings(*SMALL, "model.compare=[]", "model.dropout=0", "train.epochs=4", "train.batch_size=7")
    for processes in (1, 2):
        told = task(*changes, "--folds", "0", "--out", f"of{processes}", cwd=tmp_path, processes=processes).stdout
        assert ("2 processes" in told) == (processes == 2)
    one, two = (torch.load(tmp_path / f"of{n}" / "model.pt", weights_only=True)["state"] for n in (1, 2))
    for key in one:
        torch.testing.assert_close(one[key], two[key], rtol=2e-3, atol=2e-4)
    assert numbers(tmp_path / "of1") == numbers(tmp_path / "of2")
    with np.load(tmp_path / "of1" / "predictions.npz") as a, np.load(tmp_path / "of2" / "predictions.npz") as b:
        np.testing.assert_allclose(a["scores"], b["scores"], rtol=1e-2, atol=1e-3)


def test_a_process_that_dies_takes_the_run_down(tmp_path):
    changes = settings(*SMALL, "model.compare=[]", "train.epochs=120", "train.patience=120")
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", SCRIPT]
    with subprocess.Popen([*launch, *changes, "--folds", "0", "--out", "r"], cwd=tmp_path, env=environment(tmp_path),
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:  # fmt: skip
        wait_for(tmp_path / "r" / "checkpoint.pt", process)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        victim = next(pid for pid in children if b"RANK=1" in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"))
        os.kill(int(victim), signal.SIGKILL)
        _, error = process.communicate(timeout=60)
    assert process.returncode != 0
    assert "another process of this run has died" in error
    changes = settings(*SMALL, "model.compare=[]", "train.epochs=120", "train.patience=120")
    told = task(*changes, "--folds", "0", "--out", "r", "--resume", cwd=tmp_path, processes=2).stdout
    assert "120 epochs" in told


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--set", "model.pool=jbb"], "Did you mean 'jb'"),
        (["--set", "model.backbone=ginn", "--set", "model.readout=mean+maxx"], "Did you mean 'max'"),
        (["--set", "model.norm=bach"], "Did you mean 'batch'"),
        (["--set", "model.ratio=1.5"], "model.ratio=1.5"),
        (["--set", "model.levels=2", "--set", "model.num_clusters=[3, 2, 1]"], "one for each level"),
        (["--set", "dataset.name=PROTEIN"], "Did you mean 'PROTEINS'"),
        (["--cfg", "protein"], "Did you mean 'proteins.yaml'"),
        (["--set", "train.lr=1e30"], "stopped: the loss is not a number"),
        (["--folds", "7"], "numbered from 0"),
        (["--folds", "a"], "--folds a"),
        (["--cfg", str(ROOT / "configs" / "node_cluster" / "sbm.yaml")], "this is the task 'graph_classify'"),
    ],
)
def test_mistakes_are_told_without_a_traceback(tmp_path, args, words):
    result = task(*args, cwd=tmp_path, check=False)
    assert result.returncode != 0
    assert words in result.stderr
    assert "Traceback" not in result.stderr


def test_too_few_graphs_for_the_processes(tmp_path):
    result = task(*settings(*SMALL, "train.batch_size=1"), "--out", "r", cwd=tmp_path, check=False, processes=2)
    assert result.returncode != 0
    assert "train.batch_size=1 is less than the 2 processes" in result.stderr


def test_a_run_stopped_while_it_writes(tmp_path, monkeypatch):
    """Killed just before a fold counts as finished, it is run again, and every file is there in the end."""
    config = load_config(GRAPH_CLASSIFY, None, [*SMALL, "model.compare=[]"])
    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "keep", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            run(config, tmp_path / "r", folds=[0])
    run(config, tmp_path / "r", folds=[0], resume=True)
    assert (tmp_path / "r" / "predictions.npz").is_file()
    assert len(result_of(tmp_path / "r")["runs"]) == 1
    other = load_config(GRAPH_CLASSIFY, None, [*SMALL, "model.compare=[]", "model.hidden=8"])
    with pytest.raises(RunFolderError, match=r"another configuration \(model.hidden\)"):
        run(other, tmp_path / "r", folds=[0], resume=True)


def test_resume_takes_the_latest_run_of_this_configuration(tmp_path):
    runs = tmp_path / "runs" / "graph_classify"
    for name in ("default-20240101-000000", "default-20250101-000000", "default-big-20260101-000000"):
        (runs / name).mkdir(parents=True)
        (runs / name / "config.yaml").touch()
    (runs / "default-20260101-000000").mkdir()          # of a run that failed before it began
    told = task(*settings(*SMALL, "model.compare=[]"), "--folds", "0", "--resume", cwd=tmp_path).stdout
    assert "default-20250101-000000" in told


def test_the_list(tmp_path):
    told = task("--list", cwd=tmp_path).stdout
    for words in ("proteins.yaml", "diffpool", "ogbg-molhiv"):
        assert words in told


@pytest.mark.parametrize("name", ["mutag", "enzymes", "proteins", "nci1"])
def test_a_short_run_on_the_real_sets(name, tmp_path):
    if not SHARED.is_dir():
        pytest.skip("the real datasets are not beside this checkout (../shared/data)")
    changes = [f"dataset.root={SHARED}", "train.epochs=2"]
    out = run(load_config(GRAPH_CLASSIFY, name, changes), tmp_path / "r", folds=[0])
    assert out.history[-1]["loss"] < out.history[0]["loss"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dd", "reddit-binary", "molhiv"])
def test_a_short_run_on_the_large_sets(name, tmp_path):
    if not SHARED.is_dir():
        pytest.skip("the real datasets are not beside this checkout (../shared/data)")
    changes = [f"dataset.root={SHARED}", "train.epochs=1", "train.seeds=[0]"]
    out = run(load_config(GRAPH_CLASSIFY, name, changes), tmp_path / "r", folds=[0])
    assert out.runs[0]["test"] > 0.5


def test_the_report_in_a_browser(tmp_path):
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no Chromium on this machine")
    task(*settings(*SMALL), "--folds", "0", "--out", "r", cwd=tmp_path)
    page = (tmp_path / "r" / "report.html").as_uri()
    flags = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/profile", "--dump-dom"]
    dom = subprocess.run([browser, *flags, page], capture_output=True, text=True, timeout=120, check=True).stdout
    assert dom.count("<svg") == 2 + 2 * PICTURED
