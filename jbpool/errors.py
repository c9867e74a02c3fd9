"""Errors that users can fix. The commands print them as one line, without a traceback."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MAX_LINE = 2000         # characters of a message
DGL_RUNS_HERE = sys.version_info < (3, 12) and (sys.platform, platform.machine()) == ("linux", "x86_64")
INSTALL_DGL = (
    "pip install 'jbpool[dgl]'" if DGL_RUNS_HERE else
    "no DGL for this Python and machine loads with torch 2.4 or later; use jbpool.Graph or PyG"
)  # fmt: skip


def one_line(message: str) -> str:
    """Return a message as a single line of limited length."""
    line = "".join(char if char.isprintable() else repr(char)[1:-1] for char in message)
    return line if len(line) <= MAX_LINE else f"{line[: MAX_LINE // 2]} ... {line[-MAX_LINE // 2 :]}"


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether memory ran out: numpy raises MemoryError, torch its own on a GPU, an untyped one on the CPU."""
    named = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    return named or "DefaultCPUAllocator" in str(error)


class JBPoolError(ValueError):
    """Base class: an argument, setting or file that cannot be used."""

    exit_code = 2           # of the commands: 2 if the input is refused, 1 if the run fails


class InputError(JBPoolError):
    """A graph, features or edge weights that a layer cannot use."""


class ConfigError(JBPoolError):
    """A configuration that cannot be read or run. The message lists all problems, one per line."""


class DataError(JBPoolError):
    """Data that cannot be found, downloaded or parsed."""

    @classmethod
    def at(cls, file: str | Path, message: str, line: int | None = None) -> DataError:
        """Return an error with its file and line, as one line of text: messages quote damaged files."""
        place = str(file) if line is None else f"{file}, line {line}"
        return cls(one_line(f"{place}: {message}"))


@contextmanager
def reported_as(file: str | Path, problem: str | None = None, fix: str = "") -> Iterator[None]:
    """Add a file to the errors about what was read from it; with a problem, turn any other error into one of these.

    What reads damaged files fails in many ways.
    """
    try:
        yield
    except (DataError, InputError) as error:
        if str(file) in str(error):
            raise
        raise DataError.at(file, str(error)) from None
    except Exception as error:
        if problem is None:
            raise
        if isinstance(error, FileNotFoundError):
            raise DataError.at(file, "no such file") from None
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise DataError.at(file, f"{problem} ({reason}){fix}") from error


@contextmanager
def importing(package: str, what: str, fix: str) -> Iterator[None]:
    """Say how to install a package that the block imports, and what needs it."""
    try:
        yield
    except ImportError as error:
        raise InputError(f"{what} needs {package}, which cannot be imported ({error}): {fix}.") from None


class TrainingError(JBPoolError):
    """Training that cannot continue, such as a loss that is not a number."""

    exit_code = 1


class RunFolderError(JBPoolError):
    """A run folder that cannot be written, read or resumed."""


class WriteError(RunFolderError, OSError):
    """A file that cannot be written: disk full, read-only, no permission."""

    exit_code = 1


class ProcessError(JBPoolError):
    """Another process of a distributed run has died."""

    exit_code = 1
