"""Safe reading of pickles of numpy arrays and scipy matrices, without running foreign code.

A pickle is a program, so it is read in three steps. First its opcodes are checked: only those of plain data, no lengths
or memo numbers beyond the size of the file. Then it is executed with placeholders for arrays, dtypes and matrices that
only record their state; any other name is an error. Finally the placeholders are turned into checked arrays. Containers
that are used several times are copied each time; the number of copied entries is bounded by the file size.
"""

from __future__ import annotations

import collections
import io
import math
import pickle
import pickletools
import re
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from jbpool.errors import DataError

MAX_DEPTH = 16
_OPCODES = {
    "PROTO", "FRAME", "STOP", "MARK", "GLOBAL", "STACK_GLOBAL", "REDUCE", "BUILD", "NEWOBJ",
    "NONE", "NEWTRUE", "NEWFALSE", "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "FLOAT", "BINFLOAT",
    "STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8",
    "BINBYTES", "SHORT_BINBYTES", "BINBYTES8",
    "EMPTY_LIST", "LIST", "APPEND", "APPENDS", "EMPTY_DICT", "DICT", "SETITEM", "SETITEMS",
    "EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3",
    "PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE", "GET", "BINGET", "LONG_BINGET",
}  # fmt: skip


class _Dtype:
    """Records a dtype; numpy's own ``__setstate__`` could modify a shared dtype."""

    def __init__(self, name: Any, align: Any = False, copy: Any = False) -> None:
        self.name, self.order = name, "="

    def __setstate__(self, state: Any) -> None:
        self.order = state[1]

    def finished(self) -> np.dtype:
        if not isinstance(self.name, str) or not re.fullmatch(r"b1|[iu][1248]|f[248]", self.name):
            raise pickle.UnpicklingError(f"dtype {self.name!r}")
        return np.dtype({"<": "<", ">": ">"}.get(self.order, "=") + self.name)


class _Array:
    """Records the state of an array; its bytes are those of the pickle."""

    state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def objects(self) -> list | None:
        """The entries of a one-dimensional array of objects; ``None`` for other arrays."""
        _, shape, dtype, _, entries = self.state
        if not (isinstance(dtype, _Dtype) and dtype.name == "O8" and isinstance(entries, list)):
            return None
        if shape != (len(entries),):
            raise pickle.UnpicklingError(f"{len(entries)} objects for the shape {shape!r}")
        return entries

    def finished(self, budget: int) -> np.ndarray:
        """The array, if it has at most ``budget`` bytes."""
        _, shape, dtype, fortran, raw = self.state
        if not isinstance(dtype, _Dtype) or not all(type(size) is int and size >= 0 for size in shape):
            raise pickle.UnpicklingError("an array of objects or of an invalid shape")
        raw = raw.text if isinstance(raw, _Bytes) else raw
        # Sizes of 0 count as 1: an empty array must not have a huge shape either.
        if math.prod(max(size, 1) for size in shape) > max(len(raw), 1) or len(raw) > budget:
            raise pickle.UnpicklingError(f"an array of shape {shape} without all its values")
        raw = raw.encode("latin1") if isinstance(raw, str) else raw         # Python 2 has one type for both
        array = np.frombuffer(raw, dtype.finished()).reshape(shape, order="F" if fortran else "C")
        return array.astype(array.dtype.newbyteorder("="), copy=False)


class _Matrix:
    """Records the attributes of a CSR matrix, as named by different versions of scipy."""

    def finished(self, values: dict[str, Any]) -> scipy.sparse.csr_matrix:
        shape = values["_shape"] if "_shape" in values else values["shape"]
        if len(shape) != 2 or not all(type(size) is int and size >= 0 for size in shape):
            raise pickle.UnpicklingError(f"a matrix of shape {shape!r}")
        parts = tuple(values[name] for name in ("data", "indices", "indptr"))
        if not all(isinstance(part, np.ndarray) and part.ndim == 1 for part in parts) or any(
            part.dtype.kind != "i" for part in parts[1:]
        ):
            raise pickle.UnpicklingError("a matrix without valid data, indices and indptr")
        matrix = scipy.sparse.csr_matrix(parts, shape=shape)
        matrix.check_format(full_check=True)        # an index out of range would let scipy read beyond its arrays
        return matrix


class _Bytes:
    """Records ``_codecs.encode(text, "latin1")``, the form of bytes in old protocols."""

    def __init__(self, text: str, encoding: str) -> None:
        if encoding != "latin1" or not isinstance(text, str):
            raise pickle.UnpicklingError(f"encoding {encoding!r}")
        self.text = text


