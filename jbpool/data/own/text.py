"""Text with a row per line and fields in it: unpacked, cleaned, and what separates the fields.

Lines end in LF, CRLF or CR; those that start with ``#`` or ``%`` are comments. The separator is a tab if there is one,
else comma or semicolon, whichever gives more fields, else white space.
"""

from __future__ import annotations

import csv
import gzip
import io
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jbpool.data.parts import WHOLE, Part
from jbpool.errors import DataError, reported_as

if TYPE_CHECKING:
    import pandas as pd  # imported where it is used: matrices and graphs do without

SPACES = r"\s+"
SPREADSHEET = "is a spreadsheet or an archive, not text: save the table as CSV UTF-8"
JSON = (
    "is JSON, which has no one layout for graphs: load it in Python and save the edges as a table, "
    "pandas.DataFrame(edges, columns=['source', 'target']).to_csv('edges.csv', index=False)"
)
TO_UTF_8 = "save it as UTF-8, e.g. iconv -f {} -t UTF-8 old.csv > new.csv"
FOREIGN = {                             # how files that are no tables begin
    rb"\xff\xfe|\xfe\xff": f"is UTF-16 text: {TO_UTF_8.format('UTF-16')}",
    rb"PK\x03\x04|\xd0\xcf\x11\xe0": SPREADSHEET,                            # .xlsx, .ods and .zip; .xls
    rb"\s*(\{\s*\"|\[\s*[\[{])": JSON,
    rb"(?i)\s*<(!|\?|html|graphml|gexf)": "is a web page or XML, not a table: download the file itself, or name it "
    ".graphml or .gexf if it is that",
    rb"%%MatrixMarket": "is of Matrix Market: scipy.sparse.save_npz('edges.npz', scipy.io.mmread(FILE)) saves it",
    rb"(?i)\s*\*(vertices|network)": "is of Pajek: networkx.write_gexf(networkx.read_pajek(FILE), 'edges.gexf') "
    "saves it",
}  # fmt: skip


@dataclass(frozen=True)
class Text:
    """What a table was read from, if it is text."""

    content: bytes                  # the rows and blank lines: comments and the header are blank
    separator: str
    comments: int                   # lines left out
    first: int = 1                  # number of the first line

    def rows(self) -> Iterator[tuple[int, str]]:
        """Yield line number and text of every line that is not blank."""
        return ((number, line.decode("utf-8").rstrip("\n"))
                for number, line in enumerate(io.BytesIO(self.content), self.first) if line.strip())  # fmt: skip

    def without_first_row(self) -> Text:
        """Return the text below a header; the numbers of the lines stay."""
        return replace(self, content=re.sub(rb"[^\n]*\S[^\n]*", b"", self.content, count=1))

    def parsed(self, columns: int = 0, **more: Any) -> pd.DataFrame:
        """Return the columns, of numbers or of text as pandas infers them from all rows; a part may have no rows."""
        import pandas as pd

        if columns and not self.content.strip():        # which pandas refuses
            return pd.DataFrame(dict.fromkeys(range(columns), pd.Series([], dtype=str)))
        with np.errstate(invalid="ignore"):             # an infinite id: pandas converts it, compares, and refuses it
            return pd.read_csv(
                io.BytesIO(self.content), sep=self.separator, header=None, na_filter=False,
                skipinitialspace=True, encoding="utf-8", low_memory=False,
                quoting=csv.QUOTE_NONE if self.separator == SPACES else csv.QUOTE_MINIMAL, **more,
            )  # fmt: skip

    def ragged(self, source: Path | str, columns: int, last: int | None = None) -> DataError | None:
        """Return the error for the first line with another number of fields, up to the last, if there is one."""
        for number, line in self.rows():
            count = len(fields(source, number, line, self.separator))
            if count != columns:
                fix = f"separated by {called(self.separator)}; dataset.separator names another one"
                return DataError.at(source, f"{count} field{'s' * (count != 1)} instead of {columns}, {fix}", number)
            if number == last:
                break
        return None

    def has_odd_numbers(self) -> bool:
        """Return whether there may be numbers such as 007 and +7, which as ids are not 7."""
        before = b' \t\n,;"' + (b"" if self.separator == SPACES else self.separator.encode())
        fields = b"\n" + self.content.translate(bytes.maketrans(before + b"23456789", b"\n" * len(before) + b"1" * 8))
        return any(b"\n" + start in fields for start in (b"00", b"01", b"-00", b"-01", b"+"))


