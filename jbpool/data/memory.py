"""How much memory a file may take: refused before it is allocated, not after."""

from __future__ import annotations

import os
import re
from pathlib import Path

from jbpool.errors import DataError

_CGROUP = Path("/sys/fs/cgroup")


def available_memory() -> int:
    """Bytes that can be allocated without swapping, also inside a container; a large number where unknown."""
    candidates = []
    try:
        found = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text())
        candidates.append(int(found[1]) * 1024 if found else os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (OSError, ValueError, AttributeError):
        pass                                    # no such file or call on this system
    try:
        limit, used = ((_CGROUP / f"memory.{name}").read_text().strip() for name in ("max", "current"))
        candidates.append(max(0, int(limit) - int(used)))
    except (OSError, ValueError):
        pass                                    # no container, or no limit ("max")
    return min(candidates, default=1 << 62)


def require_memory(path: Path, needed: int, what: str) -> None:
    """Refuse ``what`` is in a file if it takes more memory than there is.

    Parameters
    ----------
    path : the file, for the message.
    needed : bytes, roughly.
    what : names the content, for the message.
    """
    available = available_memory()
    if needed > available:
        raise DataError.at(path, f"{what} needs about {_size(needed)} of memory, {_size(available)} are available")


def _size(count: int) -> str:
    return f"{count / 1e9:,.1f} GB" if count >= 1e9 else f"{count / 1e6:,.0f} MB"
