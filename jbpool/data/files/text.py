"""Fast reading of text tables (CSV, TSV, spaces, ``.gz``), with the line number of an error.

pandas reads the table; only if it fails are the lines searched one by one for the error. Lines end in LF, CRLF or CR;
those that start with ``#`` or ``%`` are comments.

The separator and the header are detected from the first rows; callers can override them:

- the separator is a tab if there is one, else comma or semicolon, whichever gives more fields, else white space;
- the first row is a header if its first field is empty or a name such as ``id``, if it names a source and a target, or
  if it is text above columns of numbers, where the first column may be text ids; in features and labels, another field
  may be called ``id``, too.
"""

from __future__ import annotations

import csv
import gzip
import io
import logging
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from jbpool.console import progress_bar
from jbpool.data.arrays import unpacked_limit
from jbpool.errors import DataError

BLOCK = 16 << 20                # bytes read at a time
MAX_LINE = 16 << 20             # bytes of a line, where a file is read in blocks


@dataclass(frozen=True)
class Block:
    """Whole lines of a file, all ending in LF, without a byte-order mark."""

    content: bytes              # comment lines are blank, so that line numbers stay
    comments: int               # how many there were
    before: int                 # lines of the file before this block


def read_text(path: Path) -> Block:
    """The whole text of a file as one block."""
    return _cleaned(path, b"".join(_whole_lines(path, None)), 0)


def read_blocks(path: Path) -> Iterator[Block]:
    """The text of a file, ``BLOCK`` bytes at a time; nothing for an empty file."""
    before = 0
    for part in _whole_lines(path, MAX_LINE):
        block = _cleaned(path, part, before)
        before += block.content.count(b"\n")
        yield block


def _whole_lines(path: Path, max_line: int | None) -> Iterator[bytes]:
    """Raw parts that end where a line ends; ``max_line``: maximum number of bytes of a line."""
    if not path.is_file():
        raise DataError.at(path, "is a folder, give a file" if path.is_dir() else "no such file")
    try:
        size = path.stat().st_size
        with open(path, "rb") as raw, progress_bar(f"reading {path.name}", size, "bytes") as bar:
            is_packed = raw.peek(2)[:2] == b"\x1f\x8b"              # gzip, whatever the name of the file
            file = gzip.GzipFile(fileobj=raw) if is_packed else raw
            left = unpacked_limit(size)
            rest = b""
            while block := file.read(BLOCK):
                left -= len(block)
                if left < 0 and is_packed:
                    raise DataError.at(path, "unpacks to more than its size allows")
                bar.update(raw.tell() - bar.n)
                rest += block
                end = _end_of_last_line(rest)
                if end:
                    yield rest[:end]
                    rest = rest[end:]
                if max_line is not None and len(rest) > max_line:
                    raise DataError.at(path, f"a line of more than {max_line:,} bytes: this is not a table of edges")
            if rest:
                yield rest
    except (OSError, EOFError, zlib.error) as error:
        raise DataError.at(path, f"cannot be read ({error})") from None


def _end_of_last_line(text: bytes) -> int:
    """How many bytes of the text are whole lines; a CR at its very end may be half a CRLF."""
    return text.rfind(b"\n") + 1 or text.rfind(b"\r", 0, -1) + 1


def _cleaned(path: Path, content: bytes, before: int) -> Block:
    if before == 0:
        content = content.removeprefix(b"\xef\xbb\xbf")
    if b"\r" in content:
        content = content.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    try:
        if not content.isascii():
            content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = before + content.count(b"\n", 0, error.start) + 1
        raise DataError.at(path, f"not UTF-8 text ({error.reason})", line) from None
    if b"\0" in content:
        line = before + content.count(b"\n", 0, content.index(b"\0")) + 1
        fix = "this is not a text table, or not in UTF-8; save it as UTF-8"
        raise DataError.at(path, f"contains a zero byte: {fix}", line)
    comments = 0
    if b"#" in content or b"%" in content:
        content, comments = re.subn(rb"(?m)^[ \t]*[#%][^\n]*", b"", content)
    return Block(content, comments, before)


SPACES = r"\s+"
SAMPLE = 20                     # rows from which the format of a table is detected
MISSING_WORDS = {"", "na", "n/a", "nan", "null", "none", "inf", "-inf", "?", "-", "."}

