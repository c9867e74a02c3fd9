"""Damaged inputs: a few of every quick kind (``make fuzz`` reads many of all), and those that once failed."""

import os
import pickle
import runpy
from itertools import count
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from commands import CLUSTER, ROOT, call
from damaged_inputs import KINDS, Kind, Mutant, read_mutant
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jbpool.clustering.task import NODE_CLUSTER
from jbpool.data import DataError, load_nodes
from jbpool.data.datasets import row_normalized
from jbpool.data.sets.gcb import read_gcb
from jbpool.data.sets.pickles import load_pickle
from jbpool.engine.config import load_config
from jbpool.errors import ConfigError
from jbpool.files import held

QUICK = (
    "configuration", "--set", "csv", "graph tables", "graph file", "TU folder", "TU zip", "npy, npz", "npz layout",
    "pickle",
)  # fmt: skip


@pytest.fixture
def read(monkeypatch, tmp_path):
    """A function (kind, mutant) that reads a mutant, with a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("JBPOOL_DATA", str(tmp_path / "cache"))
    places = (tmp_path / str(number) for number in count())
    return lambda kind, mutant: read_mutant(kind, mutant, next(places))


@pytest.mark.parametrize("name", QUICK)
def test_damaged_inputs_are_read_or_refused_by_name(read, name):
    refused = []

    @settings(max_examples=30, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.randoms(use_true_random=False))
    def check(rng):
        refused.append(read(KINDS[name], KINDS[name].mutant(rng)) is not None)

    check()
    assert any(refused)


@pytest.mark.parametrize(
    ("error", "words"),
    [(KeyError("x"), "x"), (DataError("bad"), "does not name"), (DataError("\x00"), "not plain text"),
     (DataError(""), "not plain text"), (DataError("{folder}: unable to allocate"), "without a check")],
)  # fmt: skip
def test_failures_are_found(read, error, words):
    def fail(folder, mutant):
        raise type(error)(str(error.args[0]).format(folder=folder))

    with pytest.raises((KeyError, AssertionError), match=words):
        read(Kind(1, KINDS["csv"].mutant, fail), Mutant("plain"))


def test_the_campaign_finds_failures(monkeypatch, tmp_path):
    """Exceptions, crashes and endless loops, each with the folder of the mutant; others are counted."""
    campaign = runpy.run_path(str(ROOT / "scripts" / "qa" / "fuzz.py"))
    kinds, read = campaign["KINDS"], KINDS["csv"].read
    monkeypatch.setitem(campaign["campaign"].__globals__, "SECONDS", 0.2)

    def loop(folder, mutant):
        while True:
            pass

    def fail(folder, mutant):
        raise KeyError(folder)

    for name, reader in (("csv", read), ("TU zip", loop), ("pickle", fail), ("bin", lambda *_: os._exit(3))):
        monkeypatch.setitem(kinds, name, kinds["csv"]._replace(read=reader))
    numbers = {"csv": range(5), "TU zip": range(1), "pickle": range(2), "bin": range(7, 9)}
    outcomes = campaign["campaign"](numbers, 0, 2, tmp_path)
    assert {name: len(found) for name, found in outcomes.items()} == {"csv": 5, "TU zip": 1, "pickle": 2, "bin": 1}
    assert {result for result, *_ in outcomes["csv"]} <= {"accepted", "refused"}
    for name, words in (("TU zip", "more than 0.2 s"), ("pickle", "KeyError"), ("bin", "ended with 3")):
        for result, message, _ in outcomes[name]:
            assert result == "failed"
            assert words in message
            assert any(Path(message.split()[0]).iterdir())                      # the files that failed
    assert not any(path.name.startswith("csv") for path in tmp_path.iterdir())


# ---------------------------------------------------------------- found: data


ATTRIBUTES = {f"attr_{part}": np.array(value) for part, value in
              {"data": [1.0], "indices": [0], "indptr": [0, 1, 1, 1]}.items()}  # fmt: skip


def layout(path, **changes):
    matrix = scipy.sparse.csr_matrix(np.ones((3, 3)) - np.eye(3))
    arrays = {f"adj_{part}": getattr(matrix, part) for part in ("data", "indices", "indptr")}
    np.savez(path, **{**arrays, "adj_shape": np.array([3, 3]), **changes})


@pytest.mark.parametrize(
    "changes",
    [
        {"adj_shape": np.array(["a", "b"])},
        {"adj_shape": np.array([3.5, np.nan])},
        {"adj_shape": np.array([10**12, 10**12])},
        {"adj_indices": np.array([{}], dtype=object)},
        {"labels": np.array([{}, 1, 2], dtype=object)},
    ],
)
def test_arrays_of_the_npz_layout_that_do_not_fit(changes, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    layout(tmp_path / "good.npz")
    assert load_nodes("npz", path=tmp_path / "good.npz").graph.num_edges == 6
    layout(tmp_path / "bad.npz", **changes)
    with pytest.raises(DataError, match=r"bad\.npz: "):
        load_nodes("npz", path=tmp_path / "bad.npz")


@pytest.mark.parametrize("read", [load_pickle, read_gcb])
def test_files_that_are_missing_or_folders(read, tmp_path):
    for path in (tmp_path / "missing", tmp_path):
        with pytest.raises(DataError, match=str(path)):
            read(path)


def test_a_message_about_a_damaged_file_is_one_printable_line(tmp_path):
    (tmp_path / "bad").write_bytes(pickle.dumps(np.ones(2), 2).replace(b"numpy\n", b"nu\x00\x1bpy\n"))
    with pytest.raises(DataError) as caught:
        load_pickle(tmp_path / "bad")
    assert str(caught.value).isprintable()
    assert "nu\\x00\\x1bpy" in str(caught.value)


def test_rows_are_scaled_without_memory_for_every_column():
    wide = scipy.sparse.csr_matrix(([1.0, 3.0, 2.0], [0, 2**30, 5], [0, 2, 3, 3]), (3, 2**31 - 1))
    assert row_normalized(wide).data.tolist() == [0.25, 0.75, 1]


def test_an_infinite_id_is_text(tmp_path):
    (tmp_path / "edges.csv").write_text("0,1\n" * 200 + "inf,1\n")
    assert "inf" in load_nodes("file", edges=tmp_path / "edges.csv").ids


def test_ids_of_two_kinds_show_the_one_that_is_not_a_number(tmp_path):
    (tmp_path / "edges.csv").write_text("0,1\n1,2\n2,x7\n")
    (tmp_path / "features.csv").write_text("0,1.5\n1,1\n2,1\n")
    with pytest.raises(DataError, match=r"features\.csv: node ids are whole numbers here, but text, such as 'x7', in "):
        load_nodes("file", edges=tmp_path / "edges.csv", features=tmp_path / "features.csv")


# ---------------------------------------------------------------- found: settings and run folders


def test_an_unknown_section_of_set_is_not_blamed_on_the_file():
    with pytest.raises(ConfigError, match=r"^--set modle\.hidden=3: 'modle' is unknown\. Did you mean 'model'"):
        load_config(NODE_CLUSTER, None, ["modle.hidden=3"])


# ---------------------------------------------------------------- found: two runs in one folder


def test_a_run_into_a_folder_in_use(tmp_path):
    arguments = [*CLUSTER.arguments("train.epochs=1"), "--out", "run"]
    with held(tmp_path / "run"):
        for more in ([], ["--resume"]):
            outcome = call(CLUSTER.command, *arguments, *more, cwd=tmp_path, check=False)
            assert outcome.code == 2
            assert outcome.err == "another process is writing to run: wait until it ends, or choose another folder.\n"
    assert call(CLUSTER.command, *arguments, cwd=tmp_path).code == 0
