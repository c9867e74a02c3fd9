"""A separate cache for every test, and the real files if available."""

import contextlib
import io
import subprocess
import sys
from pathlib import Path

import pytest

from jbpool.data.files import bin_child

SHARED = Path(__file__).parents[3] / "shared" / "data"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """An empty cache, no data roots except those of the test, and short network timeouts."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("JBPOOL_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("jbpool.data.download.BACK_OFF", 0.0)
    return tmp_path / "cache" / "jbpool"


@pytest.fixture
def shared():
    """The folder of real datasets beside the checkout."""
    if not SHARED.is_dir():
        pytest.skip("the real datasets are not beside this checkout (../shared/data)")
    return SHARED


@pytest.fixture
def read_here(monkeypatch):
    """Files of ``dgl.save_graphs`` are read by :mod:`bin_child` in this process: its imports take seconds."""

    def run(command, **_):
        monkeypatch.setattr(sys, "argv", ["-c", *command[3:]])
        told, code = io.StringIO(), 0
        with contextlib.redirect_stderr(told):
            try:
                bin_child.main()
            except SystemExit as end:
                code = end.code
        return subprocess.CompletedProcess(command, code, b"", told.getvalue().encode())

    monkeypatch.setattr(bin_child, "limit_memory", lambda allowance: None)
    monkeypatch.setattr("jbpool.data.files.dgl_bin.subprocess.run", run)
