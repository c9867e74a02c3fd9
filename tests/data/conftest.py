"""A cache of its own for every test, and the real files where they are."""

from pathlib import Path

import pytest

SHARED = Path(__file__).parents[3] / "shared" / "data"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """An empty cache, no data roots but those a test names, and no patience with the network."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("JBPOOL_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("jbpool.data.sources.BACK_OFF", 0.0)
    return tmp_path / "cache" / "jbpool"


@pytest.fixture
def shared():
    """The folder of real datasets beside the checkout."""
    if not SHARED.is_dir():
        pytest.skip("the real datasets are not beside this checkout (../shared/data)")
    return SHARED
