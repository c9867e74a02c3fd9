"""Damaged inputs are read, or refused by name; ``MUTANTS=10000`` (``make fuzz``) tries more of every kind."""

import os
from itertools import count

import pytest
import scipy.sparse
from commands import CLUSTER, call
from hypothesis import HealthCheck, given, settings
from mutants import ARRAYS, EXAMPLES, NODES, TABLES, mutants, outcome, saved

import jbpool
from jbpool.data import DataError, load_nodes

pytestmark = pytest.mark.filterwarnings("ignore:Generating overly large repr")     # it hid the failure itself
MUTANTS = int(os.environ.get("MUTANTS", "40"))
CAMPAIGN = settings(
    max_examples=MUTANTS, derandomize="MUTANTS" not in os.environ, database=None, deadline=None,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip


def check(files, read, folder):
    """The files are accepted, and mutants of them accepted or refused, some of them refused."""
    places, refused = (folder / str(number) for number in count()), []
    assert outcome(read, files, next(places)) is None

    @CAMPAIGN
    @given(mutants(files))
    def accepted_or_refused(damaged):
        refused.append(outcome(read, damaged, next(places)) is not None)

    accepted_or_refused()
    assert any(refused)


@pytest.mark.parametrize("name", EXAMPLES)
def test_damaged_inputs_are_read_or_refused_by_name(name, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("JBPOOL_DATA", str(tmp_path / "cache"))
    check(*EXAMPLES[name], tmp_path)


def test_damaged_models_are_read_or_refused_by_name(tmp_path):
    call(CLUSTER.command, *CLUSTER.arguments("train.epochs=1"), "--out", "run", cwd=tmp_path)
    files = {name: (tmp_path / "run" / name).read_bytes() for name in ("model.pt", "config.yaml")}
    wrong = {**files, "config.yaml": files["config.yaml"].replace(b"sqrt: matrix", b"sqrt: latrix")}
    assert "'latrix' is unknown" in outcome(jbpool.load_run, wrong, tmp_path / "wrong")
    wrong = {**files, "config.yaml": files["config.yaml"].replace(b"weighting: none", b"weighting: nan")}
    assert "'nan' is unknown" in outcome(jbpool.load_run, wrong, tmp_path / "unknown")
    check(files, jbpool.load_run, tmp_path / "mutants")


# ---------------------------------------------------------------- what such campaigns found


@pytest.mark.parametrize("content", [b"\xe2\x80\xa8\n1,2\n", b"\x1c\n", b"0,1\n" * 200 + b"inf,1\n"])
def test_unicode_separators_and_infinite_ids(content, tmp_path):
    """Lines end where bytes say so, and an infinite id is text."""
    outcome(lambda folder: load_nodes("file", edges=folder / "e.csv"), {"e.csv": content}, tmp_path / "read")


def test_ids_of_two_kinds_show_the_one_that_is_not_a_number(tmp_path):
    files = {"edges.csv": b"0,1\n1,2\n2,x7\n", "features.csv": b"0,1.5\n1,1\n2,1\n"}
    assert "x7" in outcome(EXAMPLES["tables"][1], files, tmp_path / "read")


@pytest.mark.parametrize("rows", ["1,1,0.5\nn0,1\nn1,1,2,3\n", "1,n2,2,1.0,3\nn3,3,1,2\nn4,4,2,1\n"])
def test_a_first_row_of_another_length_above_features(rows, tmp_path):
    """It is for no node, so it may be a header, and the others are read again."""
    files = {**TABLES, "features.csv": rows.encode()}
    assert " instead of " in outcome(EXAMPLES["tables"][1], files, tmp_path / "read")


def test_a_name_of_a_column_that_cannot_be_printed(tmp_path):
    files = {**TABLES, "edges.csv": TABLES["edges.csv"].replace(b"source", b"so\x7frce")}
    assert outcome(EXAMPLES["tables"][1], files, tmp_path / "read") is None


def test_a_sparse_matrix_with_more_entries_than_can_be_counted(tmp_path):
    wide = scipy.sparse.csr_matrix((NODES, 2**62))
    files = {**ARRAYS, "features.npz": saved(scipy.sparse.save_npz, wide)}
    assert "too many entries" in outcome(EXAMPLES["arrays"][1], files, tmp_path / "read")


def test_a_failure_is_seen(tmp_path):
    """Of another class, without the file's name, or with control characters."""

    def fail(error):
        def read(folder):
            raise error(folder)

        return read

    errors = (KeyError, lambda folder: DataError("bad"), lambda folder: DataError(f"{folder}\0"))
    for number, error in enumerate(errors):
        with pytest.raises((KeyError, AssertionError)):
            outcome(fail(error), TABLES, tmp_path / str(number))
