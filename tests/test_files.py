"""Files are written completely or not at all, folders held by one process, state files loaded without running code."""

import errno
import os
import resource
from unittest.mock import Mock

import pytest
import torch

from jbpool.errors import DataError, RunFolderError, WriteError
from jbpool.files import atomic_file, check_writable, held, load_state, reporting_damage, save_state, write_text


def test_a_file_appears_when_the_block_ends(tmp_path):
    target = tmp_path / "new" / "folder" / "file.bin"
    with atomic_file(target) as file:
        file.write(b"half")
        file.flush()
        assert not target.exists()
    assert target.read_bytes() == b"half"
    assert os.listdir(target.parent) == ["file.bin"]
    assert target.stat().st_mode & 0o777 == 0o644           # others may read results


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("before", [None, "Größe"])
def test_an_error_leaves_everything_as_it_was(tmp_path, error, before):
    target = tmp_path / "file.txt"
    if before is not None:
        write_text(target, before)

    def write():
        with atomic_file(target) as file:
            file.write(b"half")
            raise error

    with pytest.raises(error):
        write()
    assert [path.read_text("utf-8") for path in tmp_path.iterdir()] == ([] if before is None else [before])


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
def test_the_disk_s_error_names_the_file(tmp_path, monkeypatch, number):
    write_text(tmp_path / "a", "before")
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError(number, os.strerror(number))))
    with pytest.raises(WriteError, match="a cannot be written") as caught:
        write_text(tmp_path / "a", "after")
    assert ("free some space" in str(caught.value)) == (number == errno.ENOSPC)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["before"]


def test_buffered_bytes_that_do_not_fit(tmp_path):
    """The error comes when the buffer is flushed, and the target must not be there by then."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(WriteError, match="free some space"):
            write_text(tmp_path / "a", "x" * 1000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not list(tmp_path.iterdir())


def test_a_folder_is_held_by_one_process(tmp_path):
    folder = tmp_path / "a" / "b"
    with held(folder):
        with pytest.raises(RunFolderError, match="another process"), held(folder):
            pytest.fail("entered")
        with pytest.raises(RunFolderError, match="another process"):
            check_writable(folder)
        assert folder.is_dir()
    assert not folder.parent.exists()                           # nothing was written into it
    with held(folder):
        (folder / "x").touch()
    assert os.listdir(folder) == ["x"]


# ---------------------------------------------------------------- state files


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
