"""Damage valid files: bytes, text, arrays, archives, pickles and nested values.

``damaged_folder`` changes one file of a folder, in the way that its name suggests. All choices come from a
``Random``: in the tests one of Hypothesis (``st.randoms``), which simplifies what fails; in ``make fuzz`` a seeded one,
since Hypothesis varies and repeats its examples: of 500 damaged arrays 265 were different.
"""

import io
import json
import pickle
import re
import zipfile
from functools import partial
from pathlib import Path
from random import Random

import numpy as np
import scipy.sparse
import torch
import yaml

Files = dict[str, bytes | None]         # name -> content; None: a folder of that name

NUMBERS = (
    0, 1, -1, 2, 7, 127, 255, 256, 65536, 2**31 - 1, 2**31, 2**32, 2**53 + 1, 2**62, 2**63 - 1, -(2**31), -(2**63),
)  # fmt: skip
WORDS = (
    "", " ", "0", "1", "-1", "-0", "007", "1.5", "1e5", "1e-400", "1e400", "9" * 25, "9" * 400, "9" * 5000, "nan",
    "NaN", "inf", "-inf", "None", "null", "~", "true", "off", "0x10", "1_000", "1,5", "\uff11", "\u0661", "a b",
    "\u00e9", "\U0001f600", "\u200b", "\u2028", "\x00", "\x85", "\x1b[31m", "\ufeff", '"', "'", '"a', "''", "#", "# x",
    "%", "*", "*x", "&a", "&a [*a]", "- 1", "[1", "}", "[]", "[[]]", "{}", "{1: 2}", "{a: 1}", "{a: 1, a: 2}",
    "[" * 300, "{a: " * 300, "[.nan]", "[1e400]", ".inf", ".nan", "{cut: .nan}", f"{{cut: {'9' * 400}}}", "2024-13-45",
    "1:30", "!!python/name:os.system", "!!timestamp x", "!!int x", "!!map 3", "!!binary a", "!!str 5", "!x y",
    '"\\0"', '"a\\nb"', "? x", "|\n text", "---", "..", "../x", "/", "/dev/zero", "con", "a" * 300, "x;y", "x\ty",
    "x\ny", "=", "jb", "auto", "2-12", "2-1", "[0, 1]", "[0.5, 0.5]",
)  # fmt: skip
UNUSUAL = (None, True, False, [], {}, [1, "a"], {"a": 1}, 1.5, float("nan"), float("inf"), 1e-300)
SEPARATORS = ",;\t |"
SWAPS = ((",", ";"), (",", "\t"), (",", " "), ("\n", "\r\n"), ("\n", "\r"), ("\n", "\n\n"))
PATHS = ("../x", "/x", "a/../../x", "a\\b", "C:x", "x/", "x", "a" * 300, "S/S_extra.txt")
DTYPES = ("i1", "u8", "f2", "f8", "c8", "U3", "?", "M8[s]", ">i4")
HEADERS = (b"'<O8'", b"'|O'", b"'<f16'", b"'<i0'", b"'V9'", b"[('a','<i4')]")         # of .npy: other types


def damaged_bytes(content, rng):
    """A few changes anywhere."""
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        place, length = rng.randint(0, len(data)), rng.choice((1, 2, 4, 8, 64))
        match rng.randint(0, 7):
            case 0 if data:
                data[place % len(data)] ^= 1 << rng.randint(0, 7)
            case 1:
                data[place : place + length] = rng.randbytes(length)
            case 2:
                data[place:place] = rng.randbytes(length)
            case 3:
                del data[place : place + length]
            case 4:
                del data[place:]
            case 5:
                data[place : place + 8] = rng.choice(NUMBERS).to_bytes(8, "little", signed=True)
            case 6:
                data[place : place + 4] = (rng.choice(NUMBERS) & 0xFFFFFFFF).to_bytes(4, "little")
            case _:
                other = rng.randint(0, len(data))
                data[place:place] = data[other : other + 4 * length]
    return bytes(data)


