"""State files: loaded without running code; a damaged one is named on one line."""

import os
from unittest.mock import Mock

import pytest
import torch

from jbpool.engine.state import load_state, reporting_damage, save_state
from jbpool.errors import DataError, RunFolderError


def test_code_in_a_state_file_does_not_run(tmp_path):
    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "made"),)

    torch.save({"a": Evil()}, tmp_path / "a.pt")
    with pytest.raises(RunFolderError, match=r"a\.pt is damaged"):
        load_state(tmp_path / "a.pt")
    assert not (tmp_path / "made").exists()


def test_a_state_that_cannot_be_saved_keeps_the_old_one(tmp_path, monkeypatch):
    save_state(tmp_path / "a.pt", {"a": 1})

    def fail(state, file):
        file.write(b"half")
        raise RuntimeError

    monkeypatch.setattr(torch, "save", fail)
    with pytest.raises(RuntimeError):
        save_state(tmp_path / "a.pt", {"a": 2})
    assert load_state(tmp_path / "a.pt") == {"a": 1}


@pytest.mark.parametrize("error", [PermissionError(13, "no"), MemoryError(), RuntimeError("DefaultCPUAllocator: no")])
def test_a_good_file_is_not_called_damaged(error, monkeypatch):
    monkeypatch.setattr(torch, "load", Mock(side_effect=error))
    with pytest.raises(type(error)):
        load_state("checkpoint.pt")


def test_a_damaged_file_is_named_in_plain_text(tmp_path):
    save_state(tmp_path / "x.pt", {"a": 1})
    content = (tmp_path / "x.pt").read_bytes()
    assert b"little" in content
    for damaged in (content.replace(b"little", b"li\0\x1ble"), content[:-50], b"", b"no state"):
        (tmp_path / "x.pt").write_bytes(damaged)
        with pytest.raises(RunFolderError, match=r"x\.pt is damaged") as caught:
            load_state(tmp_path / "x.pt")
        assert str(caught.value).isprintable()


def test_errors_while_a_state_is_used(tmp_path):
    """Those of its content name the file on one line; those of the package pass unchanged."""
    words = r"checkpoint\.pt is damaged .*\(x{200}\): delete it"
    with pytest.raises(RunFolderError, match=words), reporting_damage(tmp_path / "checkpoint.pt"):
        raise ValueError("x" * 300 + "\nsecond line")
    with pytest.raises(DataError, match=r"^mine$"), reporting_damage(tmp_path / "checkpoint.pt"):
        raise DataError("mine")
