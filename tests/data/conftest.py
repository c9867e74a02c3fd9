"""A separate cache for every test, and the real files if available."""

import subprocess
import sys
from importlib.util import find_spec

import pytest

from jbpool.data.own import dgl_bin


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """An empty cache, no data roots except those of the test, and short network timeouts."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("JBPOOL_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("jbpool.data.download.BACK_OFF", 0.0)
    return tmp_path / "cache" / "jbpool"


@pytest.fixture
def read_here(monkeypatch):
    """Files of ``dgl.save_graphs`` are read in this process: the imports of a child take seconds."""

    def run(command, **_):
        try:
            dgl_bin.main(*command[3:])
        except SystemExit as end:
            return subprocess.CompletedProcess(command, 1, b"", str(end.code).encode())
        return subprocess.CompletedProcess(command, 0)

    if find_spec("dgl"):
        import dgl  # noqa: F401  # before resource is hidden, which it imports
    monkeypatch.setitem(sys.modules, "resource", None)          # no limits for this process
    monkeypatch.setattr(subprocess, "run", run)
