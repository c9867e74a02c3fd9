"""Edges in any form, and those of lists: which nodes they join, and with which weights.

A list (text, Parquet, DataFrame, tuples, array) has the nodes that occur in it, sorted by their ids; matrices and
graphs list their nodes, too.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse

from jbpool.data.arrays import array_names, narrow, open_npy, read_arrays
from jbpool.data.assemble import check_weights, narrow_weights
from jbpool.data.own.headers import WEIGHT_WORDS, ends_named, is_unnamed
from jbpool.data.own.tables import Table, of_one_kind, places, shown
from jbpool.data.own.text import SPACES
from jbpool.data.parts import WHOLE, Names, Part
from jbpool.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

LONELY = 0.05           # share of the lines whose two names occur nowhere else, up to which the first one is a header

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Edges:
    """Edges between nodes, as a form lists them."""

    origin: Path | str                      # the file, or what the form is, for messages
    source: np.ndarray                      # (E,) int32 or int64: numbers of nodes
    target: np.ndarray                      # (E,)
    weight: np.ndarray | None               # (E,) float32
    num_nodes: int
    ids: np.ndarray | None                  # (N,) numbers, text or other objects; None: 0 .. N-1
    weight_name: str | None = None          # where the weights come from, for messages
    both: bool | None = None                # whether both directions of every edge are there; None: to be seen
    header: str | None = None               # a first line that was taken for a header
    columns: str | None = None              # which columns of a table name the nodes, if their names do not say so
    in_order: bool = False                  # whether row i of an array belongs to node i, whatever its id
    ignored: Sequence[str] = ()             # what is not used, for messages
    nodes: Table | None = None              # ids and attributes of the nodes of a graph in a file
    feat: Any = None                        # features that the graph holds
    label: np.ndarray | None = None         # (N,) classes that the graph holds
    place: np.ndarray | None = None         # (N, 2) where the nodes are, in space
    sample: np.ndarray | None = None        # (N,) which sample a node is of
    part: Part = WHOLE                      # which edges these are; nodes are those that occur in them

    @property
    def own_ids(self) -> np.ndarray:
        """The ids of the nodes, else 0 .. N-1."""
        return np.arange(self.num_nodes) if self.ids is None else self.ids

    def onto(self, ids: np.ndarray) -> Edges:
        """Return the same edges between these nodes, which hold all nodes that have edges."""
        if self.ids is None or np.array_equal(self.ids, ids):
            return replace(self, num_nodes=len(ids))
        place = narrow(places(ids, self.ids))
        return replace(self, source=place[self.source], target=place[self.target], num_nodes=len(ids), ids=ids)

    def attributes(self, option: str, value: str | Path) -> Table | None:
        """Return a table of the ids and the node attributes that an option names; ``None`` if it names a file."""
        if self.nodes is None or Path(value).is_file():
            return None
        (key, *present), chosen = self.nodes.header or ("",), [name.strip() for name in str(value).split(",")]
        for name in chosen:
            if name not in present:
                has = ", ".join(present) or "none"
                problem = f"no such file, and no node attribute {name!r}; the nodes have {has}"
                raise DataError.at(self.origin, f"dataset.{option}={value}: {problem}")
        columns = self.nodes.frame[[0, *(1 + present.index(name) for name in chosen)]]
        for name, (_, values) in zip(chosen, [*columns.items()][1:], strict=True):
            if values.dtype == object and not values.map(lambda value: value is None or np.isscalar(value)).all():
                raise DataError.at(self.origin, f"the node attribute {name!r} is not a number or a word per node")
        return Table(self.origin, columns.set_axis(range(columns.shape[1]), axis=1), [key, *chosen])


def table_of_nodes(origin: Path | str, ids: np.ndarray, attributes: pd.DataFrame) -> Table:
    """Return a table of the ids and the attributes of nodes."""
    import pandas as pd

    columns = [pd.Series(ids), *(values for _, values in attributes.reset_index(drop=True).items())]
    return Table(origin, pd.concat(columns, axis=1, keys=range(len(columns))), ["id", *map(str, attributes.columns)])


def edges_of_graph(
    what: str, ends: Any, weight: np.ndarray | None, num_nodes: int, ids: np.ndarray | None, weight_name: str,
    fix: str, **more: Any,
) -> Edges:  # fmt: skip
    """Return the edges of a graph or matrix in memory, ``ends`` ``(2, E)``; ``more``: fields of ``Edges``.

    With a ``fix``, edges without their reverse are refused: whether to drop directions is the user's choice.
    """
    source, target = ends
    check_weights(weight, what)
    if fix:
        values = np.ones(len(source)) if weight is None else weight
        matrix = scipy.sparse.coo_matrix((values, (source, target)), shape=(num_nodes, num_nodes)).tocsr()
        gap = (matrix - matrix.T).tocoo()
        if gap.nnz and gap.max() > 1e-6 * matrix.max():                     # not by rounding
            row, column = int(gap.row[gap.data.argmax()]), int(gap.col[gap.data.argmax()])
            one, other = (shown(end if ids is None else ids[end]) for end in (row, column))
            raise DataError(
                f"{what} is not symmetric: the edge {one} -> {other} has weight {matrix[row, column]:g}, {other} -> "
                f"{one} has {matrix[column, row]:g}. For an undirected graph pass {fix}."
            )
    return Edges(
        what, source, target, None if weight is None else narrow_weights(weight), num_nodes, ids,
        None if weight is None else weight_name, both=bool(fix), in_order=True, **more,
    )  # fmt: skip


def list_of_table(
    table: Table, header: bool | None = None, weight: str | None = None, from_zero: bool = False
) -> Edges:
    """Return the edges of a table.

    With a header, source, target and weight are found by name; if there is no such name for source or target, the first
    free columns are used. Without a header, the third of three columns is the weight. ``weight`` is the name or number
    of another column.
    """
    source, target, place = columns = _columns(table, weight)
    part = table.part
    if part.all(table.frame.empty):
        raise table.error("has no edges")
    if table.unnamed and 0 not in columns and None in ends_named(table.header or ()):
        table.skip_index()
    ends, listed, weight_name = [table.ids(source), table.ids(target)], None, None
    for end in ends if from_zero else ():
        table.refuse(end < 0, "a node id is negative: arrays number nodes from 0")
    if place is not None:
        is_header = "; dataset.header=true says that line 1 is a header" if table.text and not table.header else ""
        values = table.numbers(place, f": weights are numbers; {_naming(table.source)}{is_header}")
        table.refuse(values < 0, lambda row: f"weight {values[row]:g} is negative: drop or clip these edges")
        listed = narrow_weights(values)
        weight_name = repr(table.header[place]) if table.header else f"column {place + 1}"
    unused = [name for place, name in enumerate(table.header or ()) if place not in columns and not is_unnamed(name)]
    if listed is None and unused:
        log.warning("%s: columns %s are not used; %s", table.source, unused, _naming(table.source))
    ends = [*of_one_kind(*ends)]
    ids, (one, other) = _numbered(*ends)
    first = None
    if table.text is not None and header is None:
        if table.header is None and listed is None:
            first = _odd_first_line(part, ids, one, other)
            if first is not None:
                skipped = int(part.before(len(one)) == 0)
                ids, (one, other) = _numbered(*(end[skipped:] for end in ends))
        elif table.header is not None and None in ends_named(table.header):
            first = ",".join(table.header)
    return Edges(
        table.source, one, other, listed, len(ids), ids, weight_name, header=first,
        columns=_named_columns(table, (source, target), ids, one, other), ignored=table.ignored(columns), part=part,
    )  # fmt: skip


def _named_columns(
    table: Table, chosen: tuple[int, int], ids: np.ndarray, one: np.ndarray, other: np.ndarray
) -> str | None:
    """Return which columns were taken for the ends of the edges, if they are not called so, and what they share."""
    if table.header is None or None not in ends_named(table.header):
        return None
    names = " and ".join(repr(table.header[place]) for place in chosen)
    _, shared = sides(Names(table.part, ids), one, other)
    return f"{names}, {shared:,} of them in both" if shared else names


def sides(names: Names, source: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, int]:
    """Return which of the names that this process keeps are sources, and how many of all names are both."""
    is_source, is_target = (names.summed(occurs(end, len(names.numbers))) > 0 for end in (source, target))
    return is_source, names.part.total(int((is_source & is_target).sum()))[0]


def _naming(origin: Path | str) -> str:
    """Return how to name the column of the weights, for messages."""
    how = ", or the one that --weight COLUMN (dataset.weight) names" if isinstance(origin, Path) else ""
    return f"edge weights are read from a column called weight{how}"


def _columns(table: Table, named: str | None) -> tuple[int, int, int | None]:
    """Return the places of source, target and weight."""
    source, target = ends_named(table.header or ())
    weight = table.column(WEIGHT_WORDS, 2 if table.header is None and table.columns == 3 else None)
    if named is not None:
        weight = table.column([named.strip().lower()])
        if weight is None and named.isdigit() and 1 <= int(named) <= table.columns:
            weight = int(named) - 1
        if weight is None:
            has = f"the header has {', '.join(map(repr, table.header))}" if table.header else "there is no header"
            raise table.error(f"no column is called {named!r}; {has}: give the name of a column, or its number from 1")
    free = [place for place in range(table.columns) if place not in (source, target, weight)]
    if table.unnamed and None in (source, target):
        free.remove(0)
    guessed = table.header is None and named is None
    if (guessed and table.columns > 3) or len(free) < (source is None) + (target is None):
        expected = "source, target and optionally weight (more columns need a header line that names them)"
        fix = "; dataset.separator names what separates them" if table.columns == 1 and table.text is not None else ""
        raise table.error(f"{table.columns} columns: expected {expected}{fix}", 0)
    source = free.pop(0) if source is None else source
    target = free.pop(0) if target is None else target
    return source, target, weight


def _numbered(*ends: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return the ids that occur, sorted, and the number of each end in them."""
    import pandas as pd

    if not len(ends[0]):                                # of a part
        return np.concatenate(ends), [np.zeros(0, dtype=np.int32)] * 2
    if all(end.dtype.kind in "iu" for end in ends):
        low, high = min(end.min() for end in ends), max(end.max() for end in ends)
        if low < 0 or high >= 2 * len(ends[0]) + (1 << 20):             # too far apart for a table of all numbers
            ids = np.sort(pd.unique(np.concatenate(ends))).astype(np.int64)
            return ids, [narrow(pd.Index(ids).get_indexer(end)) for end in ends]
        present = occurs(ends[0], high + 1) | occurs(ends[1], high + 1)
        if present.all():
            return np.arange(high + 1), [narrow(end) for end in ends]
        place = narrow(np.cumsum(present) - 1)
        return np.flatnonzero(present), [place[end] for end in ends]
    codes, ids = pd.factorize(np.concatenate([end.astype(object) for end in ends]))
    mixed = pd.api.types.infer_dtype(ids).startswith("mixed")            # numbers and text have no order
    order = np.array(sorted(range(len(ids)), key=lambda code: str(ids[code])) if mixed else np.argsort(ids))
    rank = np.empty(len(ids), dtype=np.int32)
    rank[order] = np.arange(len(ids))
    return ids[order], np.split(rank[codes], 2)


