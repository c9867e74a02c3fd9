"""Untrusted files: pickles that run code, archives with path traversal or zip bombs, damaged caches."""

import os
import pickle
import stat
import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

from jbpool.data import DataError
from jbpool.data.arrays import extract, read_members
from jbpool.data.cache import cached
from jbpool.data.unpickle import load_pickle


class Evil:
    def __init__(self, function, *args):
        self.call = (function, args)

    def __reduce__(self):
        return self.call


EVIL = {
    "system": lambda path: Evil(__import__("os").system, f"touch {path}"),
    "eval": lambda path: Evil(eval, f"open({str(path)!r}, 'w')"),
    "getattr": lambda path: Evil(getattr, Path(path), "touch"),
    "in a dict": lambda path: {1: [2, Evil(__import__("os").system, f"touch {path}")]},
    "in an object array": lambda path: np.array([Evil(__import__("os").system, f"touch {path}")], dtype=object),
    "codecs": lambda path: Evil(__import__("codecs").encode, "x", "rot13"),
}


@pytest.mark.parametrize("kind", EVIL)
@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_malicious_pickle_does_not_run(tmp_path, kind, protocol):
    target = tmp_path / "was-here"
    (tmp_path / "evil.x").write_bytes(pickle.dumps(EVIL[kind](target), protocol))
    with pytest.raises(DataError, match=r"evil\.x: not a pickle of plain arrays"):
        load_pickle(tmp_path / "evil.x")
    assert not target.exists()