def _reconstruct(subtype: Any, shape: Any, dtype: Any) -> _Array:
    if subtype is not _Array:
        raise pickle.UnpicklingError(f"array type {subtype!r}")
    return _Array()


def _no_bytes() -> bytes:
    """``bytes()``, the form of empty bytes in old protocols."""
    return b""


def _list() -> list:
    """The default of a defaultdict; without arguments, since ``list(other)`` would copy."""
    return []


def _defaultdict(factory: Any) -> collections.defaultdict:
    if factory is not _list:
        raise pickle.UnpicklingError(f"defaultdict of {factory!r}")
    return collections.defaultdict(list)


_ALLOWED: dict[tuple[str, str], Any] = {
    ("collections", "defaultdict"): _defaultdict,
    ("__builtin__", "list"): _list,
    ("builtins", "list"): _list,
    ("__builtin__", "bytes"): _no_bytes,
    ("_codecs", "encode"): _Bytes,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Dtype,
    ("scipy.sparse.csr", "csr_matrix"): _Matrix,
    ("scipy.sparse._csr", "csr_matrix"): _Matrix,
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
}


class _ArrayUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ALLOWED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it refers to {module}.{name}") from None


def load_pickle(path: Path) -> Any:
    """The object in a pickle file of arrays, matrices, dicts and lists."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError.at(path, f"cannot be read ({error.strerror})") from None
    return read_pickle(content, path)


def read_pickle(content: bytes, path: Path) -> Any:
    """The object in a pickle; ``path`` names its origin in messages. Arrays of objects become lists."""
    try:
        _check_opcodes(content)
        loaded = _ArrayUnpickler(io.BytesIO(content), encoding="latin1").load()
        return _Finisher(len(content)).finish(loaded)
    except Exception as error:      # a damaged pickle can fail in any way
        raise DataError.at(path, f"not a pickle of plain arrays ({error}); download the file again") from None


def _check_opcodes(content: bytes) -> None:
    """Reject what makes the unpickler itself allocate or compute far more than the size of the file.

    ``genops`` checks that strings are within the file. The memo is an array as long as its highest index. Tuples must
    not be used twice: hashing nested ones would take exponential time.
    """
    tuples, memoized, last = set(), 0, ""
    opcode: Any
    argument: Any                   # of a type that depends on the opcode
    for count, (opcode, argument, _) in enumerate(pickletools.genops(content)):
        name = opcode.name
        if name not in _OPCODES or (name == "FRAME" and argument > len(content)):
            raise pickle.UnpicklingError(f"opcode {name}")
        if name == "MEMOIZE" or name.endswith("PUT"):
            number = memoized if name == "MEMOIZE" else int(argument)
            memoized += 1
            if number > count:
                raise pickle.UnpicklingError(f"memo number {number}")
            if last.startswith("TUPLE"):
                tuples.add(number)
        elif name.endswith("GET") and int(argument) in tuples:
            raise pickle.UnpicklingError("a tuple is used twice")
        else:
            last = name             # after a second PUT it is still the tuple


class _Finisher:
    """Copies containers and replaces placeholders; entries and bytes are bounded by the file size."""

    def __init__(self, size: int) -> None:
        self.entries = self.bytes = size
        self.done: dict[int, Any] = {}          # an array that is used twice is created once

    def finish(self, value: Any, depth: int = 0) -> Any:
        self.entries -= 1
        if self.entries < 0 or depth > MAX_DEPTH:
            raise pickle.UnpicklingError("repeated or nested beyond the size of the file")
        if isinstance(value, dict):
            return {_plain(key): self.finish(entry, depth + 1) for key, entry in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(self.finish(entry, depth + 1) for entry in value)
        if isinstance(value, (_Array, _Matrix)):
            if id(value) not in self.done:
                made = self._array(value, depth) if isinstance(value, _Array) else self._matrix(value, depth)
                self.done[id(value)] = made
            return self.done[id(value)]
        return _plain(value)

    def _array(self, value: _Array, depth: int) -> Any:
        objects = value.objects()
        if objects is not None:
            return self.finish(objects, depth + 1)
        array = value.finished(self.bytes)
        self.bytes -= array.nbytes
        return array

    def _matrix(self, value: _Matrix, depth: int) -> scipy.sparse.csr_matrix:
        return value.finished(self.finish(vars(value), depth + 1))


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float, str, bytes)):
        return value
    raise pickle.UnpicklingError(f"a value of type {type(value).__name__}")