# What columns may be called; if several of the names occur, the first of them counts.
SOURCE_WORDS = ("source", "src", "from", "node1", "source_id", "from_id", "id1")
TARGET_WORDS = ("target", "dst", "to", "node2", "target_id", "to_id", "id2")
ID_WORDS = ("id", "node", "node_id", "nodeid", "name")
WEIGHT_WORDS = ("weight", "weights", "w")
LABEL_WORDS = ("label", "class")


def column_named(words: Sequence[str], names: Iterable[str]) -> int | None:
    """The place of the column with the first of these names that occurs."""
    lower = [name.lower() for name in names]
    return next((lower.index(word) for word in words if word in lower), None)


def fields_of(line: str, separator: str) -> list[str]:
    """The fields of a line."""
    if separator == SPACES:
        return line.split()
    return [field.strip() for field in next(csv.reader([line], delimiter=separator, skipinitialspace=True))]


def row_of(path: Path, number: int, line: str, separator: str) -> list[str]:
    """The fields of a line, with its number for an error."""
    try:
        return fields_of(line, separator)
    except csv.Error as error:
        raise DataError.at(path, f"cannot be read ({error})", number + 1) from None


def is_unnamed(name: str) -> bool:
    """Whether a header field is empty, as pandas writes it for an index, or ``Unnamed: 0``, as pandas reads it back."""
    return re.fullmatch(r"(unnamed: ?\d+)?", name.lower()) is not None


def find_separator(path: Path, sample: list[tuple[int, str]]) -> str:
    """The separator of a table, from numbered lines."""
    if any("\t" in line.strip() for _, line in sample):
        return "\t"
    counts = {mark: len(row_of(path, *sample[0], mark)) for mark in (",", ";")}
    best = max(counts, key=lambda mark: counts[mark])
    return best if counts[best] > 1 else SPACES


def is_header_with_ids(rows: list[list[str]], others: Sequence[str] | None) -> bool:
    """Whether the first row of features or labels is a header.

    Parameters
    ----------
    rows : list of list of str
        The first rows.
    others : sequence of str or None
        What the column beside the ids may be called; ``None`` if all other columns are numbers.
    """
    names, rest = [field.lower() for field in rows[0]], rows[1:]
    has_ids = column_named(ID_WORDS, names) is not None
    if others is not None:
        return is_header(rows) or (has_ids and column_named(others, names) is not None)
    texts = not any(map(is_number, names))
    two = len(rows[0]) == 2 and names[1] not in MISSING_WORDS and bool(rest)
    above_numbers = two and all(len(row) == 2 and is_number(row[1]) for row in rest)
    return is_header(rows) or (texts and (has_ids or above_numbers))


def names_ends(names: Iterable[str]) -> bool:
    """Whether columns are called source and target."""
    names = list(names)
    return None not in (column_named(SOURCE_WORDS, names), column_named(TARGET_WORDS, names))


def is_header(rows: list[list[str]]) -> bool:
    """Whether the first row of an edge list, or of any table, is a header."""
    first, rest = rows[0], rows[1:]
    names = {field.lower() for field in first}
    if first[0].lower() in ID_WORDS or is_unnamed(first[0]) or names_ends(first):
        return True
    texts = [place for place, field in enumerate(first) if not is_number(field)]
    over_numbers = [
        place for place in texts if rest and all(place < len(row) and is_number(row[place]) for row in rest)
    ]
    # Features with text ids, unless the first row is data with missing numbers.
    names_and_numbers = len(first) > 2 and over_numbers == list(range(1, len(first))) and not names & MISSING_WORDS
    return bool(over_numbers) and (texts == over_numbers or names_and_numbers)


def nothing_in(comments: int) -> str:
    """The error for a file without data."""
    return f"has only comments, lines that begin with # or % ({comments:,})" if comments else "the file is empty"


def is_number(text: str) -> bool:
    """Whether a field is a finite number."""
    try:
        return "_" not in text and bool(np.isfinite(float(text)))       # float() accepts 1_000, tables do not
    except ValueError:
        return False


