"""A table as a data frame: text (CSV, TSV, spaces, ``.gz``), Parquet, or a DataFrame in memory.

The columns of a table are numbered, and found by their names if there is a header. The header (``headers``) and the
separator (``text``) are detected from the first rows; callers can override them.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jbpool.data.own.headers import ID_WORDS, column_named, is_header, is_unnamed
from jbpool.data.own.text import (
    JSON,
    SPACES,
    SPREADSHEET,
    Text,
    called,
    cleaned,
    fields,
    separator_of,
    unpacked,
    without_attributes,
)
from jbpool.data.parts import WHOLE, Names, Part, Route
from jbpool.errors import DataError, importing, reported_as

if TYPE_CHECKING:
    import pandas as pd  # imported where it is used: matrices and graphs do without

PLAIN = r"-?(?:0|[1-9]\d*)"             # a whole number that is written like any other program would write it
SAMPLE = 20                             # rows from which the format of a table is detected
BATCH = 1 << 20                         # rows of a Parquet file that are read together
KINDS = {
    ".npy": "array", ".npz": "array", ".parquet": "parquet", ".pq": "parquet", ".gml": "gml", ".graphml": "graphml",
    ".gexf": "gexf", ".bin": "dgl", ".h5ad": "cells",
}  # fmt: skip
MATRIX = (
    "is a matrix: pandas.read_csv(FILE, index_col=0).rename_axis('source').melt(ignore_index=False, "
    "var_name='target', value_name='weight').query('weight > 0').to_csv('edges.csv') lists its edges"
)
REFUSED = dict.fromkeys((".xlsx", ".xls", ".ods"), SPREADSHEET) | {
    ".json": JSON, ".jsonl": JSON, ".ndjson": JSON,
    ".mat": "is a file of MATLAB: scipy.sparse.save_npz('edges.npz', scipy.io.loadmat(FILE)[NAME]) saves its matrix",
}
log = logging.getLogger(__name__)


def kind_of(path: Path) -> str:
    """Return ``array``, ``parquet``, ``gml``, ``graphml``, ``gexf``, ``dgl``, ``cells``, for other suffixes ``text``.

    What cannot be read is refused with what to do about it.
    """
    suffix = Path(path.name.lower().removesuffix(".gz")).suffix
    if re.match(r"\w{2,}:/", str(path)):
        raise DataError.at(path, "is an address on the web: download the file (curl -LO ADDRESS) and give its path")
    if path.is_dir():
        raise DataError.at(path, "is a folder: give a file in it; many graphs in a folder are for jbpool classify")
    if not path.is_file():
        raise DataError.at(path, "no such file")
    if suffix in REFUSED:
        raise DataError.at(path, REFUSED[suffix])
    return KINDS.get(suffix, "text")


def shown(value: object) -> str:
    """Return an id as the user wrote it."""
    return repr(value.item() if isinstance(value, np.generic) else value)


def of_one_kind(*sides: np.ndarray) -> Sequence[np.ndarray]:
    """Return ids of two columns or tables as text if one side is numbers and the other text: 7 and "7" are one node."""
    import pandas as pd

    if {pd.api.types.infer_dtype(side) for side in sides} == {"integer", "string"}:
        return [np.array([*map(str, side)], dtype=object) for side in sides]
    return sides


def places(ids: np.ndarray, nodes: np.ndarray) -> np.ndarray:
    """Return the row of every node in a table of these ids, -1: none."""
    import pandas as pd

    ids, nodes = of_one_kind(ids, nodes)
    return pd.Index(ids, tupleize_cols=False).get_indexer(pd.Index(nodes, tupleize_cols=False))


def known(part: Part, nodes: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Return which ids are among the nodes of all processes."""
    if part.processes == 1:
        return places(nodes, ids) >= 0
    occurring, (place_of_nodes, place_of_ids) = united(nodes, ids)
    names, is_node = Names(part, occurring), np.zeros(len(occurring), dtype=bool)
    is_node[place_of_nodes] = True
    return names.told(names.summed(is_node) > 0)[place_of_ids]


