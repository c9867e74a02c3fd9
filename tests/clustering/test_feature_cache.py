"""Smoothed features on disk: read back, shared between any numbers of processes, never trusted if damaged."""

import os
import re
import shutil
import time

import numpy as np
import pytest
import torch

from jbpool.atomic import _File
from jbpool.clustering import feature_cache
from jbpool.clustering.auto.views import FixedFeatures
from jbpool.clustering.feature_cache import _covering, fitted_rows
from jbpool.data import load_nodes
from jbpool.engine.shares import RowShares


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(feature_cache, "LARGE", 0)
    return load_nodes("sbm", num_nodes=90, num_clusters=3)


def fit(data, steps=3):
    features = FixedFeatures(data.feat.shape[1], steps, components=5)
    return features, fitted_rows(features, data, data.feat, RowShares.alone(90))


def entries(tmp_path):
    return sorted((tmp_path / "jbpool" / "smoothed").iterdir())


def test_the_second_run_reads_what_the_first_has_computed(data, tmp_path, monkeypatch, capsys):
    first, rows = fit(data)
    assert rows.shape == (90, 5)
    monkeypatch.setattr(FixedFeatures, "fit", None)
    second, again = fit(data)
    assert torch.equal(rows, again)
    assert all(torch.equal(value, second.state_dict()[key]) for key, value in first.state_dict().items())
    assert str(entries(tmp_path)[0]) in capsys.readouterr().out


@pytest.mark.parametrize("change", ["steps", "data", "size"])
def test_other_settings_and_data_are_other_entries(data, tmp_path, monkeypatch, change):
    fit(data)
    if change == "size":                                # small matrices are not kept
        monkeypatch.setattr(feature_cache, "LARGE", 90 * 5 + 1)
    fit(load_nodes("sbm", num_nodes=90, num_clusters=3, seed=1) if change != "steps" else data, 3 + (change == "steps"))
    assert len(entries(tmp_path)) == 1 + (change != "size")


@pytest.mark.parametrize("damage", ["truncated", "another shape", "no rows", "no state", "damaged state"])
def test_a_damaged_entry_is_replaced(data, tmp_path, damage, caplog):
    _, rows = fit(data)
    (entry,) = entries(tmp_path)
    path = entry / "rows-0-90.npy"
    if damage == "truncated":
        path.write_bytes(path.read_bytes()[:-8])
    elif damage == "another shape":
        np.save(path, np.zeros((90, 4), dtype=np.float32))
    elif damage == "no rows":
        path.unlink()
    elif damage == "no state":
        (entry / "measured.pt").unlink()
    else:
        (entry / "measured.pt").write_bytes(b"x")
    assert torch.equal(fit(data)[1], rows)
    assert ("smoothing again" in caplog.text) == (not damage.startswith("no"))
    assert np.load(path).shape == (90, 5)


@pytest.mark.parametrize("counts", [[90], [64, 26], [30, 30, 30], [90, 0]])
def test_any_number_of_processes_reads_what_others_wrote(data, tmp_path, counts):
    features, rows = fit(data)
    (entry,) = entries(tmp_path)
    (entry / "rows-0-90.npy").unlink()
    for first, last in ((0, 40), (40, 90)):             # as two processes would leave them
        np.save(entry / f"rows-{first}-{last}.npy", rows[first:last].numpy())
    for place in range(len(counts)):
        share = RowShares(counts, place)
        found = feature_cache._read(entry, features, share)
        assert torch.equal(found, rows[share.start : share.stop])


def test_parts_that_cover_a_range():
    parts = [(0, 40), (40, 90), (0, 30), (30, 60), (60, 90)]
    assert _covering(parts, 0, 90) == [(0, 40), (40, 90)]
    assert _covering(parts, 10, 35) == [(0, 40)]
    assert _covering(parts, 50, 55) == [(40, 90)]
    assert _covering([(0, 40), (50, 90)], 0, 90) is None
    assert _covering([], 5, 5) == []


def test_a_full_disk_leaves_no_part_of_a_file(data, tmp_path, monkeypatch, caplog):
    """And the run goes on: it has the rows."""
    _, expected = fit(data)
    shutil.rmtree(entries(tmp_path)[0])
    real = _File.write

    def full(self, content):
        if "rows-" in str(self.name):
            self.failure = OSError(28, "No space left on device")
            raise self.failure
        return real(self, content)

    monkeypatch.setattr(_File, "write", full)
    assert torch.equal(fit(data)[1], expected)
    assert re.search(r"rows-0-90.npy cannot be written .*XDG_CACHE_HOME", caplog.text)
    assert [path.name for path in entries(tmp_path)[0].iterdir()] == ["measured.pt"]


def test_the_entries_used_longest_ago_make_room(data, tmp_path):
    for steps in range(1, 6):
        fit(data, steps)
        fit(data, 1)                                    # used all the time
        for entry in entries(tmp_path):
            os.utime(entry, times=(time.time() - 60 * steps,) * 2 if entry != first_entry(data) else None)
    assert len(entries(tmp_path)) == feature_cache.ENTRIES
    assert first_entry(data) in entries(tmp_path)


def first_entry(data):
    return feature_cache._entry(FixedFeatures(data.feat.shape[1], 1, components=5), data)
