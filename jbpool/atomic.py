"""Files that are whole or not there: written beside their place, then renamed."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def atomic_file(target: Path) -> Iterator[BinaryIO]:
    """A file for writing that appears at ``target`` when the block ends well, and never otherwise."""
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    os.close(handle)
    try:
        with open(name, "wb") as file:
            yield file
        os.chmod(name, 0o644)           # mkstemp keeps others out; a result is for everyone
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def write_text(target: Path, text: str) -> None:
    """Replace a text file in one step."""
    with atomic_file(target) as file:
        file.write(text.encode())
