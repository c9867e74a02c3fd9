"""Inputs that ``scripts/qa/fuzz.py`` once found to fail, and the fuzzer itself on a few mutants of every quick kind."""

import io
import math
import pickle
import zipfile

import numpy as np
import pytest
import scipy.sparse
from commands import CLASSIFY, CLUSTER, ROOT, call

from jbpool.atomic import held
from jbpool.classification.task import GRAPH_CLASSIFY
from jbpool.clustering.task import NODE_CLUSTER
from jbpool.data import DataError, load_nodes
from jbpool.data.containers import row_normalized
from jbpool.data.sets.citation import _parse_planetoid, _whole_numbers
from jbpool.data.sets.gcb import read_gcb
from jbpool.data.sets.unpickle import load_pickle
from jbpool.engine.config import load_config
from jbpool.errors import ConfigError, RunFolderError

QUICK = ("configuration", "--set", "csv", "graph tables", "TU folder", "TU zip", "npy, npz", "npz layout", "pickle")


@pytest.fixture
def fuzz(monkeypatch, tmp_path):
    """The script as a module, with a cache of its own."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts" / "qa"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("JBPOOL_DATA", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    import fuzz

    # Other tests of this process and their children use more memory: it is not measured.
    monkeypatch.setattr(fuzz, "MEGABYTES", math.inf)
    monkeypatch.setattr(fuzz, "_forget_peak", lambda: None)
    return fuzz


@pytest.mark.parametrize("name", QUICK)
def test_a_few_mutants(fuzz, name, tmp_path):
    (tmp_path / "valid").mkdir()
    fuzz.KINDS[name].prepare(tmp_path / "valid")
    outcomes = [fuzz.try_mutant(name, number, 99, tmp_path / "valid", tmp_path / "work") for number in range(12)]
    assert not [outcome.message for outcome in outcomes if outcome.result == "failed"]
    assert any(outcome.result == "refused" for outcome in outcomes)


@pytest.mark.parametrize(
    ("error", "words"),
    [(KeyError("x"), "KeyError"), (DataError("bad"), "does not name"), (DataError("\x00"), "not plain text")],
)
def test_the_fuzzer_finds_failures(fuzz, error, words, tmp_path, monkeypatch):
    def read(folder, change):
        raise error

    monkeypatch.setitem(fuzz.KINDS, "csv", fuzz.KINDS["csv"]._replace(read=read))
    (tmp_path / "valid").mkdir()
    fuzz.KINDS["csv"].prepare(tmp_path / "valid")
    outcome = fuzz.try_mutant("csv", 0, 0, tmp_path / "valid", tmp_path / "work")
    assert outcome.result == "failed"
    assert words in outcome.message


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
        {"adj_shape": np.array(3)},
        {"adj_shape": np.array(["a", "b"])},
        {"adj_shape": np.array([3.5, np.nan])},
        {"adj_shape": np.array([10**12, 10**12])},
        {"adj_data": np.ones(6, dtype=complex)},
        {"adj_indices": np.array([{}], dtype=object)},
        {"labels": np.array([{}, 1, 2], dtype=object)},
        {**ATTRIBUTES, "attr_shape": np.array([3, 10**12])},
    ],
)
def test_arrays_of_the_npz_layout_that_do_not_fit(changes, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    layout(tmp_path / "good.npz")
    assert load_nodes("npz", path=tmp_path / "good.npz").graph.num_edges == 6
    layout(tmp_path / "bad.npz", **changes)
    with pytest.raises(DataError, match=r"bad\.npz: "):
        load_nodes("npz", path=tmp_path / "bad.npz")


@pytest.mark.parametrize("read", [load_pickle, _whole_numbers, read_gcb])
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


def test_an_array_header_that_is_not_python(tmp_path):
    file = io.BytesIO()
    np.save(file, np.eye(3))
    with zipfile.ZipFile(tmp_path / "set.npz", "w") as archive:
        for part in ("tr", "val", "te"):
            for what in ("adj", "feat", "class"):
                archive.writestr(f"{part}_{what}.npy", file.getvalue().replace(b"'shape': (", b"'shape': {{"))
    with pytest.raises(DataError, match=r"set\.npz/tr_adj\.npy: not an array"):
        read_gcb(tmp_path / "set.npz")


def test_rows_are_scaled_without_memory_for_every_column():
    wide = scipy.sparse.csr_matrix(([1.0, 3.0, 2.0], [0, 2**30, 5], [0, 2, 3, 3]), (3, 2**31 - 1))
    assert row_normalized(wide).data.tolist() == [0.25, 0.75, 1]


def test_an_infinite_id_is_text(tmp_path):
    (tmp_path / "edges.csv").write_text("0,1\n" * 200 + "inf,1\n")
    assert "inf" in load_nodes("file", edges=tmp_path / "edges.csv").ids


def test_an_infinite_paper_of_planetoid(tmp_path):
    one = scipy.sparse.csr_matrix(np.eye(2))
    parts = {"tx": one[:1], "ty": np.eye(2)[:1], "allx": one, "ally": np.eye(2), "graph": {0: [float("inf")]}}
    for name, part in parts.items():
        (tmp_path / f"ind.s.{name}").write_bytes(pickle.dumps(part, 2))
    (tmp_path / "ind.s.test.index").write_text("2\n")
    with pytest.raises(DataError, match="a file beside it is damaged: cannot convert float infinity"):
        _parse_planetoid([tmp_path / f"ind.s.{name}" for name in (*parts, "test.index")])


def test_ids_of_two_kinds_show_the_one_that_is_not_a_number(tmp_path):
    (tmp_path / "edges.csv").write_text("0,1\n1,2\n2,x7\n")
    (tmp_path / "features.csv").write_text("0,1.5\n1,1\n2,1\n")
    with pytest.raises(DataError, match=r"features\.csv: node ids are whole numbers here, but text, such as 'x7', in "):
        load_nodes("file", edges=tmp_path / "edges.csv", features=tmp_path / "features.csv")


# ---------------------------------------------------------------- found: settings and run folders


def test_an_unknown_section_of_set_is_not_blamed_on_the_file():
    with pytest.raises(ConfigError, match=r"^--set modle\.hidden=3: 'modle' is unknown\. Did you mean 'model'"):
        load_config(NODE_CLUSTER, None, ["modle.hidden=3"])


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    call(CLUSTER.command, *CLUSTER.arguments("train.epochs=2"), "--out", "run", cwd=folder)
    return folder / "run"


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("assign.npz", None, "assign.npz"),
        ("assign.npz", b"PK\3\4", "assign.npz"),
        ("result.json", b"[]", "should be a mapping"),
        ("result.json", b'{"runs": 3}', "'task' is missing"),
    ],
)
def test_a_report_of_damaged_files(finished, name, content, words):
    config = CLUSTER.config("train.epochs=2")
    data, path = NODE_CLUSTER.load_data(config), finished / name
    before = path.read_bytes()
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    try:
        with pytest.raises(RunFolderError, match=r"--resume rewrites them") as caught:
            NODE_CLUSTER.write_report(finished, data)
    finally:
        path.write_bytes(before)
    assert str(finished) in str(caught.value)
    assert words in str(caught.value)


def test_labels_that_would_need_a_huge_table(tmp_path):
    call(CLASSIFY.command, *CLASSIFY.arguments("train.epochs=1"), "--out", "run", cwd=tmp_path)
    path = tmp_path / "run" / "predictions.npz"
    with np.load(path) as stored:
        changed = {**stored, "label": stored["label"] + 10**15}
    np.savez(path, **changed)
    with pytest.raises(RunFolderError, match="labels that the dataset does not have"):
        GRAPH_CLASSIFY.write_report(path.parent, GRAPH_CLASSIFY.load_data(CLASSIFY.config()))


# ---------------------------------------------------------------- found: two runs in one folder


def test_a_folder_is_held_by_one_process(tmp_path):
    folder = tmp_path / "a" / "b"
    with held(folder):
        with pytest.raises(RunFolderError, match="another process is writing to"), held(folder):
            pytest.fail("entered")
        assert folder.is_dir()
    assert not folder.parent.exists()                           # nothing was written into it
    with held(folder):
        (folder / "x").touch()
    assert folder.exists()


def test_a_run_into_a_folder_in_use(tmp_path):
    arguments = [*CLUSTER.arguments("train.epochs=1"), "--out", "run"]
    with held(tmp_path / "run"):
        for more in ([], ["--resume"]):
            outcome = call(CLUSTER.command, *arguments, *more, cwd=tmp_path, check=False)
            assert outcome.code == 2
            assert outcome.err == "another process is writing to run: wait until it ends, or choose another folder.\n"
    assert call(CLUSTER.command, *arguments, cwd=tmp_path).code == 0