def damaged_text(content, rng):
    """Other lines, words, separators, line ends and encodings."""
    text = content.decode()
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        lines = text.split("\n")
        place, other = (rng.randint(0, len(lines) - 1) for _ in range(2))
        match rng.randint(0, 11):
            case 0 | 1 | 2 | 3:
                lines = _other_word(text, rng).split("\n")
            case 4:
                del lines[place]
            case 5:
                lines.insert(other, lines[place])
            case 6:
                lines.insert(place, rng.choice(("", "#", "# a comment", " " * 9, *WORDS)))
            case 7:
                lines[place] += rng.choice(SEPARATORS) + rng.choice(WORDS)
            case 8:
                parts = re.split(f"([{SEPARATORS}])", lines[place])
                del parts[rng.randint(0, len(parts) - 1)]
                lines[place] = "".join(parts)
            case 9:
                lines[place], lines[other] = lines[other], lines[place]
            case 10:
                lines = text.replace(*rng.choice(SWAPS)).split("\n")
            case _:
                lines = text[: rng.randint(0, len(text))].split("\n")
        text = "\n".join(lines)
    raw = text.encode()
    match rng.randint(0, 15):
        case 11:
            return damaged_bytes(raw, rng)
        case 12:
            return text.encode("utf-16")
        case 13:
            return b"\xef\xbb\xbf" + raw
        case 14:
            return raw + b"\x00"
        case 15:
            return raw + b"\xff\xfe"
    return raw


def _other_word(text, rng):
    """One run of characters without space or punctuation replaced by an unusual one, or by one from elsewhere."""
    spans = [match.span() for match in re.finditer(r"[^\s,;:|{}\[\]]+", text)]
    if not spans:
        return rng.choice(WORDS)
    (start, end), other = rng.choice(spans), slice(*rng.choice(spans))
    new = rng.choice((rng.choice(WORDS), rng.choice(WORDS), str(rng.choice(NUMBERS)), text[other]))
    return text[:start] + new + text[end:]


def damaged_array(array, rng):
    """Another type, shape or value."""
    change = rng.randint(0, 8)
    with np.errstate(all="ignore"):
        match change:
            case 0:
                try:
                    return array.astype(rng.choice(DTYPES))
                except (ValueError, TypeError):
                    return np.zeros(array.shape)
            case 1:
                return rng.choice((array[None], array.reshape(-1), array.T, array[..., None], np.array(0)))
            case 2 if array.ndim:
                return array[: rng.randint(0, len(array))]
            case 3 if array.ndim:
                return np.concatenate([array, array])
            case 4 if array.ndim:
                return np.zeros((0, *array.shape[1:]), array.dtype)
            case 5:
                return rng.choice((np.array(["a", "b"]), np.array([{"a": 1}, None], dtype=object)))
        if not array.size or array.dtype.kind not in "iuf":
            return array if array.dtype.kind == "O" else array.astype("U")
        flat, place = array.flatten(), rng.randint(0, array.size - 1)
        value = rng.choice((*NUMBERS, float("nan"), float("inf"), -1.5, 1e300, 3e38))
        try:
            flat[place] = value
        except (OverflowError, ValueError):
            flat = flat.astype("f8")
            flat[place] = value
        return flat.reshape(array.shape)


def _damaged_header(content, rng):
    """Another shape, type or order in the header of an array."""
    one, other = rng.choice(NUMBERS), rng.choice(NUMBERS)
    pattern, new = rng.choice((
        (rb"\((\d+),", b"(%d," % one),
        (rb"\(\d+, \d+\)", b"(%d, %d)" % (one, other)),
        (rb"'[<|>]\w\d*'", rng.choice(HEADERS)),
        (rb"False", b"True "),
        (rb"\d+", b"9" * rng.choice((1, 10, 19, 30))),
    ))  # fmt: skip
    return re.sub(pattern, lambda _: new, content[:128], count=1) + content[128:]


def damaged_npy(content, rng):
    """The array, its header or its bytes."""
    change = rng.randint(0, 3)
    if change < 2:
        return (_damaged_header, damaged_bytes)[change](content, rng)
    file = io.BytesIO()
    np.save(file, damaged_array(np.load(io.BytesIO(content)), rng))
    return file.getvalue()


def damaged_npz(content, rng):
    """Arrays that are changed, missing, renamed or swapped; other headers; raw bytes."""
    change = rng.randint(0, 9)
    if change >= 7:
        member = (_damaged_header, damaged_bytes, None)[change - 7]
        return damaged_bytes(content, rng) if member is None else damaged_archive(content, rng, member)
    with np.load(io.BytesIO(content), allow_pickle=True) as stored:             # our own
        arrays = dict(stored)
    for _ in range(rng.choice((1, 1, 2))):
        name, other = (rng.choice(sorted(arrays)) for _ in range(2))
        match rng.randint(0, 7):
            case 5 if len(arrays) > 1:
                del arrays[name]
            case 6:
                arrays[rng.choice(("x", "format", "shape", "data", "label"))] = arrays.pop(name)
            case 7:
                arrays[name], arrays[other] = arrays[other], arrays[name]
            case _:
                arrays[name] = damaged_array(arrays[name], rng)
    file = io.BytesIO()
    rng.choice((np.savez, np.savez_compressed))(file, **arrays)
    return file.getvalue()


