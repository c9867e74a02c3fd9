"""The errors of the package. Users can fix what causes them; the commands print them without a traceback."""

from __future__ import annotations

from pathlib import Path

MAX_LINE = 2000         # characters of a message that are shown


def one_line(message: str) -> str:
    """A message as one line of bearable length, whatever the value it quotes."""
    line = "".join(char if char.isprintable() else repr(char)[1:-1] for char in message)
    return line if len(line) <= MAX_LINE else f"{line[: MAX_LINE // 2]} ... {line[-MAX_LINE // 2 :]}"


class JBPoolError(ValueError):
    """Base class: an argument, setting or file that the package cannot work with."""


class ConfigError(JBPoolError):
    """A configuration that cannot be read or run. The message lists all problems, one per line."""


class DataError(JBPoolError):
    """Data that cannot be found, downloaded or parsed."""

    @classmethod
    def at(cls, file: str | Path, message: str, line: int | None = None) -> DataError:
        """An error that points into a file."""
        place = str(file) if line is None else f"{file}, line {line}"
        return cls(f"{place}: {message}")


class TrainingError(JBPoolError):
    """Training that cannot continue: the loss is not a number."""


class RunFolderError(JBPoolError):
    """A run folder that cannot be written, read or resumed."""


class WriteError(RunFolderError, OSError):
    """A file that cannot be written: disk full, read-only, no permission."""


class ProcessError(JBPoolError):
    """Another process of a distributed run has died."""
