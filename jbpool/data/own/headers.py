"""Headers of tables, and what their columns may be called.

The first row is a header if its first field is empty or a name such as ``id``, if it names a source and a target, or
if it is text above columns of numbers, where the first column may be text ids; in features and labels, another field
may be called ``id``, too. In lists of edges, it is one if its two names occur nowhere else, as those of few others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np

# What columns may be called; if several of the names occur, the first of them counts.
SOURCE_WORDS = ("source", "src", "from", "node1", "source_id", "from_id", "id1")
TARGET_WORDS = ("target", "dst", "to", "node2", "target_id", "to_id", "id2")
ID_WORDS = ("id", "node", "node_id", "nodeid", "name")
WEIGHT_WORDS = ("weight", "weights", "w")
LABEL_WORDS = ("label", "class")
CLUSTER_WORDS = ("cluster", "community", "group")
# Names of both ends that are a header together, and only if no node is called so.
PAIRS = (
    ("u", "v"), ("start", "end"), ("head", "tail"), ("node_1", "node_2"), ("id_1", "id_2"), ("user1", "user2"),
    ("user_id", "friend_id"), ("user", "friend"), ("person", "friend"), ("person1", "person2"), ("caller", "callee"),
    ("citing", "cited"), ("citing_id", "cited_id"), ("sender", "receiver"), ("follower", "followee"),
    ("follower_id", "followee_id"), ("parent", "child"), ("origin", "destination"), ("src_id", "dst_id"),
)  # fmt: skip
NO_NAMES = {"na", "n/a", "nan", "null", "none"}
GAPS = {"", *NO_NAMES, "inf", "-inf", "?", "-", "."}


def column_named(words: Sequence[str], names: Iterable[str]) -> int | None:
    """Return the place of the column with the first of these names that occurs."""
    lower = [name.lower() for name in names]
    return next((lower.index(word) for word in words if word in lower), None)


def ends_named(names: Iterable[str]) -> tuple[int | None, int | None]:
    """Return the places of source and target."""
    names = list(names)
    source, target = column_named(SOURCE_WORDS, names), column_named(TARGET_WORDS, names)
    if source is None and target is None:
        lower = [name.lower() for name in names]
        pair = next((pair for pair in PAIRS if set(pair) <= set(lower)), None)
        return (None, None) if pair is None else (lower.index(pair[0]), lower.index(pair[1]))
    return source, target


def is_unnamed(name: str) -> bool:
    """Return whether a header field is empty, as pandas writes an index, or ``Unnamed: 0``, as it reads it back."""
    return re.fullmatch(r"(unnamed: ?\d+|__index_level_\d+__)?", name.lower()) is not None


def is_number(text: str) -> bool:
    """Return whether a field is a finite number."""
    try:
        return "_" not in text and bool(np.isfinite(float(text)))       # float() accepts 1_000, tables do not
    except ValueError:
        return False


def is_header(rows: list[list[str]], keys: Sequence[Sequence[str]] = ()) -> bool:
    """Return whether the first row is a header; ``keys``: words, one of each of which makes it one wherever it is."""
    first, rest = [field.lower() for field in rows[0]], rows[1:]
    ends = column_named(SOURCE_WORDS, first), column_named(TARGET_WORDS, first)
    if first[0] in ID_WORDS or is_unnamed(first[0]) or None not in ends:
        return True
    others = {field.lower() for row in rest for field in row}
    if rest and any(set(pair) <= set(first) and not set(pair) & others for pair in PAIRS):
        return True
    texts = [place for place, field in enumerate(first) if not is_number(field)]
    if keys and len(texts) == len(first) and all(column_named(words, first) is not None for words in keys):
        return True
    above_numbers = [place for place in texts if _is_above_numbers(rows, place)]
    is_new = not set(first[:2]) & others                # the names of no node: 1,2,friend above 3,4,5 is an edge
    return 0 in texts and bool(above_numbers) and (texts == above_numbers or (len(first) > 2 and is_new))


def is_header_of_features(rows: list[list[str]]) -> bool:
    """Return the same for features: any column may have the ids, and two columns may be text above ids, numbers."""
    texts_above_numbers = len(rows[0]) == 2 and not is_number(rows[0][0]) and _is_above_numbers(rows, 1)
    return is_header(rows, [ID_WORDS]) or texts_above_numbers


def _is_above_numbers(rows: list[list[str]], place: int) -> bool:
    """Return whether a column has text, not a gap, above numbers and gaps; 1,5 is a number that is refused later."""
    fields = [row[place].lower() for row in rows if place < len(row)]
    numbers = [is_number(field.replace(",", ".", 1)) for field in fields]
    readable = [number or field in GAPS for number, field in zip(numbers, fields, strict=True)]
    return len(fields) == len(rows) and any(numbers) and all(readable[1:]) and not readable[0]
