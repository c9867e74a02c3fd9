"""The one error of the data code: what is wrong, in which file, on which line, and the cure."""

from __future__ import annotations

from pathlib import Path


class DataError(ValueError):
    """Data that cannot be found, fetched or understood."""

    @classmethod
    def at(cls, file: str | Path, message: str, line: int | None = None) -> DataError:
        """An error that points into a file."""
        place = str(file) if line is None else f"{file}, line {line}"
        return cls(f"{place}: {message}")