def occurs(numbers: np.ndarray, count: int) -> np.ndarray:
    """Return which of the numbers 0 .. count - 1 occur."""
    present = np.zeros(count, dtype=bool)
    present[numbers] = True
    return present


def one_character(separator: str) -> str:
    """Return the user's separator; ``tab`` is easier to type on a command line than a tab."""
    separator = {"\\t": "\t", "tab": "\t", " ": SPACES}.get(separator, separator)
    if separator != SPACES and (len(separator) != 1 or not separator.isascii() or separator in '"\r\n'):
        fix = "it should be one character such as , or ; or | or the word tab (replace longer separators in the file)"
        raise DataError(f"dataset.separator={separator!r}: {fix}")
    return separator


def _odd_first_line(part: Part, ids: np.ndarray, source: np.ndarray, target: np.ndarray) -> str | None:
    """Return the first line if its two names occur nowhere else, as those of few others: it is a header."""
    if ids.dtype != object:
        return None
    names = Names(part, ids)
    ends = np.bincount(source, minlength=len(ids)) + np.bincount(target, minlength=len(ids))
    once = names.told(names.summed(ends) == 1)
    lonely = once[source] & once[target]
    first = f"{ids[source[0]]},{ids[target[0]]}" if lonely[:1].any() else None
    counts, odd, firsts = zip(*part.gather((len(lonely), int(lonely.sum()), first)), strict=True)
    few = sum(counts) > 1 and sum(odd) <= max(1, LONELY * sum(counts))
    return next(line for line, count in zip(firsts, counts, strict=True) if count) if few else None


