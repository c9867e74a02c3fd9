"""Mutations of bytes, text, arrays, archives and nested values for ``scripts/qa/fuzz.py``, by a seeded ``Random``."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

NUMBERS = (
    0, 1, -1, 2, 7, 127, 255, 256, 65536, 2**31 - 1, 2**31, 2**32, 2**53 + 1, 2**62, 2**63 - 1, -(2**31), -(2**63),
)  # fmt: skip
WORDS = (
    "", " ", "0", "1", "-1", "-0", "007", "1.5", "1e5", "1e-400", "1e400", "9" * 25, "9" * 5000, "nan", "NaN", "inf",
    "-inf", "None", "null", "~", "true", "off", "0x10", "1_000", "1,5", "\uff11", "\u0661", "a b", "\u00e9",
    "\U0001f600", "\u200b", "\u2028", "\x00", "\x1b[31m", "\ufeff", '"', "'", '"a', "#", "%", "*", "&a", "- 1", "[1",
    "{a: 1}", "!!python/name:os.system", "..", "../x", "/", "/dev/zero", "con", "a" * 300, "x;y", "x\ty", "x\ny", "=",
    "jb", "auto", "2-12", "2-1", "[0, 1]", "[]", "{}",
)  # fmt: skip
SEPARATORS = ",;\t |"
SWAPS = ((",", ";"), (",", "\t"), (",", " "), ("\n", "\r\n"), ("\n", "\r"), ("\n", "\n\n"))
TYPES = (b"'<O8'", b"'|O'", b"'<f16'", b"'<i0'", b"'V9'", b"[('a','<i4')]")         # in the header of an .npy
PATHS = ("../x", "/x", "a/../../x", "a\\b", "C:x", "x/", "", "a" * 300)


def mutate_bytes(content: bytes, rng: Random) -> bytes:
    """A few changes anywhere in a file."""
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        place = rng.randrange(len(data) + 1)
        length = rng.choice((1, 1, 2, 4, 8, 64))
        kind = rng.randrange(8)
        if kind == 0 and data:
            data[place % len(data)] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[place : place + length] = rng.randbytes(length)
        elif kind == 2:
            data[place:place] = rng.randbytes(length)
        elif kind == 3:
            del data[place : place + length]
        elif kind == 4:
            del data[place:]
        elif kind == 5:
            data[place : place + 8] = rng.choice(NUMBERS).to_bytes(8, "little", signed=True)
        elif kind == 6:
            data[place : place + 4] = (rng.choice(NUMBERS) & 0xFFFFFFFF).to_bytes(4, "little")
        else:
            other = rng.randrange(len(data) + 1)
            data[place:place] = data[other : other + length * 4]
    return bytes(data)


def mutate_text(content: bytes, rng: Random) -> bytes:
    """Lines, words, separators, line ends and encodings of a text or table."""
    text = content.decode()
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        lines = text.split("\n")
        place = rng.randrange(len(lines))
        kind = rng.randrange(12)
        if kind <= 3:
            text = _replace_word(text, rng)
        elif kind == 4:
            del lines[place]
            text = "\n".join(lines)
        elif kind == 5:
            lines.insert(rng.randrange(len(lines) + 1), lines[place])
            text = "\n".join(lines)
        elif kind == 6:
            lines.insert(place, rng.choice(("", "#", "# a comment", " " * 9, rng.choice(WORDS))))
            text = "\n".join(lines)
        elif kind == 7:
            lines[place] += rng.choice(SEPARATORS) + rng.choice(WORDS)
            text = "\n".join(lines)
        elif kind == 8:
            parts = re.split(f"([{SEPARATORS}])", lines[place])
            del parts[rng.randrange(len(parts))]
            lines[place] = "".join(parts)
            text = "\n".join(lines)
        elif kind == 9:
            text = text.replace(*rng.choice(SWAPS))
        elif kind == 10:
            other = rng.randrange(len(lines))
            lines[place], lines[other] = lines[other], lines[place]
            text = "\n".join(lines)
        else:
            text = text[: rng.randrange(len(text) + 1)]
    raw = text.encode()
    kind = rng.randrange(16)
    if kind == 0:
        return mutate_bytes(raw, rng)
    return {1: text.encode("utf-16"), 2: b"\xef\xbb\xbf" + raw, 3: raw + b"\x00", 4: raw + b"\xff\xfe"}.get(kind, raw)


def _replace_word(text: str, rng: Random) -> str:
    """One run of characters without space or punctuation, replaced by an unusual one or by a word of elsewhere."""
    found = [match.span() for match in re.finditer(r"[^\s,;:|{}\[\]]+", text)]
    if not found:
        return rng.choice(WORDS)
    start, end = rng.choice(found)
    other = text[slice(*rng.choice(found))]
    new = rng.choice((rng.choice(WORDS), rng.choice(WORDS), str(rng.choice(NUMBERS)), other))
    return text[:start] + new + text[end:]


def mutate_array(array: np.ndarray, rng: Random) -> np.ndarray:
    """Another type, shape or value."""
    kind = rng.randrange(9)
    array = np.array(array)
    if kind == 0:
        types = ("i1", "u8", "f2", "f8", "c8", "U3", "?", "M8[s]", ">i4")
        with np.errstate(all="ignore"):
            try:
                return array.astype(rng.choice(types))
            except (ValueError, TypeError):
                return np.zeros(array.shape, "f8")
    if kind == 1:
        return rng.choice((array[None], array.reshape(-1), array.T, array[..., None], np.array(0)))
    if kind == 2 and array.ndim:
        return array[: rng.randrange(len(array) + 1)]
    if kind == 3 and array.ndim:
        return np.concatenate([array, array])
    if kind == 4 and array.ndim:
        return np.zeros((0, *array.shape[1:]), array.dtype)
    if kind == 5:
        return np.array(["a", "b"]) if rng.random() < 0.5 else np.array([{"a": 1}, None], dtype=object)
    if array.size and array.dtype.kind in "iuf":
        flat, place = array.reshape(-1).copy(), rng.randrange(array.size)
        values = (*NUMBERS, float("nan"), float("inf"), -1.5, 1e300, 3e38)
        with np.errstate(all="ignore"):
            try:
                flat[place] = rng.choice(values)
            except (OverflowError, ValueError):
                flat = flat.astype("f8")
                flat[place] = rng.choice(values)
        return flat.reshape(array.shape)
    return array.astype("U") if array.dtype.kind != "O" else array


def mutate_npz(content: bytes, rng: Random) -> bytes:
    """Arrays of an ``.npz`` that are changed, missing, renamed or swapped; headers with another shape; raw bytes."""
    kind = rng.randrange(10)
    if kind <= 1:
        return mutate_bytes(content, rng)
    if kind == 2:
        return mutate_archive(content, rng, mutate_bytes)
    if kind == 3:
        return mutate_archive(content, rng, _mutate_header)
    with np.load(io.BytesIO(content), allow_pickle=True) as stored:
        arrays = dict(stored)
    for _ in range(rng.choice((1, 1, 2))):
        name, other = rng.choice(sorted(arrays)), rng.choice(sorted(arrays))
        change = rng.randrange(8)
        if change == 0 and len(arrays) > 1:
            del arrays[name]
        elif change == 1:
            arrays[rng.choice(("x", "format", "shape", "data", "label"))] = arrays.pop(name)
        elif change == 2:
            arrays[name], arrays[other] = arrays[other], arrays[name]
        else:
            arrays[name] = mutate_array(arrays[name], rng)
    file = io.BytesIO()
    (np.savez if rng.random() < 0.5 else np.savez_compressed)(file, **arrays)
    return file.getvalue()


def mutate_npy(content: bytes, rng: Random) -> bytes:
    """An ``.npy`` file: its array, its header or its bytes."""
    kind = rng.randrange(4)
    if kind == 0:
        return mutate_bytes(content, rng)
    if kind == 1:
        return _mutate_header(content, rng)
    file = io.BytesIO()
    np.save(file, mutate_array(np.load(io.BytesIO(content)), rng))
    return file.getvalue()


def _mutate_header(content: bytes, rng: Random) -> bytes:
    """Another shape, type or order in the header of an array, of the same length where possible."""
    changes = (
        (rb"\((\d+),", lambda found: b"(%d," % rng.choice(NUMBERS)),
        (rb"\(\d+, \d+\)", lambda found: b"(%d, %d)" % (rng.choice(NUMBERS), rng.choice(NUMBERS))),
        (rb"'[<|>]\w\d+'", lambda found: rng.choice(TYPES)),
        (rb"False", lambda found: b"True "),
        (rb"\d+", lambda found: b"9" * rng.choice((1, 10, 19, 30))),
    )
    pattern, change = rng.choice(changes)
    return re.sub(pattern, change, content[:128], count=1) + content[128:]


def mutate_archive(content: bytes, rng: Random, member: Callable[[bytes, Random], bytes] = mutate_text) -> bytes:
    """A zip archive with other members, names or flags; ``member`` mutates the content of one."""
    if rng.randrange(4) == 0:
        return mutate_bytes(content, rng)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    name = rng.choice(sorted(members))
    kind = rng.randrange(8)
    if kind <= 3:
        members[name] = member(members[name], rng)
    elif kind == 4:
        del members[name]
    elif kind == 5:
        members[rng.choice((*PATHS, name.upper()))] = members.pop(name)
    elif kind == 6:
        members[name] = rng.choice((b"", b"\0" * 1_000_000, b"1\n" * 100_000, rng.randbytes(100)))
    else:
        members[rng.choice(("x", "S/S_extra.txt"))] = rng.randbytes(10)
    file = io.BytesIO()
    method = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA))
    with zipfile.ZipFile(file, "w", method) as archive:
        for path, data in members.items():
            archive.writestr(path or "x", data)
    return file.getvalue()


def mutate_value(value: Any, rng: Random, leaf: Callable[[Any, Random], Any]) -> Any:
    """A nested value with one entry changed, removed, repeated or of another type; ``leaf`` mutates what is inside."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(sorted(value, key=str))
        inner = {name: entry for name, entry in value.items() if name != key}
        kind = rng.randrange(12)
        if kind == 0:
            return inner
        if kind == 1:
            return {**inner, rng.choice(WORDS): value[key]}
        return {**inner, key: mutate_value(value[key], rng, leaf)}
    if isinstance(value, (list, tuple)) and value and rng.random() < 0.9:
        entries, place = list(value), rng.randrange(len(value))
        kind = rng.randrange(6)
        if kind == 0:
            del entries[place]
        elif kind == 1:
            entries.append(entries[place])
        else:
            entries[place] = mutate_value(entries[place], rng, leaf)
        return type(value)(entries)
    return leaf(value, rng)


def plain_leaf(value: Any, rng: Random) -> Any:
    """Another plain value, near the old one or unusual."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and rng.random() < 0.5:
        return rng.choice((-value, value + 1, value * 10, float(value), str(value), [value]))
    unusual: tuple[Any, ...] = (None, True, False, [], {}, [1, "a"], {"a": 1}, 1.5, float("nan"), float("inf"), 1e-300)
    return rng.choice((rng.choice(WORDS), rng.choice(NUMBERS), rng.choice(unusual)))


def mutate_file(path: Path, rng: Random, mutation: Callable[[bytes, Random], bytes]) -> None:
    """Apply a mutation to a file in place; now and then it is emptied, removed or made a folder."""
    kind = rng.randrange(60)
    if kind == 0:
        path.write_bytes(b"")
    elif kind == 1:
        path.unlink()
    elif kind == 2:
        path.unlink()
        path.mkdir()
    else:
        path.write_bytes(mutation(path.read_bytes(), rng))
