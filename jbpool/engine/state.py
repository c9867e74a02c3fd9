"""State files (``*.pt``): tensors and plain values, loaded without running code."""

from __future__ import annotations

import errno
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from jbpool.errors import JBPoolError, RunFolderError, one_line
from jbpool.files import write_bytes


def save_state(path: Path, state: dict[str, Any]) -> None:
    """Save tensors and plain values in a form that loads without running code."""
    content = io.BytesIO()              # torch.save reports a full disk as an error of its own format
    torch.save(state, content)
    write_bytes(path, content.getbuffer())


def load_state(path: Path) -> dict[str, Any]:
    """Load what ``save_state`` wrote."""
    try:
        return torch.load(path, weights_only=True, map_location="cpu")
    except Exception as error:              # a damaged file can fail in any way
        unreadable = isinstance(error, OSError) and error.errno not in (None, errno.EINVAL, errno.EISDIR)
        if unreadable or isinstance(error, MemoryError) or "DefaultCPUAllocator" in str(error):
            raise                           # the file may be good
        raise _damaged(path, error) from None


@contextmanager
def reporting_damage(path: Path) -> Iterator[None]:
    """Turn errors caused by the content of a state file into one that names the file."""
    try:
        yield
    except JBPoolError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> RunFolderError:
    reason = one_line(" ".join(str(error).split()))[:200] or type(error).__name__
    fix = "run again with another --out"
    if path.name == "checkpoint.pt":
        fix = "delete it; --resume then repeats only the training that was interrupted"
    return RunFolderError(f"{path} is damaged or of another version ({reason}): {fix}.")
