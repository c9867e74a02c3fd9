"""Names of datasets, and the list of them."""

import os
import subprocess
import sys

import pytest
from commands import ROOT

from jbpool.data import DataError, load_graphs, load_nodes
from jbpool.data.__main__ import main, rows
from jbpool.data.catalogue import GRAPH_SETS, NODE_SETS, TU, file_options, loader, problems


@pytest.mark.parametrize(
    ("load", "name", "word"),
    [
        (load_nodes, "corra", "Did you mean 'cora'"), (load_nodes, "PROTEINS", "one of: cora"),
        (load_nodes, None, "one of: cora"), (load_graphs, "proteins", "Did you mean 'PROTEINS'"),
        (load_graphs, "ogbg-molhv", "Did you mean 'ogbg-molhiv'"), (load_graphs, "../../etc", "one of"),
    ],
)  # fmt: skip
def test_unknown_names_get_the_near_miss_and_the_list(load, name, word):
    with pytest.raises(ValueError, match=word):
        load(name)


def test_any_set_of_the_tu_collection_is_asked_for(monkeypatch):
    monkeypatch.setattr("jbpool.data.sets.tu.MIRRORS", ("ftp://nowhere/{}.zip",))
    with pytest.raises(DataError, match="nowhere/deezer_ego_nets"):
        load_graphs("deezer_ego_nets")


def test_options_are_those_of_the_loader():
    for options, word in (({"seed": 3}, "seed"), ({"normalize": "no"}, "normalize")):
        with pytest.raises(DataError, match=word):
            load_nodes("cora", **options)
    assert file_options(NODE_SETS, "npz") == ["path"]
    assert [list(problems(NODE_SETS, "sbm", None, {"seed": seed})) == [] for seed in (3, -1)] == [True, False]


def test_the_list_of_datasets(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "data" / "TU").mkdir(parents=True)
    (tmp_path / "data" / "TU" / "NCI1.zip").touch()
    assert main() == 0                                          # in a new process: test_stops.py
    printed = capsys.readouterr().out
    lines = {line.split()[0]: line for line in printed.splitlines() if line}
    for name in ("cora", "dblp", "dblp-sim", "sbm", "file", "motifs", "MUTAG", "ogbg-molhiv"):
        assert name in lines
    assert "2,708 nodes, 10,556 edges" in lines["cora"]
    assert " no " in lines["cora"]
    assert "data/TU/NCI1.zip" in lines["NCI1"]
    assert "41,127 graphs" in lines["ogbg-molhiv"]
    assert "data roots, in order" in printed


def test_the_list_has_every_dataset(monkeypatch):
    """Also one without its own row in the list."""
    monkeypatch.setitem(NODE_SETS, "ring", NODE_SETS["sbm"])
    table = {row[0]: row for row in rows()}
    assert table.keys() >= (NODE_SETS.keys() | GRAPH_SETS.keys()) - set(TU)
    assert table["ring"][1] == "Generate an attributed, degree-corrected stochastic block model."


@pytest.mark.parametrize("sets", [NODE_SETS, GRAPH_SETS])
def test_every_name_has_a_function(sets):
    for name in sets:
        assert callable(loader(sets, name)), name


LOADED = """
import sys
before = set(sys.modules)
{code}
print(*set(sys.modules) - before)
"""


@pytest.mark.parametrize(
    ("code", "families"),
    [
        ("from jbpool import JBClustering; from jbpool.data import load_graphs, load_nodes", set()),
        ("from jbpool.data import load_nodes; load_nodes('sbm')", {"synthetic"}),
        ("from jbpool.data.catalogue import NODE_SETS, loader; loader(NODE_SETS, 'cora')", {"citation", "pickles"}),
    ],
)
def test_only_the_family_that_is_needed_is_imported(code, families):
    """No parser of published sets, nothing that reads tables."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "DGLBACKEND": "pytorch"}
    command = [sys.executable, "-c", LOADED.format(code=code)]
    result = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    loaded = set(result.stdout.split())
    assert "jbpool.data.datasets" in loaded
    assert {name.split(".")[-1] for name in loaded if name.startswith("jbpool.data.sets.")} == families
    assert {name.split(".")[0] for name in loaded} & {"ogb", "torchmetrics", "networkx"} == set()
