"""Files are written completely or not at all, and folders are held by one process."""

import errno
import os
import resource

import pytest

from jbpool.errors import RunFolderError, WriteError
from jbpool.files import atomic_file, check_writable, held, write_text


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
