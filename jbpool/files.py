"""Files that are written completely or not at all (under a temporary name, then renamed), and folders in use.

State files (``*.pt``) hold tensors and plain values, and are loaded without running code.
"""

from __future__ import annotations

import errno
import io
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from jbpool.errors import JBPoolError, RunFolderError, WriteError, is_out_of_memory, one_line

_NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@contextmanager
def atomic_file(target: Path) -> Iterator[BinaryIO]:
    """Yield a file for writing that appears at ``target`` if the block ends without an error, and only then.

    Missing folders are created. Any ``OSError`` in the block becomes a ``WriteError`` that names the target.
    """
    part = target.parent / f".{target.name}.{secrets.token_hex(4)}.part"
    try:
        with _reporting(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            with open(part, "xb") as file:
                yield file
            os.replace(part, target)
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def write_bytes(target: Path, content: bytes | memoryview) -> None:
    """Write or replace a file atomically."""
    with atomic_file(target) as file:
        file.write(content)


def write_text(target: Path, text: str) -> None:
    """Write or replace a text file atomically."""
    write_bytes(target, text.encode())


def save_state(path: Path, state: dict[str, Any]) -> None:
    """Save tensors and plain values in a form that loads without running code."""
    import torch  # here, as in load_state: the rest answers without it

    content = io.BytesIO()              # torch.save reports a full disk as an error of its own format
    torch.save(state, content)
    with content.getbuffer() as written:        # released at once: an error keeps it, and its owner cannot be freed
        write_bytes(path, written)


def load_state(path: Path) -> dict[str, Any]:
    """Load what ``save_state`` wrote."""
    import torch

    with reporting_damage(path):
        return torch.load(path, weights_only=True, map_location="cpu")


@contextmanager
def reporting_damage(path: Path, fix: str = "run again with another --out") -> Iterator[None]:
    """Turn errors caused by the content of a file into one that names it; a damaged file can fail in any way."""
    try:
        yield
    except Exception as error:
        unreadable = isinstance(error, OSError) and error.errno not in (None, errno.EINVAL, errno.EISDIR)
        is_another = isinstance(error, JBPoolError) and type(error) is not JBPoolError
        if is_another or unreadable or is_out_of_memory(error):
            raise                           # the file may be good
        reason = one_line(" ".join(str(error).split()))[:200] or type(error).__name__
        if path.name == "checkpoint.pt":
            fix = "delete it; --resume then repeats only the training that was interrupted"
        raise RunFolderError(f"{path} is damaged or of another version ({reason}): {fix}.") from error


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold a folder inside the block, by a lock file; a ``RunFolderError`` if another process holds it.

    The folder is created, and removed again if it is still empty at the end. It is also released when the process dies.
    """
    from filelock import FileLock, Timeout  # here: what only writes files starts faster without it

    missing = [place for place in (folder, *folder.parents) if not os.path.exists(place)]
    lock = FileLock(folder / ".lock", timeout=0)
    try:
        with _reporting(folder, exit_code=2):               # the place is refused before any work
            folder.mkdir(parents=True, exist_ok=True)
            lock.acquire()
    except Timeout:
        fix = "wait until it ends, or choose another folder"
        raise RunFolderError(f"another process is writing to {folder}: {fix}.") from None
    try:
        yield
    finally:
        with suppress(OSError):
            os.unlink(lock.lock_file)                       # first: nobody can take the lock of a file without a name
        lock.release()
        with suppress(OSError):
            for place in missing:                           # innermost first; stops at one that is in use by now
                place.rmdir()


def check_writable(folder: Path) -> None:
    """Refuse a folder where no file can be written; leaves nothing behind."""
    with held(folder):
        pass


@contextmanager
def _reporting(target: Path, exit_code: int = 1) -> Iterator[None]:
    """Turn errors of the system into a ``WriteError`` that names the target and says the fix."""
    try:
        yield
    except (WriteError, TimeoutError):                      # a lock that is not free is a TimeoutError
        raise
    except OSError as error:
        fix = "free some space" if error.errno in _NO_SPACE else "make that folder writable"
        reason = error.strerror or str(error)
        refused = WriteError(f"{target} cannot be written ({reason}): {fix}, or choose another folder")
        refused.exit_code = exit_code
        raise refused from error
