"""The command ``jbpool``: its arguments, what they set, and how mistakes are reported."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml
from commands import ROOT, call, result_of
from own_graphs import write_graphs

import jbpool
from jbpool import cli
from jbpool.data.catalogue import GRAPH_SETS, NODE_SETS
from jbpool.names import BACKBONES, POOLS


@pytest.fixture
def cliques(tmp_path):
    """Two complete graphs of ten nodes that one edge joins, with features and labels."""
    edges = [(10 * part + i, 10 * part + j) for part in (0, 1) for i in range(10) for j in range(i)] + [(0, 10)]
    (tmp_path / "e.csv").write_text("\n".join(f"{a},{b}" for a, b in edges))
    (tmp_path / "f.csv").write_text("\n".join(f"{i},{i // 10},{1 - i // 10}" for i in range(20)))
    (tmp_path / "l.csv").write_text("\n".join(f"{i},{'ab'[i // 10]}" for i in range(20)))
    return tmp_path


def config_of(folder):
    return yaml.safe_load((folder / "config.yaml").read_text())


def test_a_file_is_all_that_cluster_needs(cliques):
    call(cli.main, "cluster", "e.csv", "--out", "r", cwd=cliques)
    config = config_of(cliques / "r")
    assert (config["dataset"]["name"], config["dataset"]["edges"]) == ("file", "e.csv")
    assert (config["method"]["name"], config["method"]["num_clusters"]) == ("auto", None)
    assert [run["used_clusters"] for run in result_of(cliques / "r")["runs"]] == [2]


def test_options_are_settings(cliques):
    call(cli.main, "cluster", "e.csv", "-k", "2", "--features", "f.csv", "--labels", "l.csv", "--seeds", "3,4",
         "--out", "r", cwd=cliques)  # fmt: skip
    config = config_of(cliques / "r")
    assert config["dataset"] | {"edges": "e.csv", "features": "f.csv", "labels": "l.csv"} == config["dataset"]
    assert (config["method"]["num_clusters"], config["train"]["seeds"]) == (2, [3, 4])
    assert result_of(cliques / "r")["mean"]["nmi"] == pytest.approx(1)


def test_a_run_is_named_after_its_file(cliques):
    out = call(cli.main, "cluster", "e.csv", "-k", "2", cwd=cliques).out
    assert "runs/node_cluster/e-2" in out


def test_home_is_expanded(cliques, monkeypatch):
    monkeypatch.setenv("HOME", str(cliques))
    (cliques / "away").mkdir()
    more = ["--set", "dataset.labels=~/l.csv", "-k", "2"]
    call(cli.main, "cluster", "~/e.csv", "--features", "~/f.csv", *more, "--out", "r", cwd=cliques / "away")
    assert result_of(cliques / "away" / "r")["mean"]["nmi"] == pytest.approx(1)


@pytest.mark.parametrize("name", ["007", "true", "a: b.csv", "x #1.csv", "[1]"])
def test_a_name_of_a_file_is_not_yaml(cliques, name):
    (cliques / "e.csv").rename(cliques / name)
    call(cli.main, "cluster", name, "-k", "2", "--out", "r", cwd=cliques)
    assert config_of(cliques / "r")["dataset"]["edges"] == name


def test_a_file_of_the_graph2gauss_layout(cliques):
    ends = np.array([[0, 1], [1, 0], [1, 2], [2, 1], [0, 2], [2, 0]]).T
    order = np.lexsort(ends[::-1])
    np.savez(
        cliques / "g.npz", adj_data=np.ones(6), adj_indices=ends[1][order], adj_indptr=np.array([0, 2, 4, 6]),
        adj_shape=np.array([3, 3]),
    )  # fmt: skip
    call(cli.main, "cluster", "g.npz", "-k", "1", "--out", "r", cwd=cliques)
    assert config_of(cliques / "r")["dataset"]["name"] == "npz"


def test_a_folder_is_all_that_classify_needs(tmp_path):
    write_graphs(tmp_path / "graphs")
    short = ["--set", "train.epochs=1", "--set", "model.hidden=8", "--set", "train.folds=2", "--folds", "0"]
    call(cli.main, "classify", "graphs", *short, "--out", "r", cwd=tmp_path)
    dataset = config_of(tmp_path / "r")["dataset"]
    assert (dataset["name"], dataset["folder"]) == ("file", "graphs")
    assert "graphs" not in dataset                                          # of file.yaml
    call(cli.main, "classify", "graphs", "--predict", "r", "--out", "new", cwd=tmp_path)
    assert (tmp_path / "new" / "predictions.csv").is_file()


MISTAKES = [
    ([], "give a command: cluster, classify, compare or check"),
    (["clutser"], "'clutser'"),
    (["cluster", "missing.csv"], "missing.csv: no such file."),
    (["cluster", "cora"], "did you mean --cfg cora.yaml?"),
    (["cluster", "folder"], "folder is a folder"),
    (["cluster", "run"], "--predict run"),
    (["classify", "run"], "run is a run folder"),
    (["classify", "e.csv"], "jbpool cluster e.csv"),
    (["classify", "folder"], "folder"),
    (["cluster", "mine.yaml"], "jbpool cluster --cfg mine.yaml"),
    (["cluster", "e.csv", "f.csv"], "unrecognized arguments: f.csv (give one file or folder)"),
    (["cluster", "e.csv", "-k"], "argument -k"),
    *((["cluster", "e.csv", "-k", k], f"-k {k}: ") for k in ("0", "-3", "5-2", "x", "1.5", "[2", "")),
    (["cluster", "e.csv", "-k", "3", "--set", "method.num_clusters=2"], "-k 3 and --set method.num_clusters"),
    (["cluster", "e.csv", "-k", "99"], "20 nodes"),
    (["cluster", "e.csv", "-k", "2-99"], "20 nodes"),
    (["cluster", "pair.csv"], "such as -k"),
    (["cluster", "-k", "2-5"], "-k 2-5: "),
    (["cluster", "--labels", "l.csv"], "jbpool cluster FILE --labels l.csv"),
    (["cluster", "e.csv", "--features", "none.csv"], "none.csv"),
    (["cluster", "e.csv", "--seeds", "x"], "--seeds x: "),
    (["cluster", "e.csv", "--seeds", ""], "--seeds "),
    (["cluster", "e.csv", "-k", "2", "--max-size", "0"], "--max-size 0"),
    (["cluster", "e.csv", "--out", "l.csv"], "--out l.csv"),
    *((["cluster", "e.csv", "--predict", "run", *given], f"{given[0]} has no effect with --predict")
      for given in (["-k", "2"], ["--seeds", "1"], ["--resume"], ["--cfg", "auto"], ["--log", "mlflow"])),
    (["compare", "run"], "give at least two run folders"),
    (["check", "this"], "unrecognized arguments: this"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "words"), MISTAKES, ids=[" ".join(arguments) for arguments, _ in MISTAKES])
def test_a_mistake_is_reported_as_one_line(cliques, arguments, words):
    (cliques / "folder").mkdir()
    (cliques / "run").mkdir()
    (cliques / "run" / "config.yaml").touch()
    (cliques / "mine.yaml").touch()
    (cliques / "pair.csv").write_text("0,1\n")
    outcome = call(cli.main, *arguments, cwd=cliques, check=False)
    assert outcome.code == 2
    (line,) = outcome.err.splitlines()
    assert words in line


def test_python_m_jbpool(tmp_path):
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "jbpool", "--version"]
    result = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=True)
    assert result.stdout == f"jbpool {jbpool.__version__}\n"


def test_show_config(cliques):
    (cliques / "mine.yaml").write_text("task: node_cluster\ntrain:\n  lr: 0.5\n")
    given = ["e.csv", "--cfg", "mine.yaml", "-k", "3", "--set", "train.epochs=7"]
    out = call(cli.main, "cluster", *given, "--show-config", cwd=cliques).out
    rows = {line.split()[0]: line.split(maxsplit=3)[1:] for line in out.splitlines()}
    assert rows["train.lr"] == ["0.5", "0.0001", "mine.yaml, line 3"]
    assert rows["train.epochs"] == ["7", "2000", "--set train.epochs=7"]
    assert rows["method.num_clusters"] == ["3", "null", "-k 3"]
    assert rows["dataset.edges"] == ['"e.csv"', "null", "e.csv"]
    assert rows["dataset.header"] == rows["train.patience"] == ["null", "null", "default"]
    assert not (cliques / "runs").exists()


@pytest.mark.parametrize(
    ("command", "accepted", "others"),
    [
        ("cluster", ["paper/cora.yaml", "auto", *POOLS, "node2vec", "whitened", *BACKBONES, *NODE_SETS], ["PROTEINS"]),
        ("classify", ["proteins.yaml", "none", *POOLS, *BACKBONES, *GRAPH_SETS], ["auto", "cora", "whitened"]),
    ],
)
def test_list_shows_what_the_task_accepts(command, accepted, others, tmp_path):
    words = set(call(cli.main, command, "--list", cwd=tmp_path).out.split())
    assert set(accepted) <= words
    assert not set(others) & words


@pytest.mark.parametrize(
    "arguments", ["--help", "--version", "cluster --help", "cluster --list", "classify --list", "compare --help"]
)
def test_quick_answers_import_nothing_slow(arguments):
    code = f"""