def list_of_arrays(path: Path, weight: str | None = None, part: Part = WHOLE) -> Edges:
    """Return the edges of a ``.npy``, or of the arrays ``source`` and ``target`` of a ``.npz``, or a part of them."""
    import pandas as pd

    if path.suffix.lower() == ".npy":
        pairs = open_npy(path)
        if pairs.ndim != 2 or pairs.shape[1] != 2:
            raise DataError.at(path, f"array of shape {pairs.shape}: (E, 2) expected, source and target of each edge")
        rows = pairs[part.of(len(pairs))]
        names, arrays = ["source", "target"], [rows[:, 0], rows[:, 1]]
    else:
        names = array_names(path)
        if not {"source", "target"} <= set(names):
            layout = "; dataset.name=npz dataset.path=FILE reads this layout" if "adj_indptr" in names else ""
            expected = "source and target expected, and optionally weight"
            raise DataError.at(path, f"has the arrays {names}: {expected}{layout}")
        used = [name for name in ("source", "target", weight or "", *WEIGHT_WORDS) if name in names]
        arrays = [*read_arrays(path, used, part).values()]
        names = [*used, *(name for name in names if name not in used)]
    for name, array in zip(names, arrays, strict=False):
        if array.ndim != 1 or array.shape != arrays[0].shape:
            raise DataError.at(path, f"{name} has shape {array.shape}: one number per edge expected")
        if name in ("source", "target") and array.dtype.kind not in "iu":
            raise DataError.at(path, f"{name} holds {array.dtype}: node ids must be whole numbers")
    native = (array.astype(array.dtype.newbyteorder("="), copy=False) for array in arrays)
    frame = pd.DataFrame(dict(enumerate(native)), copy=False)
    return list_of_table(Table(path, frame, names, part=part), weight=weight, from_zero=True)
