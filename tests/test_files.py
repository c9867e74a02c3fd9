"""Files are written completely or not at all."""

import errno
import os
import resource

import pytest

from jbpool import files
from jbpool.files import atomic_file, write_text


def test_a_file_appears_when_the_block_ends(tmp_path):
    target = tmp_path / "new" / "folder" / "file.bin"
    with atomic_file(target) as file:
        file.write(b"half")
        file.flush()
        assert not target.exists()
        file.write(b" and half")
    assert target.read_bytes() == b"half and half"
    assert os.listdir(target.parent) == ["file.bin"]
    assert target.stat().st_mode & 0o777 == 0o644           # others may read results


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("before", [None, "what was there"])
def test_an_error_leaves_everything_as_it_was(tmp_path, error, before):
    target = tmp_path / "file.txt"
    if before is not None:
        target.write_text(before)

    def write():
        with atomic_file(target) as file:
            file.write(b"half")
            raise error

    with pytest.raises(error):
        write()
    assert os.listdir(tmp_path) == ([] if before is None else ["file.txt"])
    assert before is None or target.read_text() == before


def test_a_reader_of_the_old_file_keeps_it(tmp_path):
    target = tmp_path / "file.txt"
    write_text(target, "old")
    with open(target) as reader:
        write_text(target, "new")
        assert reader.read() == "old"
    assert target.read_text() == "new"


def test_text_is_utf_8(tmp_path):
    write_text(tmp_path / "file.txt", "Größe\n")
    assert (tmp_path / "file.txt").read_bytes() == b"Gr\xc3\xb6\xc3\x9fe\n"


def test_two_writers_do_not_share_a_part(tmp_path):
    target = tmp_path / "file.txt"
    with atomic_file(target) as one, atomic_file(target) as two:
        one.write(b"one")
        two.write(b"two")
    assert target.read_bytes() == b"one"                    # the block that ended last
    assert os.listdir(tmp_path) == ["file.txt"]


def test_a_library_s_own_error_does_not_hide_the_disk_s(tmp_path, monkeypatch):
    def full(self, data):
        self.failure = OSError(errno.ENOSPC, "No space left on device")
        raise self.failure

    def save():
        with atomic_file(tmp_path / "new" / "a.pt") as file:
            try:
                file.write(bytes(10**6))
            except OSError:
                raise RuntimeError("unexpected pos 64 vs 0") from None          # as torch.save does

    monkeypatch.setattr(files._File, "write", full)
    with pytest.raises(files.WriteError, match=r"new.a\.pt cannot be written \(No space left"):
        save()
    assert not list(tmp_path.iterdir())


def test_other_errors_of_a_block_pass_unchanged(tmp_path):
    def save(error):
        with atomic_file(tmp_path / "new" / "a") as file:
            file.write(b"half")
            raise error

    for error in (ConnectionResetError(errno.ECONNRESET, "reset"), RuntimeError("x"), KeyboardInterrupt()):
        with pytest.raises(type(error)) as caught:
            save(error)
        assert caught.value is error
    assert not list(tmp_path.iterdir())


def test_a_failed_write_keeps_the_old_file_and_other_folders(tmp_path, monkeypatch):
    (tmp_path / "old").mkdir()
    write_text(tmp_path / "old" / "a", "before")
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError(errno.EDQUOT, "quota")))
    with pytest.raises(files.WriteError, match="free some space"):
        write_text(tmp_path / "old" / "a", "after")
    assert (tmp_path / "old" / "a").read_text() == "before"
    assert len(list((tmp_path / "old").iterdir())) == 1


def test_the_check_leaves_nothing_behind(tmp_path):
    files.check_writable(tmp_path / "new" / "deep" / "a")
    assert not list(tmp_path.iterdir())


def test_ctrl_c_after_a_failed_write_stays_ctrl_c(tmp_path, monkeypatch):
    def save():
        with atomic_file(tmp_path / "a") as file:
            file.raw.failure = OSError(errno.ENOSPC, "full")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        save()


def test_an_error_on_closing_names_the_target(tmp_path):
    """Network file systems report some errors only then; here the descriptor is closed already."""
    def save():
        with atomic_file(tmp_path / "a") as file:
            os.close(file.fileno())

    with pytest.raises(files.WriteError, match="a cannot be written"):
        save()
    assert not list(tmp_path.iterdir())


def test_a_folder_that_others_use_by_now_stays(tmp_path):
    def save():
        with atomic_file(tmp_path / "new" / "a"):
            (tmp_path / "new" / "other").touch()
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        save()
    assert os.listdir(tmp_path / "new") == ["other"]


@pytest.fixture
def tiny_disk():
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_buffered_bytes_that_do_not_fit(tmp_path, tiny_disk):
    """The error comes when the buffer is flushed, and the target must not be there by then."""
    for write in (lambda target: write_text(target, "x" * 1000), files.check_writable):
        with pytest.raises(files.WriteError, match="free some space"):
            write(tmp_path / "a")
        assert not list(tmp_path.iterdir())