import sys
from jbpool.cli import main
try:
    main({arguments.split()!r})
except SystemExit:
    pass
print("loaded", *sys.modules)
"""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    result = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    loaded = set(result.stdout.rpartition("loaded")[2].split())
    assert "jbpool.cli" in loaded
    assert loaded & {"torch", "dgl", "torch_geometric", "numpy", "scipy", "pandas", "sklearn", "networkx"} == set()


@pytest.mark.parametrize("script", ["node_cluster.py", "graph_classify.py"])
def test_the_scripts_of_tasks_are_commands(script, tmp_path):
    result = subprocess.run(
        [sys.executable, str(Path(ROOT, "tasks", script)), "--help"], cwd=tmp_path, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    command = {"node_cluster.py": "cluster", "graph_classify.py": "classify"}[script]
    assert result.stdout.startswith(f"usage: jbpool {command} ")


@pytest.mark.parametrize("command", ["cluster", "classify"])
def test_ctrl_c_while_modules_are_imported(command, tmp_path):
    """An exception inside an import may be taken for something else; here, for a module that is missing."""
    (tmp_path / "torch.py").write_text(
        "import os, signal, time\n"
        "try:\n    os.kill(os.getpid(), signal.SIGINT)\n    time.sleep(60)\n"
        "except BaseException as error:\n    raise ImportError('disguised') from error\n"
    )
    code = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    code += f"from jbpool.cli import {command}; sys.exit({command}([]))"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    result = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (130, "\ninterrupted.\n")
