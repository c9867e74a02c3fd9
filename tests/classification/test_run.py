"""Graph classification: run folder, the same folds for every method, no use of test labels, real datasets."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from commands import CLASSIFY, SHARED, assert_same_weights, call, result_of, run_task, settings

from jbpool.classification.task import GRAPH_CLASSIFY
from jbpool.data import Split
from jbpool.engine.config import load_config
from jbpool.engine.run_folder import RunFolder
from jbpool.errors import ConfigError, RunFolderError

SMALL = CLASSIFY.changes
run = partial(run_task, CLASSIFY)


def test_the_task_leaves_a_whole_run_folder(tmp_path):
    printed = call(CLASSIFY.command, *settings(*SMALL), "--folds", "0,1", "--out", "r", cwd=tmp_path).out
    folder = tmp_path / "r"
    result = result_of(folder)
    assert (result["task"], result["dataset"], result["method"]) == ("graph_classify", "motifs", "jb")
    assert [(run["seed"], run["fold"], run["metric"]) for run in result["runs"]] == [(0, 0, "acc"), (0, 1, "acc")]
    assert list(result["compared"]) == ["none"]
    assert result["mean"]["test"] == pytest.approx(np.mean([run["test"] for run in result["runs"]]))
    assert "jb seed 0 fold 0: valid" in printed
    with np.load(folder / "predictions.npz") as stored:
        for fold in (0, 1):
            here = stored["fold"] == fold
            accuracy = (stored["scores"][here].argmax(1) == stored["label"][here]).mean()
            assert accuracy == pytest.approx(result["runs"][fold]["test"])
    page = (folder / "report.html").read_text()
    for words in ("Learning curves", "clusters and pooled graph", "predictions (columns)", "minus none"):
        assert words in page


def test_pooling_beats_the_flat_network_on_motifs(tmp_path):
    """One fold of the default, for most of its epochs: the class depends on the coarse graph."""
    out = run(load_config(GRAPH_CLASSIFY, None, ["train.epochs=8"]), tmp_path / "r", folds=[0])
    assert out.runs[0]["test"] > 0.9
    assert out.compared["none"][0]["test"] < 0.7


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
    config = load_config(GRAPH_CLASSIFY, None, ["dataset.num_graphs=600", "model.compare=[]", "train.epochs=6"])
    data = GRAPH_CLASSIFY.load_data(config)
    split = data.split(0, 3)
    label = data.label.clone()
    label[split.test] = label[split.test][torch.randperm(len(split.test), generator=torch.Generator().manual_seed(0))]
    monkeypatch.setattr(type(data), "split", lambda *_: split)
    plain = run(config, tmp_path / "plain", data, folds=[0])
    shuffled = run(config, tmp_path / "shuffled", replace(data, label=label), folds=[0])
    assert_same_weights(plain.path, shuffled.path)
    assert plain.runs[0]["valid"] == shuffled.runs[0]["valid"]
    assert plain.runs[0]["test"] > 0.55
    assert shuffled.runs[0]["test"] < 1 / 3 + 3 * (2 / 9 / len(split.test)) ** 0.5     # three deviations above chance


def test_a_run_stopped_while_it_writes(tmp_path, monkeypatch):
    """A fold that was killed just before it was recorded is repeated, and all files are complete."""
    config = load_config(GRAPH_CLASSIFY, None, [*SMALL, "model.compare=[]"])
    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "keep", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            run(config, tmp_path / "r", folds=[0])
    run(config, tmp_path / "r", folds=[0], resume=True)
    assert (tmp_path / "r" / "predictions.npz").is_file()
    assert len(result_of(tmp_path / "r")["runs"]) == 1


def test_folds_of_a_dataset_with_an_official_split(tmp_path, capsys):
    config = load_config(GRAPH_CLASSIFY, None, [*SMALL, "model.compare=[]", "train.epochs=1"])
    data = GRAPH_CLASSIFY.load_data(config)
    data = replace(data, official_split=Split(*torch.arange(60).split([40, 10, 10])))
    official = run(config, tmp_path / "official", data)
    assert [entry["fold"] for entry in official.runs] == [0]
    entries = torch.load(tmp_path / "official" / "finished.pt", weights_only=True)["predictions"]
    assert entries[0]["graph"].tolist() == list(range(50, 60))
    assert "split" not in capsys.readouterr().out
    run(config, tmp_path / "folds", data, folds=[0, 1])
    assert "the split of motifs is not used" in capsys.readouterr().out
    entries = torch.load(tmp_path / "folds" / "finished.pt", weights_only=True)["predictions"]
    assert set(entries[0]["graph"].tolist()) | set(entries[1]["graph"].tolist()) == set(range(60))
    assert result_of(tmp_path / "folds")["config"]["train"]["official_split"] is False
    with pytest.raises(RunFolderError, match=r"train\.official_split"):      # two kinds of results in one folder
        run(config, tmp_path / "folds", data, resume=True)
    label = data.label.clone()
    label[:50], label[50:] = torch.arange(50) % 3, 0                        # no test graph of the last classes
    page = run(config, tmp_path / "rare", replace(data, label=label)).write_report().read_text()
    assert not any(words in page for words in ("minus none", "Differences to none"))       # it was not trained
    label[:5] = -1
    inside = replace(data, label=label, official_split=Split(*torch.arange(5, 60).split([35, 10, 10])))
    with pytest.raises(ConfigError, match="5 of 60 graphs have no class"):  # in no part of the split, but in the folds
        run(config, tmp_path / "gaps", inside, folds=[0])
    without = replace(config, train=replace(config.train, official_split=False))
    assert len(run(without, tmp_path / "all", data).runs) == 2


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


def test_too_few_graphs_for_the_folds_leave_nothing_behind(tmp_path):
    few = [*settings(*SMALL, "dataset.num_graphs=9", "train.folds=5"), "--out", "r"]
    outcome = call(CLASSIFY.command, *few, cwd=tmp_path, check=False)
    assert "has 3 graphs, too few for 5 stratified folds; every class needs at least 4 graphs" in outcome.err
    assert not (tmp_path / "r").exists()