@pytest.mark.parametrize("protocol", [2, 4])
def test_plain_pickles_are_read(tmp_path, protocol):
    matrix = scipy.sparse.random(5, 4, 0.5, format="csr", random_state=0)
    path = tmp_path / "plain"
    path.write_bytes(pickle.dumps({"m": matrix, "a": np.arange(3)}, protocol))
    loaded = load_pickle(path)
    assert (loaded["m"] != matrix).nnz == 0
    assert loaded["a"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("content", [b"", b"\x80\x04", b"not a pickle", b"\x80\x02]q\x00(K\x01"])
def test_damaged_pickles_are_told(tmp_path, content):
    (tmp_path / "bad").write_bytes(content)
    with pytest.raises(DataError, match="download the file again"):
        load_pickle(tmp_path / "bad")


def archive(path, members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for info, content in members.items():
            file.writestr(info, content)
    return path


def link(name):
    info = zipfile.ZipInfo(name)
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return info


@pytest.mark.parametrize("name", ["../out.txt", "/abs.txt", "a/../../out.txt", "a\\..\\out.txt", "C:out.txt"])
def test_an_archive_cannot_reach_out_of_its_folder(tmp_path, name):
    path = archive(tmp_path / "a.zip", {"good.txt": "x", name: "x"})
    with pytest.raises(DataError, match="outside its folder"):
        extract(path, tmp_path / "in")
    assert not (tmp_path / "in").exists()


def test_an_archive_cannot_hold_links(tmp_path):
    with pytest.raises(DataError, match="link"):
        extract(archive(tmp_path / "a.zip", {link("inside"): "/etc/passwd"}), tmp_path / "in")


def test_bombs_are_refused(tmp_path):
    path = archive(tmp_path / "a.zip", {"big": b"0" * 10_000_000, "small": b"0"})
    assert path.stat().st_size < 20_000
    for call in (lambda: extract(path, tmp_path / "in", 1_000_000), lambda: read_members(path, ["big"], 1_000_000)):
        with pytest.raises(DataError, match="more than the limit"):
            call()


def test_the_limit_is_for_all_members_together(tmp_path):
    path = archive(tmp_path / "a.zip", {name: b"0" * 600 for name in "ab"})
    for call in (lambda: extract(path, tmp_path / "in", 1000), lambda: read_members(path, ["a", "b"], 1000)):
        with pytest.raises(DataError, match="more than the limit"):
            call()


def test_plain_archives_are_unpacked(tmp_path):
    extract(archive(tmp_path / "a.zip", {"a/b.txt": "x", "c.txt": "y"}), tmp_path / "in")
    assert (tmp_path / "in" / "a" / "b.txt").read_text() == "x"


def test_what_is_no_archive_is_told(tmp_path):
    (tmp_path / "a.zip").write_text("<html>not found</html>")
    with pytest.raises(DataError, match="not a zip archive"):
        read_members(tmp_path / "a.zip", ["x"])


class TestCache:
    @pytest.fixture
    def source(self, tmp_path):
        path = tmp_path / "source"
        path.write_text("one")
        return path

    @staticmethod
    def parser(calls):
        def parse():
            calls.append(1)
            return {"a": np.arange(1000), "names": np.array(["x", "y"])}

        return parse

    def test_parsed_once_for_the_same_source_and_parser(self, source):
        calls = []
        for _ in range(2):
            arrays = cached("set", [source], 1, self.parser(calls))
            assert arrays["a"].tolist() == list(range(1000))
            assert arrays["names"].tolist() == ["x", "y"]
        assert len(calls) == 1
        cached("set", [source], 2, self.parser(calls))              # a new parser
        source.write_text("two")
        cached("set", [source], 2, self.parser(calls))              # a new source
        assert len(calls) == 3

    def test_the_versions_used_last_are_kept(self, source, cache, monkeypatch):
        monkeypatch.setattr("jbpool.data.cache.VERSIONS", 2)
        cached("set-other", [source], 1, self.parser([]))

        def load(text, calls):
            source.write_text(text)
            cached("set", [source], 1, self.parser(calls))
            for path in (cache / "parsed").glob("*.npz"):           # every load is a second after the one before
                os.utime(path, (path.stat().st_mtime - 1,) * 2)

        for text in "abac":                                         # b is the oldest when c comes
            load(text, [])
        calls = []
        for text in "ac":
            load(text, calls)
        assert not calls
        load("b", calls)
        assert len(calls) == 1
        assert len(list((cache / "parsed").glob("set-*.npz"))) == 3

    @pytest.mark.parametrize("damage", [lambda b: b[:100], lambda b: b"", lambda b: b[:500] + b"\xff" * 9 + b[509:]])
    def test_a_damaged_cache_is_rebuilt(self, source, cache, damage, caplog):
        calls = []
        cached("set", [source], 1, self.parser(calls))
        (path,) = (cache / "parsed").glob("*.npz")
        path.write_bytes(damage(path.read_bytes()))
        assert cached("set", [source], 1, self.parser(calls))["a"].tolist() == list(range(1000))
        assert len(calls) == 2
        assert "parsing again" in caplog.text
        cached("set", [source], 1, self.parser(calls))
        assert len(calls) == 2

    def test_a_pickle_in_the_cache_is_not_loaded(self, source, cache, tmp_path):
        calls = []
        cached("set", [source], 1, self.parser(calls))
        (path,) = (cache / "parsed").glob("*.npz")
        np.savez(path, a=np.array([Evil(__import__("os").system, f"touch {tmp_path}/was-here")], dtype=object))
        assert cached("set", [source], 1, self.parser(calls))["a"].tolist() == list(range(1000))
        assert not (tmp_path / "was-here").exists()

    @pytest.mark.parametrize("arrays", [{"b": np.arange(3)}, {"a": np.arange(1000) + 1, "names": np.array(["x", "y"])}])
    def test_other_arrays_than_were_written_are_not_trusted(self, source, cache, arrays):
        calls = []
        cached("set", [source], 1, self.parser(calls))
        (path,) = (cache / "parsed").glob("*.npz")
        np.savez(path, **arrays)
        assert cached("set", [source], 1, self.parser(calls))["a"].tolist() == list(range(1000))

    def test_files_are_told_apart_by_name_and_by_where_one_ends(self, tmp_path):
        calls = []
        for files in ({"a": "12", "b": "3"}, {"a": "1", "b": "23"}, {"a": "12", "c": "3"}):
            paths = []
            for name, text in files.items():
                (tmp_path / name).write_text(text)
                paths.append(tmp_path / name)
            cached("set", paths, 1, self.parser(calls))
        assert len(calls) == 3

    def test_a_change_far_into_a_large_file_is_seen(self, source):
        calls = []
        for last in (b"1", b"2"):
            source.write_bytes(b"0" * 3_000_000 + last)
            cached("set", [source], 1, self.parser(calls))
        assert len(calls) == 2

    def test_a_cache_that_cannot_be_written_is_done_without(self, source, cache, caplog):
        cache.parent.mkdir()
        cache.write_text("a file where the folder should be")
        assert cached("set", [source], 1, self.parser([]))["a"].tolist() == list(range(1000))
        assert "cannot write" in caplog.text

    def test_errors_are_not_cached(self, source, cache):
        def fail():
            raise DataError("bad")

        with pytest.raises(DataError):
            cached("set", [source], 1, fail)
        assert not (cache / "parsed").exists()
