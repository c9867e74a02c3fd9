"""Files that are written completely or not at all (under a temporary name, then renamed), and locks of folders."""

from __future__ import annotations

import errno
import io
import os
import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from jbpool.errors import RunFolderError, WriteError

try:
    import fcntl
except ImportError:                         # not on Windows
    fcntl = None                            # type: ignore[assignment]

_NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class _File(io.FileIO):
    """Records why writing failed: libraries such as torch raise an error of their own instead."""

    failure: OSError | None = None

    def write(self, data):
        try:
            return super().write(data)
        except OSError as error:
            self.failure = error
            raise

    def close(self):
        try:
            super().close()
        except OSError as error:            # network file systems may report a full disk only now
            self.failure = error
            raise


@contextmanager
def atomic_file(target: Path) -> Iterator[BinaryIO]:
    """Yield a file for writing that appears at ``target`` if the block ends without an error, and only then.

    Missing folders are created. If the file cannot be written (disk full, read-only, no permission), a
    ``WriteError`` names the target, and neither a partial file nor a new folder is left behind.
    Other errors in the block are raised unchanged.
    """
    missing = [folder for folder in target.parents if not os.path.exists(folder)]       # False without permission
    part = target.parent / f".{target.name}.{secrets.token_hex(4)}.part"
    raw: _File | None = None
    try:
        with _file_system(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            raw = _File(part, "xb")
        with io.BufferedWriter(raw) as file:
            yield file
        with _file_system(target):
            os.replace(part, target)
    except BaseException as error:
        with suppress(OSError):
            part.unlink(missing_ok=True)
            for folder in missing:          # innermost first; stops at one that is in use by now
                folder.rmdir()
        if raw is not None and raw.failure is not None and isinstance(error, Exception):
            raise _write_error(target, raw.failure) from error
        raise


@contextmanager
def _file_system(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _write_error(target, error) from error


def _write_error(target: Path, error: OSError) -> WriteError:
    fix = "free some space" if error.errno in _NO_SPACE else "make that folder writable"
    return WriteError(f"{target} cannot be written ({error.strerror}): {fix}, or choose another folder")


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold a folder inside the block; a ``RunFolderError`` if another process holds it.

    The folder is created, and removed again if it is still empty at the end. It is also released when the process dies.
    Where the system has no such locks (Windows, some network file systems), every process may enter.
    """
    missing = [place for place in (folder, *folder.parents) if not os.path.exists(place)]
    with _file_system(folder):
        folder.mkdir(parents=True, exist_ok=True)
    try:
        with ExitStack() as stack:
            if fcntl is not None:
                with suppress(OSError):
                    descriptor = os.open(folder, os.O_RDONLY)
                    stack.callback(os.close, descriptor)
                    _lock(descriptor, folder)
            yield
    finally:
        with suppress(OSError):
            for place in missing:           # innermost first; stops at one that is in use by now
                place.rmdir()


def _lock(descriptor: int, folder: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        pass
    else:
        return
    raise RunFolderError(f"another process is writing to {folder}: wait until it ends, or choose another folder.")


def check_writable(target: Path) -> None:
    """Raise a ``WriteError`` if ``target`` cannot be written; leaves nothing behind."""
    try:
        with suppress(_Enough), atomic_file(target) as file:
            file.write(bytes(4096))
            file.flush()
            raise _Enough
    except WriteError as error:
        error.exit_code = 2                 # the place is refused before any work
        raise


class _Enough(Exception):  # noqa: N818 - leaves a block, not an error
    pass


def write_text(target: Path, text: str) -> None:
    """Write or replace a text file atomically."""
    with atomic_file(target) as file:
        file.write(text.encode())