log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Table:
    """The text of a table and its format."""

    path: Path
    content: bytes              # comments blanked out, which keeps line numbers
    separator: str              # a character, or SPACES
    header: list[str] | None    # as the user has written it; key words count in any case
    first: int                  # number of the first line of data in the content, from 0
    columns: int
    comments: int               # lines that are left out
    before: int                 # lines of the file before the content

    @classmethod
    def open(cls, path: Path, others: Sequence[str] | None = None) -> Table:
        """Read a table with a column of ids and detect its format.

        ``others``: what the other column may be called; ``None`` if all others are numbers.
        """
        return cls.parse(path, read_text(path), find_header=lambda rows: is_header_with_ids(rows, others))

    @classmethod
    def parse(
        cls, path: Path, block: Block, separator: str | None = None, header: bool | None = None,
        find_header: Callable[[list[list[str]]], bool] = is_header,
    ) -> Table:
        """The table that starts in a block of text; separator and header are detected unless the caller knows them."""
        sample = [(number, line) for number, line in _lines(block.content, 200 * SAMPLE) if line.strip()][:SAMPLE]
        if not sample:
            raise DataError.at(path, nothing_in(block.comments))
        separator = separator or find_separator(path, sample)
        rows = [row_of(path, number, line, separator) for number, line in sample]
        has_header = find_header(rows) if header is None else header
        names, first = rows[0] if has_header else None, sample[0][0] + has_header
        table = cls(path, block.content, separator, names, first, len(rows[0]), block.comments, block.before)
        kind = {"\t": "tabs", SPACES: "white space"}.get(separator, f"{separator!r}")
        log.info("%s: separated by %s, %s header line, %d columns", path, kind, "a" if names else "no", table.columns)
        return table

    def continued(self, block: Block) -> Table:
        """The rows of a later block of the same file."""
        comments = self.comments + block.comments
        return replace(self, content=block.content, first=0, comments=comments, before=block.before)

    def column(self, words: Sequence[str], default: int | None) -> int | None:
        """The column with the first of these names that occurs, or the default."""
        place = column_named(words, self.header or ())
        return default if place is None else place

    def names(self, places: Sequence[int]) -> list[str]:
        """The names of columns, which must differ."""
        names = [(self.header or [])[place] for place in places]
        name, count = max(Counter(names).items(), key=lambda item: item[1], default=("", 0))
        if count > 1:
            raise DataError.at(self.path, f"two columns are called {name!r}: rename one of them")
        return names

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Line number (from 1) and fields of every row of data."""
        for number, line in _lines(self.content):
            if number >= self.first and line.strip():
                number += self.before
                yield number + 1, row_of(self.path, number, line, self.separator)

    def line(self, row: int) -> int:
        """The line number (from 1) of a row of data, counted from 0."""
        return next(number for place, (number, _) in enumerate(self.rows()) if place == row)

    @property
    def unnamed(self) -> bool:
        """Whether the first column has no name, like an index written by ``DataFrame.to_csv()``."""
        return self.header is not None and is_unnamed(self.header[0])

    def counts_rows(self) -> bool:
        """Whether the first column is 0, 1, 2, ..."""
        return _counts(self.read((0,))[0], 0)

    def skip_index(self, fix: str, start: int = 0) -> int:
        """Warn that the unnamed first column is skipped; refuse it if it does not count the rows from ``start``.

        Returns the number of rows.
        """
        column = self.read((0,))[0]
        if not _counts(column, start):
            what = "the first column has no name and is not a row number 0, 1, 2, ..."
            raise DataError.at(self.path, f"{what}: {fix}, or leave it out (DataFrame.to_csv(..., index=False))")
        if start == 0:
            log.warning("%s: the unnamed first column counts the rows and is skipped", self.path)
        return len(column)

    def ignored(self, used: set[int]) -> list[str]:
        """Unused parts of the file, for the summary."""
        names = self.header or []
        parts = [f"column {name!r}" if name else f"column {place + 1}" for place, name in enumerate(names)]
        parts = [part for place, part in enumerate(parts) if place not in used]
        if self.comments:
            parts.append(f"{self.comments:,} comment line{'s' if self.comments > 1 else ''}")
        return [f"{part} of {self.path.name}" for part in parts]

    def read(
        self, ids: tuple[int, ...], numbers: tuple[int, ...] = (), classes: tuple[int, ...] = (), text: bool = False
    ) -> dict[int, np.ndarray]:
        """Arrays by column index.

        Parameters
        ----------
        ids : tuple of int
            Columns of node ids, int64 if all are plain whole numbers, else text; no empty fields.
        numbers : tuple of int, optional
            Columns of finite numbers, float64.
        classes : tuple of int, optional
            Columns of text that may be empty.
        text : bool, default False
            Read ids as text even if all are whole numbers.
        """
        kinds: dict[int, Any] = {**dict.fromkeys(ids, "str"), **dict.fromkeys(numbers, "float64")}
        if not text and self._plain_whole_numbers(ids):
            try:
                return self._finish(self._parse({**kinds, **dict.fromkeys(ids, "int64")}), ids, numbers, classes)
            except (ValueError, OverflowError):
                pass                        # text ids further down, or an error: read again
        try:
            return self._finish(self._parse(kinds), ids, numbers, classes)
        except pd.errors.EmptyDataError:
            raise DataError.at(self.path, "there are no rows below the header") from None
        except (ValueError, OverflowError) as error:
            raise self._trouble(ids, numbers, error) from None

    def _plain_whole_numbers(self, ids: tuple[int, ...]) -> bool:
        """Whether the first ids are numbers such as 7 and -7, and none is 007 or +7, which as a number would be 7."""
        for (_, fields), _ in zip(self.rows(), range(SAMPLE), strict=False):
            if not all(place < len(fields) and re.fullmatch(r"-?\d+", fields[place]) for place in ids):
                return False
        separator = b"" if self.separator == SPACES else re.escape(self.separator.encode())
        if not re.search(rb'(?:^|[\s,;"' + separator + rb"])(?:\+|-?0\d)", self.content):
            return True
        try:
            frame = self._parse({})                     # rare: other columns may have such numbers, too
        except ValueError:
            return True                                 # reading the columns names the problem
        return all(bool(frame[place].str.strip().str.fullmatch(r"-?(0|[1-9]\d*)").all()) for place in ids)

    def _parse(self, kinds: dict[int, Any]) -> pd.DataFrame:
        with np.errstate(invalid="ignore"):             # an infinite id: pandas converts it, compares, and refuses it
            return pd.read_csv(
                io.BytesIO(self.content),
                sep=self.separator,
                header=None,
                skiprows=self.first,
                dtype={place: kinds.get(place, "str") for place in range(self.columns)},
                keep_default_na=False,
                na_values=[],
                skipinitialspace=True,
                quoting=csv.QUOTE_NONE if self.separator == SPACES else csv.QUOTE_MINIMAL,
                encoding="utf-8",
            )

    def _finish(
        self, frame: pd.DataFrame, ids: tuple[int, ...], numbers: tuple[int, ...], classes: tuple[int, ...]
    ) -> dict[int, np.ndarray]:
        """Arrays by column; a ValueError if an id is empty or a number is not finite."""
        arrays = {}
        if frame.shape[1] != self.columns:
            raise ValueError("ragged rows")
        for place in (*ids, *classes):
            if frame[place].dtype == np.int64:
                arrays[place] = frame[place].to_numpy()
                continue
            arrays[place] = frame[place].str.strip().to_numpy(dtype=object)
            if place in ids and (arrays[place] == "").any():
                raise ValueError("an empty field")
        for place in numbers:
            arrays[place] = frame[place].to_numpy()
            if not np.isfinite(arrays[place]).all():
                raise ValueError("a number that is not finite")
        return arrays

    def _trouble(self, ids: tuple[int, ...], numbers: tuple[int, ...], error: Exception) -> DataError:
        """An error that names the first invalid line."""
        for number, fields in self.rows():
            if len(fields) != self.columns:
                return DataError.at(self.path, f"{len(fields)} fields instead of {self.columns}", number)
            for place in (*ids, *numbers):
                if fields[place] == "":
                    return DataError.at(self.path, f"field {place + 1} is empty", number)
                if place in numbers and not is_number(fields[place]):
                    return DataError.at(self.path, f"{fields[place][:40]!r} is not a finite number", number)
        return DataError.at(self.path, f"cannot be read ({error})")


def _lines(content: bytes, limit: int | None = None) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(io.BytesIO(content)):
        if number == limit:
            return
        yield number, line.decode("utf-8").rstrip("\r\n")


def _counts(column: np.ndarray, start: int) -> bool:
    """Whether a column counts from ``start``; it is text if another column has ids such as 007."""
    expected = np.arange(start, start + len(column))
    return np.array_equal(column, expected if column.dtype == np.int64 else expected.astype(str))


def shown(value: object) -> str:
    """An id as the user wrote it."""
    return repr(value.item() if isinstance(value, np.generic) else value)


def refuse_repeated(ids: np.ndarray, path: Path) -> None:
    """Raise if a node id occurs twice."""
    repeated = pd.Series(ids).duplicated()
    if repeated.any():
        raise DataError.at(path, f"node {shown(ids[int(repeated.argmax())])} has more than one row")
