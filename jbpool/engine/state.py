"""State files (``*.pt``): tensors and plain values, loaded without running code and checked before they are used."""

from __future__ import annotations

import errno
import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from jbpool.errors import JBPoolError, RunFolderError, one_line
from jbpool.files import write_bytes
from jbpool.schema import convert


def save_state(path: Path, state: dict[str, Any]) -> None:
    """Save tensors and plain values in a form that loads without running code."""
    content = io.BytesIO()              # torch.save reports a full disk as an error of its own format
    torch.save(state, content)
    write_bytes(path, content.getbuffer())


def load_state(path: Path, expected: Mapping[str, Any]) -> dict[str, Any]:
    """Load what ``save_state`` wrote, and check its content.

    ``expected``: key -> type, ``[entry]`` for a list, another mapping, or a tuple of alternatives.
    """
    try:
        state = torch.load(path, weights_only=True, map_location="cpu")
    except Exception as error:              # a damaged file can fail in any way
        unreadable = isinstance(error, OSError) and error.errno not in (None, errno.EINVAL, errno.EISDIR)
        if unreadable or isinstance(error, MemoryError) or "DefaultCPUAllocator" in str(error):
            raise                           # the file may be good
        raise _damaged(path, str(error)) from None
    problem = mismatch(state, expected)
    if problem is not None:
        raise _damaged(path, problem)
    return state


@contextmanager
def reporting_damage(path: Path) -> Iterator[None]:
    """Turn errors caused by the content of a state file into one that names the file."""
    try:
        yield
    except JBPoolError:
        raise
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise _damaged(path, str(error) or type(error).__name__) from error


def _damaged(path: Path, reason: str) -> RunFolderError:
    reason = one_line(" ".join(reason.split()))[:200] or "no reason given"
    fix = "run again with another --out"
    if path.name == "model.pt":
        fix = "train it again, with another --out"
    if path.name == "checkpoint.pt":
        fix = "delete it; --resume then repeats only the training that was interrupted"
    return RunFolderError(f"{path} is damaged or not of this run or version ({reason}): {fix}.")


def mismatch(value: Any, expected: Any, name: str = "") -> str | None:
    """Return how a value differs from what ``load_state`` calls ``expected``; ``None`` if it does not."""
    if isinstance(expected, tuple):
        found = [mismatch(value, option, name) for option in expected]
        return None if None in found else found[-1]
    if isinstance(expected, Mapping):
        if not isinstance(value, dict):
            return f"{name or 'the content'} should be a mapping"
        for key, inner in expected.items():
            place = f"{name}.{key}" if name else key
            problem = mismatch(value[key], inner, place) if key in value else f"{place!r} is missing"
            if problem is not None:
                return problem
        return None
    if isinstance(expected, list):
        if not isinstance(value, list):
            return f"{name} should be a list"
        return next((problem for item in value if (problem := mismatch(item, expected[0], name))), None)
    try:
        convert(value, expected)
    except TypeError:
        return f"{name} should be of type {getattr(expected, '__name__', expected)}"
    return None
