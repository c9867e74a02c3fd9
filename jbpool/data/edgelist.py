"""Edge lists: one line per edge with two node ids and optionally a weight."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from jbpool.data.text import SOURCE_WORDS, SPACES, TARGET_WORDS, WEIGHT_WORDS, Table, is_unnamed, read_text
from jbpool.errors import DataError

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class EdgeList:
    """The edges of a file, in its own node ids."""

    source: np.ndarray              # (E,) int64 or text
    target: np.ndarray              # (E,)
    weight: np.ndarray | None       # (E,)
    weight_name: str | None         # origin of the weights, for the summary
    ignored: list[str]              # unused parts of the file, for the summary


def read_edge_list(path: Path, separator: str | None = None, header: bool | None = None) -> EdgeList:
    """The edges of a text file.

    With a header, source, target and weight are found by name; if there is no such name for source or target, the first
    free columns are used. A weight must have a name. Without a header, the third of three columns is the weight.

    Parameters
    ----------
    path : Path
        The file.
    separator : str, optional
        One character, or ``tab``. Default: detected.
    header : bool, optional
        Whether the first line is a header. Default: detected.
    """
    content, comments = read_text(path)
    content = _without_attributes(path, content)
    table = Table.parse(path, content, comments, None if not separator else _one_character(separator), header)
    source, target, weight = _columns(table)
    arrays = table.read((source, target), () if weight is None else (weight,))
    if weight is not None and (arrays[weight] < 0).any():
        row = int(np.argmax(arrays[weight] < 0))
        number = next(number for place, (number, _) in enumerate(table.rows()) if place == row)
        raise DataError.at(path, f"weight {arrays[weight][row]:g} is negative", number)
    if header is None and table.header is None:
        _mention_odd_first_line(path, arrays[source], arrays[target])
    weight_name = None
    if weight is not None:
        weight_name = f"column {table.header[weight]!r}" if table.header else "the third column"
    used = {source, target} if weight is None else {source, target, weight}
    others = [name for place, name in enumerate(table.header or ()) if place not in used and not is_unnamed(name)]
    if weight is None and others:
        log.warning("%s: columns %s are not used; edge weights are read from a column called weight", path, others)
    return EdgeList(
        arrays[source], arrays[target], None if weight is None else arrays[weight], weight_name, table.ignored(used)
    )


def _one_character(separator: str) -> str:
    """The user's separator; ``tab`` is easier to type on a command line than a tab."""
    separator = {"\\t": "\t", "tab": "\t", " ": SPACES}.get(separator, separator)
    if separator != SPACES and (len(separator) != 1 or not separator.isascii() or separator in '"\r\n'):
        cure = "it should be one character such as , or ; or | or the word tab (replace longer separators in the file)"
        raise DataError(f"dataset.separator={separator!r}: {cure}")
    return separator


def _columns(table: Table) -> tuple[int, int, int | None]:
    """Column indices of source, target and weight."""
    source, target = table.column(SOURCE_WORDS, None), table.column(TARGET_WORDS, None)
    weight = table.column(WEIGHT_WORDS, None)
    if table.header is None and table.columns == 3:
        weight = 2
    free = [place for place in range(table.columns) if place not in (source, target, weight)]
    if table.unnamed and (source is None or target is None):
        table.skip_index("call the columns source and target")
        free.remove(0)
    too_many = table.header is None and table.columns > 3
    if too_many or len(free) < (source is None) + (target is None):
        expected = "source, target and optionally weight (more columns need a header line that names them)"
        raise DataError.at(table.path, f"{table.columns} columns: expected {expected}", table.first + 1)
    source = free.pop(0) if source is None else source
    target = free.pop(0) if target is None else target
    return source, target, weight


# Edge attributes as written by networkx.write_edgelist.
_ATTRIBUTES = re.compile(rb"(?m)^([^\n{]+)\{([^\n]*)\}[ \t]*$")
_WEIGHT = re.compile(rb"""\s*(['"])weight\1\s*:\s*([-+.\w]+)\s*""")
_SEPARATORS = b" \t,;"


def _without_attributes(path: Path, content: bytes) -> bytes:
    """``0 1 {}`` as ``0 1``, and ``0 1 {'weight': 2.0}`` as ``0 1 2.0``; other attributes are an error."""
    first = re.search(rb"\S[^\n]*", content)
    line = first and _ATTRIBUTES.fullmatch(first[0])
    if not line or not re.search(rb"[ \t,;]", line[1].strip(_SEPARATORS)):             # two ids must come first
        return content

    def plain(line: re.Match) -> bytes:
        before, attributes = line[1].rstrip(_SEPARATORS), line[2].strip()
        weight = _WEIGHT.fullmatch(attributes)
        if attributes and not weight:
            number = content.count(b"\n", 0, line.start()) + 1
            cure = "only {} and {'weight': number} are read; write the file with networkx.write_weighted_edgelist"
            raise DataError.at(path, f"edge attributes {line[0][len(line[1]) :].decode()[:60]}: {cure}", number)
        return line[1] + weight[2] if weight else before

    return _ATTRIBUTES.sub(plain, content)


def _mention_odd_first_line(path: Path, one: np.ndarray, other: np.ndarray) -> None:
    """Warn if the first line may be a header: its two names occur in no other line."""
    ends = (one[0], other[0])
    if one.dtype.kind not in "iu" and sum(int((side == end).sum()) for side in (one, other) for end in ends) == 2:
        edge = f"{ends[0]} to {ends[1]}"
        log.warning("%s: the first line is read as an edge, %s; if it is a header, set dataset.header=true", path, edge)
