"""Edge lists in text: a line per edge, two node ids and, optionally, a weight.

The file is read in blocks, so that besides the edges only one block of text is in memory.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from jbpool.data.edges import EdgeBlocks, EdgeList, require_edge_memory
from jbpool.data.text import (
    SOURCE_WORDS,
    SPACES,
    TARGET_WORDS,
    WEIGHT_WORDS,
    Block,
    Table,
    is_unnamed,
    names_ends,
    nothing_in,
    read_blocks,
)
from jbpool.errors import DataError

NAME_COLUMNS = "call the columns source and target"

log = logging.getLogger(__name__)


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
    if separator:
        separator = _one_character(separator)
    try:
        return _read(path, separator or None, header, text=False)
    except _TextIdError:
        return _read(path, separator or None, header, text=True)


class _TextIdError(Exception):
    """A text id after blocks in which all ids are numbers."""


def _read(path: Path, separator: str | None, header: bool | None, text: bool) -> EdgeList:
    edges, table, comments = EdgeBlocks(path), None, 0
    for block in _without_attributes(path, read_blocks(path)):
        if not block.content.strip():
            comments += block.comments
            continue
        if table is None:
            table = Table.parse(path, block, separator, header)
            columns = source, target, weight = _columns(table)
            counted = table.unnamed and not names_ends(table.header or ())
        else:
            table = table.continued(block)
            if counted:
                table.skip_index(NAME_COLUMNS, edges.count)
        arrays = table.read((source, target), () if weight is None else (weight,), text=text)
        if arrays[source].dtype.kind == "O" and not text:
            if edges.count:
                raise _TextIdError
            text = True
        if weight is not None and (arrays[weight] < 0).any():
            row = int(np.argmax(arrays[weight] < 0))
            raise DataError.at(path, f"weight {arrays[weight][row]:g} is negative", table.line(row))
        if edges.count == 0:
            require_edge_memory(path, int(len(arrays[source]) / block.share))
        edges.add(arrays[source], arrays[target], None if weight is None else arrays[weight])
    if table is None:
        raise DataError.at(path, nothing_in(comments))
    table = replace(table, comments=table.comments + comments)
    listed = edges.finish(*_meaning(table, columns))
    if header is None and table.header is None:
        _mention_odd_first_line(path, listed)
    return listed


def _meaning(table: Table, columns: tuple[int, int, int | None]) -> tuple[str | None, list[str]]:
    """Where the weights come from, and what of the file is not used, for messages."""
    weight, used = columns[2], {place for place in columns if place is not None}
    weight_name = None
    if weight is not None:
        weight_name = f"column {table.header[weight]!r}" if table.header else "the third column"
    others = [name for place, name in enumerate(table.header or ()) if place not in used and not is_unnamed(name)]
    if weight is None and others:
        warn_of_other_columns(table.path, others)
    return weight_name, table.ignored(used)


def warn_of_other_columns(path: Path, names: list[str]) -> None:
    """Say that none of these columns is taken for the weight."""
    log.warning("%s: columns %s are not used; edge weights are read from a column called weight", path, names)


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
        table.skip_index(NAME_COLUMNS)
        free.remove(0)
    too_many = table.header is None and table.columns > 3
    if too_many or len(free) < (source is None) + (target is None):
        expected = "source, target and optionally weight (more columns need a header line that names them)"
        line = table.before + table.first + 1
        raise DataError.at(table.path, f"{table.columns} columns: expected {expected}", line)
    source = free.pop(0) if source is None else source
    target = free.pop(0) if target is None else target
    return source, target, weight


# As networkx.write_edgelist writes the attributes of an edge.
_ATTRIBUTES = re.compile(rb"(?m)^([^\n{]+)\{([^\n]*)\}[ \t]*$")
_WEIGHT = re.compile(rb"""\s*(['"])weight\1\s*:\s*([-+.\w]+)\s*""")
_SEPARATORS = b" \t,;"


def _without_attributes(path: Path, blocks: Iterator[Block]) -> Iterator[Block]:
    """``0 1 {}`` as ``0 1``, and ``0 1 {'weight': 2.0}`` as ``0 1 2.0``; other attributes are refused.

    Whether a file has attributes is detected from its first line.
    """
    has_attributes = None
    for block in blocks:
        first = re.search(rb"\S[^\n]*", block.content)
        if has_attributes is None and first:
            line = _ATTRIBUTES.fullmatch(first[0])
            has_attributes = bool(line and re.search(rb"[ \t,;]", line[1].strip(_SEPARATORS)))     # two ids before them
        yield replace(block, content=_plain(path, block)) if has_attributes else block


def _plain(path: Path, block: Block) -> bytes:
    def plain(line: re.Match) -> bytes:
        before, attributes = line[1].rstrip(_SEPARATORS), line[2].strip()
        weight = _WEIGHT.fullmatch(attributes)
        if attributes and not weight:
            number = block.before + block.content.count(b"\n", 0, line.start()) + 1
            cure = "only {} and {'weight': number} are read; write the file with networkx.write_weighted_edgelist"
            raise DataError.at(path, f"edge attributes {line[0][len(line[1]) :].decode()[:60]}: {cure}", number)
        return line[1] + weight[2] if weight else before

    return _ATTRIBUTES.sub(plain, block.content)


def _mention_odd_first_line(path: Path, edges: EdgeList) -> None:
    """Two names that no other line has may well be a header."""
    if edges.names is None:
        return
    ends = edges.source[0], edges.target[0]
    if sum(int((side == end).sum()) for side in (edges.source, edges.target) for end in ends) == 2:
        edge = f"{edges.names[ends[0]]} to {edges.names[ends[1]]}"
        log.warning("%s: the first line is read as an edge, %s; if it is a header, set dataset.header=true", path, edge)