def damaged_archive(content, rng, member=damaged_text):
    """A zip archive with other members, names or compression; ``member`` damages the content of one."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    name = rng.choice(sorted(members))
    match rng.randint(0, 9):
        case 6:
            del members[name]
        case 7:
            members[rng.choice((*PATHS, name.upper()))] = members.pop(name)
        case 8:
            filler = rng.choice((b"", b"\0" * 1_000_000, b"1\n" * 100_000, rng.randbytes(100)))
            members[rng.choice((name, name, "x"))] = filler
        case 9:
            return damaged_bytes(content, rng)
        case _:
            members[name] = member(members[name], rng)
    file = io.BytesIO()
    method = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA))
    with zipfile.ZipFile(file, "w", method) as archive:
        for path, data in members.items():
            archive.writestr(path, data)
    return file.getvalue()


def damaged_value(value, rng):
    """A nested value of which one entry is changed, removed, repeated, renamed or of another type."""
    if isinstance(value, dict) and value and rng.randint(0, 9):
        key, change = rng.choice(sorted(value, key=str)), rng.randint(0, 11)
        rest = {name: entry for name, entry in value.items() if name != key}
        if change == 10:
            return {**rest, rng.choice(WORDS): value[key]}
        return rest if change == 11 else {**rest, key: damaged_value(value[key], rng)}
    if isinstance(value, (list, tuple)) and value and rng.randint(0, 9):
        place, change = rng.randint(0, len(value) - 1), rng.randint(0, 5)
        new = {4: [], 5: [value[place]] * 2}[change] if change > 3 else [damaged_value(value[place], rng)]
        return type(value)([*value[:place], *new, *value[place + 1 :]])
    if isinstance(value, torch.Tensor) and rng.randint(0, 9):
        array = damaged_array(value.numpy(), rng)
        known = array.dtype.kind in "biuf" and array.dtype.byteorder != ">"
        return torch.from_numpy(array.copy()) if known else None
    if isinstance(value, (int, float)) and not isinstance(value, bool) and rng.random() < 0.5:
        return rng.choice((-value, value + 1, value * 10, float(value), str(value), [value]))
    return rng.choice((rng.choice(WORDS), rng.choice(NUMBERS), rng.choice(UNUSUAL)))


def damaged_pickle(content, rng):
    """Other bytes, or a pickle of another object."""
    if rng.randint(0, 9) < 7:
        return damaged_bytes(content, rng)
    value = pickle.loads(content)               # our own
    if isinstance(value, np.ndarray):
        value = damaged_array(value, rng)
    elif scipy.sparse.issparse(value):
        part = rng.choice(("data", "indices", "indptr"))
        setattr(value, part, damaged_array(getattr(value, part), rng))
    else:
        value = damaged_value(value, rng)
    return pickle.dumps(value, 2)


def damaged_state(content, rng):
    """A file of ``torch.save``: its bytes, its members or its values."""
    change = rng.randint(0, 3)
    if change > 1:
        return damaged_bytes(content, rng) if change == 2 else damaged_archive(content, rng, damaged_bytes)
    file = io.BytesIO()
    torch.save(damaged_value(torch.load(io.BytesIO(content), weights_only=True), rng), file)
    return file.getvalue()


def _damaged_values(content, rng, load, dump):
    """A text, or the values that are written in it."""
    if rng.random() < 0.5:
        return damaged_text(content, rng)
    values = load(content)
    for _ in range(rng.choice((1, 1, 3))):
        values = damaged_value(values, rng)
    return dump(values).encode()


DAMAGED = {
    ".npy": damaged_npy, ".npz": damaged_npz, ".zip": damaged_archive, ".pt": damaged_state,
    **dict.fromkeys((".gz", ".bin", ".parquet"), damaged_bytes),
    ".json": partial(_damaged_values, load=json.loads, dump=json.dumps),
    ".yaml": partial(_damaged_values, load=yaml.safe_load, dump=partial(yaml.safe_dump, allow_unicode=True)),
    **dict.fromkeys((".tx", ".ty", ".allx", ".ally", ".graph"), damaged_pickle),
}  # others are text  # fmt: skip


def damaged_folder(files: Files, rng: Random) -> Files:
    """The files of a folder, one of them changed, emptied, missing, or a folder. Reports are never read."""
    names = sorted(set(files) - {"report.html", "assign.csv"})
    name = rng.choice([*names, *(name for name in names for _ in range(2) if name == "result.json")])
    match rng.randint(0, 39):
        case 37 if len(files) > 1:
            return {other: content for other, content in files.items() if other != name}
        case 38:
            return {**files, name: None}
        case 39:
            return {**files, name: b""}
    return {**files, name: DAMAGED.get(Path(name).suffix, damaged_text)(files[name], rng)}