def unpacked(path: Path, part: Part = WHOLE) -> bytes:
    """Return the content of a file, unpacked if it is gzip, whatever its name, or the lines that begin in a part."""
    with reported_as(path, "cannot be read"), open(path, "rb") as packed:
        file = gzip.GzipFile(fileobj=packed) if packed.peek(2).startswith(b"\x1f\x8b") else packed
        if part.processes == 1:
            return file.read()
        ends = part.of(file.seek(0, os.SEEK_END))
        places = [_next_line(file, end) for end in (ends.start, ends.stop)]
        file.seek(places[0])
        return file.read(places[1] - places[0])


def _next_line(file: Any, place: int) -> int:
    """Return where the first line begins that begins at a place or later."""
    file.seek(max(place - 1, 0))
    file.readline()
    return file.tell() if place else 0


def cleaned(path: Path, content: bytes, first: int) -> tuple[bytes, int]:
    """Return UTF-8 with LF, comments blanked out, and how many there were; ``first``: number of the first line."""
    content = content.removeprefix(b"\xef\xbb\xbf")
    foreign = next((fix for start, fix in FOREIGN.items() if re.match(start, content)), None)
    if foreign and first == 1:
        raise DataError.at(path, foreign)
    if b"\r" in content:
        content = content.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if first == 1:
        content = re.sub(rb'\A"?sep=.?"?[ \t]*\n', b"\n", content)           # a note for Excel
    place, problem = content.find(b"\0"), "contains a zero byte: not text, or not in UTF-8; save it as UTF-8"
    try:
        if not content.isascii():
            content.decode("utf-8")
    except UnicodeDecodeError as error:
        place, problem = error.start, f"not UTF-8 text ({error.reason}): {TO_UTF_8.format('LATIN1')}"
    if place >= 0:
        raise DataError.at(path, problem, content.count(b"\n", 0, place) + first)
    if b"#" in content or b"%" in content:
        return re.subn(rb"(?m)^[ \t]*[#%][^\n]*", b"", content)
    return content, 0


def without_attributes(path: Path, content: bytes, first: int) -> bytes:
    """Turn ``0 1 {}``, as networkx.write_edgelist writes it, into ``0 1``, ``0 1 {'weight': 2.0}`` into ``0 1 2.0``."""
    content = re.sub(rb"(?m)[ \t,;]+\{\}[ \t]*$", b"", content)
    content = re.sub(rb"(?m)\{'weight': ([-+.\w]+)\}[ \t]*$", rb"\1", content)
    other = re.search(rb"(?m)(?<=[ \t,;])\{'[^\n]*\}[ \t]*$", content)
    if other:
        fix = "only {} and {'weight': number} are read; write the file with networkx.write_weighted_edgelist"
        line = content.count(b"\n", 0, other.start()) + first
        raise DataError.at(path, f"edge attributes {other[0].decode()[:60]}: {fix}", line)
    return content


def separator_of(path: Path, sample: list[tuple[int, str]]) -> str:
    """Return what separates the fields of the first rows."""
    if any("\t" in line.strip() for _, line in sample):
        return "\t"
    counts = {mark: len(fields(path, *sample[0], mark)) for mark in (";", ",")}        # a tie: decimal commas
    best = max(counts, key=lambda mark: counts[mark])
    return best if counts[best] > 1 else SPACES


def fields(source: Path | str, number: int, line: str, separator: str) -> list[str]:
    if separator == SPACES:
        return line.split() or [line]           # separators of Unicode alone, which do not make a line blank
    try:
        return [field.strip() for field in next(csv.reader([line], delimiter=separator, skipinitialspace=True))]
    except csv.Error as error:
        raise DataError.at(source, f"cannot be read ({error})", number) from None


def called(separator: str) -> str:
    """Return a separator, for messages."""
    return {"\t": "tabs", SPACES: "white space"}.get(separator, f"{separator!r}")
