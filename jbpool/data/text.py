"""Reading text tables (CSV, TSV, spaces, ``.gz``) fast, and saying which line is wrong where one is.

pandas reads the file; only if it fails is the file read again, slowly, to find the line to name.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from jbpool.data.errors import DataError

# First lines that are titles although nothing below them is a number.
HEADER_WORDS = {"source", "target", "src", "dst", "from", "to", "u", "v", "node", "node1", "node2", "id", "label"}


@dataclass(frozen=True)
class Layout:
    """How a text table is written, told from its first lines."""

    path: Path
    separator: str              # a character, or r"\s+"
    comment: str | None
    header: list[str] | None
    skip: int                   # lines before the first row of data
    columns: int

    @classmethod
    def of(cls, path: Path) -> Layout:
        if not path.is_file():
            raise DataError.at(path, "no such file")
        comment, rows = None, []
        for number, line in _lines(path):
            if line.lstrip().startswith(("#", "%")):
                comment = line.lstrip()[0]
            elif line.strip():
                rows.append((number, line))
            if len(rows) == 2:
                break
        if not rows:
            raise DataError.at(path, "the file is empty")
        first_number, first = rows[0]
        separator = next((mark for mark in ("\t", ",", ";") if mark in first), r"\s+")
        fields = _fields(first, separator)
        second = _fields(rows[1][1], separator) if len(rows) > 1 else []
        words = all(not _is_number(field) for field in fields)
        is_header = words and (
            any(_is_number(field) for field in second) or {field.lower() for field in fields[:2]} <= HEADER_WORDS
        )
        skip = first_number if is_header else first_number - 1
        return cls(path, separator, comment, fields if is_header else None, skip, len(fields))

    def read(self, kinds: dict[int, object]) -> pd.DataFrame:
        """All columns, those of ``kinds`` as their type, the rest as text; an error names the line."""
        try:
            return pd.read_csv(
                self.path,
                sep=self.separator,
                header=None,
                skiprows=self.skip,
                comment=self.comment,
                dtype={column: kinds.get(column, "str") for column in range(self.columns)},
                keep_default_na=False,
                na_values=[],
                skipinitialspace=True,
                encoding="utf-8-sig",
                compression="infer",
            )
        except pd.errors.EmptyDataError:
            raise DataError.at(self.path, "there is nothing below the header line") from None
        except (ValueError, OverflowError, EOFError, OSError, zlib.error) as error:
            raise self.trouble(kinds, error) from None

    def trouble(self, kinds: dict[int, object], error: Exception | None = None) -> DataError:
        """The first line that does not fit, found by reading the file again, slowly."""
        for number, fields in self.rows():
            if len(fields) != self.columns:
                return DataError.at(self.path, f"{len(fields)} fields, {self.columns} expected", number)
            for column, kind in kinds.items():
                if fields[column] == "":
                    return DataError.at(self.path, f"field {column + 1} is empty", number)
                if kind != "str" and not _is_number(fields[column], whole=kind == "int64"):
                    return DataError.at(self.path, f"{fields[column][:40]!r} is not a finite number", number)
        return DataError.at(self.path, f"cannot be read ({error})")

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        for number, line in _lines(self.path):
            if number > self.skip and line.strip() and not (self.comment and line.lstrip().startswith(self.comment)):
                yield number, _fields(line, self.separator)


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rb") as file, io.TextIOWrapper(file, encoding="utf-8-sig", errors="replace") as text:
            yield from enumerate((line.rstrip("\r\n") for line in text), 1)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError.at(path, f"cannot be read ({error})") from None


def _fields(line: str, separator: str) -> list[str]:
    return line.split() if separator == r"\s+" else [field.strip().strip('"') for field in line.split(separator)]


def _is_number(text: str, whole: bool = False) -> bool:
    try:
        return text.lstrip("+-").isdigit() if whole else bool(np.isfinite(float(text)))
    except ValueError:
        return False


def _id_kind(layout: Layout, columns: tuple[int, ...]) -> str:
    """``int64`` if the ids of the first rows are whole numbers, else ``str``."""
    for (_, fields), _ in zip(layout.rows(), range(1000), strict=False):
        if any(column >= len(fields) or not _is_number(fields[column], whole=True) for column in columns):
            return "str"
    return "int64"


def read_with_ids(layout: Layout, id_columns: tuple[int, ...], kinds: dict[int, object]) -> pd.DataFrame:
    """Read ids as whole numbers if all are, else as text."""
    kind = _id_kind(layout, id_columns)
    try:
        return layout.read({**dict.fromkeys(id_columns, kind), **kinds})
    except DataError:
        if kind == "str":
            raise
        return layout.read({**dict.fromkeys(id_columns, "str"), **kinds})      # text ids further down


def plain(column: pd.Series) -> np.ndarray:
    """Whole numbers as int64, text as Python strings."""
    return column.to_numpy() if column.dtype == np.int64 else column.to_numpy(dtype=object)


def shown(value: object) -> str:
    """An id as the user wrote it."""
    return repr(value.item() if isinstance(value, np.generic) else value)
