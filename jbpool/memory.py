"""Check the memory that something needs before it is allocated."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

from jbpool.errors import DataError

_CGROUP = Path("/sys/fs/cgroup")


def available_memory() -> int:
    """Bytes that can be allocated without swapping, also inside a container; a large number if unknown."""
    candidates = []
    try:
        found = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text())
        candidates.append(int(found[1]) * 1024 if found else os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (OSError, ValueError, AttributeError):
        pass                                    # not available on this system
    try:
        limit, used = (int((_CGROUP / f"memory.{name}").read_text()) for name in ("max", "current"))
        candidates.append(max(0, limit - used + _file_cache()))
    except (OSError, ValueError):
        pass                                    # not in a container, or no limit ("max")
    return min(candidates, default=1 << 62)


def _file_cache() -> int:
    """Bytes of a container's memory that hold parts of files, and are freed when they are needed."""
    with suppress(OSError):
        found = re.search(r"^inactive_file (\d+)", (_CGROUP / "memory.stat").read_text(), re.MULTILINE)
        return int(found[1]) if found else 0
    return 0


def memory_problem(needed: float, what: str) -> str | None:
    """The problem, if ``what`` needs more bytes than are available; else ``None``."""
    available = available_memory()
    if needed <= available:
        return None
    return f"{what} needs about {size(needed)} of memory, but only {size(available)} is available"


def require_memory(path: Path, needed: int, what: str) -> None:
    """Raise a ``DataError`` if the content of a file needs more memory than is available.

    Parameters
    ----------
    path : Path
        The file, for the message.
    needed : int
        Approximate number of bytes.
    what : str
        The content, for the message.
    """
    problem = memory_problem(needed, what)
    if problem is not None:
        raise DataError.at(path, problem)


def size(count: float) -> str:
    """A number of bytes in readable form: ``"3.2 GB"``."""
    return f"{count / 1e9:,.1f} GB" if count >= 1e9 else f"{count / 1e6:,.0f} MB"
