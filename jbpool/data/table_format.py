"""The format of text tables: separator, header, and what columns are called.

It is detected from the first rows; callers can override it:

- the separator is a tab if there is one, else comma or semicolon, whichever gives more fields, else white space;
- the first row is a header if its first field is empty or a name such as ``id``, if it names a source and a target, or
  if it is text above columns of numbers, where the first column may be text ids; in features and labels, another field
  may be called ``id``, too.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from jbpool.errors import DataError

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