def united(nodes: np.ndarray, ids: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return the names that occur, numbers or text, sorted, and the place of each; 7 and "7" are one node."""
    sides = [side.astype(np.int64) if side.dtype.kind in "iu" else side for side in (nodes, ids)]
    if sides[0].dtype != sides[1].dtype:
        sides = [np.array([*map(str, side)], dtype=object) for side in sides]
    occurring, place = np.unique(np.concatenate(sides), return_inverse=True)
    return occurring, np.split(place, [len(nodes)])


def to_nodes(part: Part, nodes: np.ndarray, ids: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Send ids with their values to the processes that have these nodes, each of which has a sorted range of them."""
    if part.processes == 1:
        return ids, values
    import pandas as pd

    if nodes.dtype == object != ids.dtype:
        ids = np.array([*map(str, ids)], dtype=object)
    elif ids.dtype == object != nodes.dtype:
        plain = pd.Series(ids, dtype=object).str.fullmatch(PLAIN).to_numpy(dtype=bool)
        ids, values = ids[plain].astype(np.int64), values[plain]
    cuts: list[Any] = []
    for first in reversed(part.gather(nodes[:1])[1:]):          # a process without nodes: where the next one begins
        cuts += [first[0]] if len(first) else cuts[-1:]
    route = Route(part, ids, np.array(cuts[::-1], dtype=nodes.dtype))
    return route.there(ids), route.there(values)


@dataclass(frozen=True)
class Table:
    """Columns 0, 1, 2, ... A column holds numbers if all its fields are numbers, else text."""

    source: Path | str              # the file, or what the table is, for messages
    frame: pd.DataFrame
    header: list[str] | None        # as the user has written it; key words count in any case
    text: Text | None = None
    part: Part = WHOLE             # which rows of the file these are

    @property
    def columns(self) -> int:
        return self.frame.shape[1]

    def error(self, problem: str, row: int | None = None) -> DataError:
        """Return an error, in a row of the table or line of the file; rows of other lengths are mentioned first."""
        if row is None or self.text is None:
            return DataError.at(self.source, problem if row is None else f"row {row + 1}: {problem}")
        line, _ = next(islice(self.text.rows(), row, None))
        return self.text.ragged(self.source, self.columns, line) or DataError.at(self.source, problem, line)

    def refuse(self, bad: Any, problem: str | Callable[[int], str]) -> None:
        """Raise an error for the row of the first True; a function says what is wrong with that row."""
        if bad.any():
            row = int(bad.argmax())
            raise self.error(problem if isinstance(problem, str) else problem(row), row)

    def refuse_repeated(self, ids: np.ndarray) -> None:
        """Raise an error for the row of a node id that has occurred."""
        import pandas as pd

        self.refuse(pd.Series(ids).duplicated().to_numpy(), lambda row: f"node {shown(ids[row])} has more than one row")

    def called(self, place: int) -> str:
        """Return a column, for messages."""
        return f"column {self.header[place]!r}" if self.header and self.header[place] else f"column {place + 1}"

    def column(self, words: Sequence[str], default: int | None = None) -> int | None:
        """Return the column with the first of these names that occurs, or the default."""
        place = column_named(words, self.header or ())
        return default if place is None else place

    def by_node(self, nodes: np.ndarray | None = None) -> tuple[Table, int, list[int]]:
        """Return the table, the place of the node ids, and those of the other columns.

        The ids are in the column that is called so, else in the first, also if it has no name: ``DataFrame.to_csv()``
        writes an index so. The first row is a header if it alone is for none of these nodes.
        """
        named = self.column(ID_WORDS)
        if self.unnamed and named is None and self.counts_rows():
            log.warning("%s: the unnamed first column counts the rows; it is read as the node id", self.source)
        elif self.unnamed and named is not None:
            self.skip_index()
        key = named or 0
        others = [place for place in range(int(key > 0 and self.unnamed), self.columns) if place != key]
        count = len(self.frame)
        if self.text is not None and self.header is None and nodes is not None and self.part.total(count)[0] > 1:
            is_known, has_first = known(self.part, nodes, self.ids(key)), self.part.before(count) == 0 < count
            if self.part.all(is_known[int(has_first) :].all() and not (has_first and is_known[0])):
                text = self.text.without_first_row() if has_first else self.text
                first = [self.words(place)[0] for place in range(self.columns)] if has_first else []
                header = next(filter(None, self.part.gather(first)))
                return _table(self.source, text, header, self.columns, self.part), key, others
        return self, key, others

    def names(self, places: Sequence[int]) -> list[str]:
        """Return the names of columns, which must differ."""
        import pandas as pd

        names = [(self.header or [])[place] for place in places]
        repeated = pd.Series(names, dtype=object).duplicated()
        if repeated.any():
            raise self.error(f"two columns are called {names[repeated.argmax()]!r}: rename one of them")
        return names

    def ids(self, place: int) -> np.ndarray:
        """Return ids: whole numbers, or text or other objects if any of them is not plainly a whole number."""
        import pandas as pd

        column = self.frame[place]
        if self.text is not None:
            is_plain = column.dtype == np.int64 or column.empty
            if is_plain and self.text.has_odd_numbers():
                is_plain = pd.Series(self.words(place)).str.fullmatch(PLAIN).all()
            if self.part.all(is_plain):
                return column.to_numpy(dtype=np.int64)
            text = self.words(place)
            self.refuse(text == "", f"field {place + 1} is empty: give an id, or remove the line")
            return text
        self.refuse(column.isna().to_numpy(), f"{self.called(place)} has missing values: drop these rows")
        is_text = pd.api.types.is_string_dtype(column)
        if is_text or (isinstance(self.source, str) and column.dtype in ("object", "category")):
            return column.to_numpy(dtype=object)                        # in memory any objects
        numbers = column.to_numpy()
        if numbers.dtype.kind == "f" and np.isfinite(numbers).all() and (numbers % 1 == 0).all():
            numbers = numbers.astype(np.int64)
        if numbers.dtype.kind not in "iu" or (len(numbers) and numbers.max() > np.iinfo(np.int64).max):
            raise self.error(f"{self.called(place)} holds {column.dtype}: node ids must be whole numbers or text")
        return numbers

    def words(self, place: int) -> np.ndarray:
        """Return a column as text; missing values are empty."""
        import pandas as pd

        column = self.frame[place]
        if self.text is None:
            return column.astype(object).where(column.notna(), "").map(str).to_numpy(dtype=object)
        if not pd.api.types.is_string_dtype(column):
            column = self.text.parsed(dtype=str, usecols=[place])[place]
        codes, different = pd.factorize(column)                 # stripping each text once is faster
        return np.array([name.strip() for name in different], dtype=object)[codes]

    def numbers(self, place: int, fix: str = "") -> np.ndarray:
        """Return a column of finite numbers, float64; ``fix``: what to do about words, for messages."""
        import pandas as pd

        fields = self.frame[place]
        if fields.dtype.kind not in "iufb":
            fields = pd.Series(self.words(place))
        values = pd.to_numeric(fields, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
        self.refuse(~np.isfinite(values), lambda row: not_a_number(str(fields.iloc[row]), place, fix))
        return values

    @property
    def unnamed(self) -> bool:
        """Whether the first column has no name, like an index written by ``DataFrame.to_csv()``."""
        return self.header is not None and is_unnamed(self.header[0])

    def counts_rows(self) -> bool:
        """Return whether the first column is 0, 1, 2, ..."""
        first, count = self.part.before(len(self.frame)), len(self.frame)
        return self.part.all(np.array_equal(self.frame[0].to_numpy(), np.arange(first, first + count)))

    def skip_index(self) -> None:
        """Warn that the unnamed first column is skipped; refuse it if it does not count the rows."""
        if self.header and self.header[1:] == [*map(str, self.frame[0])]:
            raise self.error(MATRIX)
        if not self.counts_rows():
            what = "the first column has no name and is not a row number 0, 1, 2, ..."
            raise self.error(f"{what}: name all columns, or leave it out (DataFrame.to_csv(..., index=False))")
        log.warning("%s: the unnamed first column counts the rows and is skipped", self.source)

    def ignored(self, used: Iterable[int | None]) -> list[str]:
        """Return the unused parts of the table, for the summary."""
        used, name = set(used), getattr(self.source, "name", self.source)
        parts = [self.called(place) for place in range(len(self.header or ())) if place not in used]
        (comments,) = self.part.total(self.text.comments if self.text else 0)
        if comments:
            parts.append(f"{comments:,} comment line{'s' if comments > 1 else ''}")
        return [f"{part} of {name}" for part in parts]


def not_a_number(field: str, place: int, fix: str = "") -> str:
    """Return the problem of a field that should be a number; ``fix``: what to do if it is a word."""
    if field == "":
        return f"field {place + 1} is empty{fix}"
    fix = ": write decimals with a point" if re.fullmatch(r"[-+]?\d*,\d+", field) else fix
    return f"{field[:40]!r} is not a finite number{fix}"


def read_table(
    given: Path | pd.DataFrame, what: str = "the table", part: Part = WHOLE, **options: Any
) -> Table:
    """Return a table in text or Parquet, with the options of ``read_text``, or a DataFrame, called ``what``.

    ``part``: which rows of a file are read.
    """
    import pandas as pd

    if isinstance(given, pd.DataFrame):
        names = None if given.columns.inferred_type in ("integer", "empty") else [str(name) for name in given.columns]
        return Table(what, given.set_axis(range(given.shape[1]), axis=1), names)
    kind = kind_of(given)
    if kind == "text":
        return read_text(given, part=part, **options)
    if kind == "parquet":
        return _read_parquet(given, part)
    raise DataError.at(given, f"a table is expected (text or Parquet), not a file of {kind.upper()}")


def _read_parquet(path: Path, part: Part) -> Table:
    with reported_as(path, "not a Parquet file, or a damaged one"):
        with importing("pyarrow", "reading Parquet", "pip install pyarrow"):
            import pyarrow
            from pyarrow import parquet
        file = parquet.ParquetFile(path)
        rows = pyarrow.Table.from_batches(_batches(file, part.of(file.metadata.num_rows)), file.schema_arrow)
        frame = rows.to_pandas(ignore_metadata=True)        # an index of pandas is a column
    if not file.metadata.num_rows:
        raise DataError.at(path, "has no rows")
    return Table(path, frame.set_axis(range(frame.shape[1]), axis=1), list(rows.schema.names), part=part)


def _batches(file: Any, wanted: slice) -> Iterator[Any]:
    """Yield the wanted rows of a Parquet file; a group of rows that several processes share is not kept whole."""
    first = 0
    for group in range(file.num_row_groups):
        last = first + file.metadata.row_group(group).num_rows
        for batch in file.iter_batches(BATCH, [group]) if first < wanted.stop and last > wanted.start else ():
            low, high = max(wanted.start - first, 0), min(wanted.stop - first, len(batch))
            if low < high:
                yield batch.slice(low, high - low)
            first += len(batch)
        first = last


def read_text(
    path: Path, *, separator: str | None = None, header: bool | None = None,
    find_header: Callable[[list[list[str]]], bool] | None = None, attributes: bool = False, part: Part = WHOLE,
) -> Table:  # fmt: skip
    """Return the rows of a file, one at least, or a part of them, maybe none.

    Separator and header are detected unless they are given, the header by ``find_header``, default ``is_header``.
    ``attributes``: lines may end with the attributes of an edge, as networkx writes them.
    """
    content = unpacked(path, part)
    first = 1 + part.before(content.count(b"\n"))
    content, comments = cleaned(path, content, first)
    if attributes and b"}" in content:
        content = without_attributes(path, content, first)
    samples = part.gather([*islice(Text(content, SPACES, comments, first).rows(), SAMPLE)])
    sample, is_first = [row for rows in samples for row in rows][:SAMPLE], not any(samples[: part.place])
    if not sample:
        (comments,) = part.total(comments)
        only_comments = f"has only comments, lines that begin with # or % ({comments:,})"
        raise DataError.at(path, only_comments if comments else "the file is empty")
    separator = separator_of(path, sample) if separator is None else separator
    rows = [fields(path, number, line, separator) for number, line in sample]
    has_header = (find_header or is_header)(rows) if header is None else header
    if has_header and len(rows) == 1:
        raise DataError.at(path, "there are no rows below the header")
    text = Text(content, separator, comments, first)
    text = text.without_first_row() if has_header and is_first else text
    if part.processes > 1 and not part.all(separator == SPACES or content.count(b'"') % 2 == 0):
        raise DataError.at(path, "a text in quotes may have several lines, which processes cannot share: use Parquet")
    kind, header_line = called(separator), "a" if has_header else "no"
    log.info("%s: separated by %s, %s header line, %d columns", path, kind, header_line, len(rows[0]))
    return _table(path, text, rows[0] if has_header else None, len(rows[0]), part)


def _table(source: Path | str, text: Text, header: list[str] | None, columns: int, part: Part) -> Table:
    """Return the table of a text, or an error for the first line with another number of fields."""
    problem = "rows of different lengths"
    try:
        frame = text.parsed(columns)
    except (ValueError, OverflowError) as error:
        frame, problem = None, f"cannot be read ({error})"
    if frame is None or frame.shape[1] != columns:
        raise text.ragged(source, columns) or DataError.at(source, problem)
    return Table(source, frame, header, text, part)
