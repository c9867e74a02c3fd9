"""A separate cache for every test, and the real files if available."""

from pathlib import Path

import pytest

SHARED = Path(__file__).parents[3] / "shared" / "data"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """An empty cache, no data roots except those of the test, and short network timeouts."""
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
