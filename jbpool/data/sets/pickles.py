"""Safe reading of pickles of numpy arrays and scipy matrices, without running foreign code.

A pickle is a program that calls what it names. Only the names in ``_ALLOWED`` exist here, and each stands for a
function of this module that checks what it is given, not for numpy's or scipy's own.
"""

from __future__ import annotations

import io
import math
import pickle
import re
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from jbpool.data.arrays import checked_matrix
from jbpool.errors import reported_as


class _Dtype:
    """A dtype; numpy's own ``__setstate__`` could change one that is shared."""

    def __init__(self, name: str, align: Any = False, copy: Any = False) -> None:
        if not re.fullmatch(r"b1|[iu][1248]|f[248]|O8", name):
            raise pickle.UnpicklingError(f"dtype {name!r}")
        self.value = np.dtype(name)

    def __setstate__(self, state: Any) -> None:
        if state[1] in ("<", ">"):
            self.value = self.value.newbyteorder(state[1])


class _Array:
    """An array whose bytes are those of the pickle; an array of objects is a list."""

    value: Any = None

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, fortran, raw = state
        if dtype.value.hasobject:
            if shape != (len(raw),):
                raise pickle.UnpicklingError(f"{len(raw)} objects for the shape {shape!r}")
            self.value = [_value(entry) for entry in raw]
            return
        raw = raw.encode("latin1") if isinstance(raw, str) else raw         # Python 2 has one type for both
        # Sizes of 0 count as 1: an empty array must not have a huge shape either.
        if math.prod(max(size, 1) for size in shape) > max(len(raw), 1):
            raise pickle.UnpicklingError(f"an array of shape {shape} without all its values")
        array = np.frombuffer(raw, dtype.value).reshape(shape, order="F" if fortran else "C")
        self.value = array.astype(array.dtype.newbyteorder("="), copy=False)


class _Matrix:
    """A CSR matrix; the names of its attributes depend on the version of scipy."""

    value: Any = None

    def __setstate__(self, state: Any) -> None:
        data, indices, indptr = (_value(state[name]) for name in ("data", "indices", "indptr"))
        self.value = checked_matrix((data, indices, indptr), state["_shape"] if "_shape" in state else state["shape"])


def _value(loaded: Any) -> Any:
    return loaded.value if isinstance(loaded, (_Array, _Matrix)) else loaded


def _encode(text: str, encoding: str) -> bytes:
    """Return the bytes, as old protocols have them."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"encoding {encoding!r}")
    return text.encode("latin1")


_ALLOWED: dict[tuple[str, str], Any] = {
    ("collections", "defaultdict"): lambda factory: {},
    ("__builtin__", "list"): lambda: [],                        # without arguments: list(other) would copy
    ("builtins", "list"): lambda: [],
    ("__builtin__", "bytes"): lambda: b"",
    ("_codecs", "encode"): _encode,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Dtype,
    ("scipy.sparse.csr", "csr_matrix"): _Matrix,
    ("scipy.sparse._csr", "csr_matrix"): _Matrix,
    ("numpy.core.multiarray", "_reconstruct"): lambda subtype, shape, dtype: _Array(),
    ("numpy._core.multiarray", "_reconstruct"): lambda subtype, shape, dtype: _Array(),
}


# The one in Python: the one in C allocates as many places as the highest memo number says.
_PlainUnpickler: Any = vars(pickle)["_Unpickler"]


class _Unpickler(_PlainUnpickler):
    dispatch: ClassVar = dict(_PlainUnpickler.dispatch)

    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ALLOWED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it refers to {module}.{name}") from None

    def load_build(self) -> None:
        if not isinstance(self.stack[-2], (_Dtype, _Array, _Matrix)):       # else attributes of anything could be set
            raise pickle.UnpicklingError(f"a state of {type(self.stack[-2]).__name__}")
        super().load_build()

    dispatch[pickle.BUILD[0]] = load_build


def load_pickle(path: Path) -> Any:
    """Return the array, matrix, list or dict in a pickle file."""
    with reported_as(path, "cannot be read"):
        return read_pickle(path.read_bytes(), path)


def read_pickle(content: bytes, path: Path) -> Any:
    """Return the array, matrix, list or dict in a pickle; ``path`` names its origin in messages."""
    with reported_as(path, "not a pickle of plain arrays", "; download the file again"):
        return _value(_Unpickler(io.BytesIO(content), encoding="latin1").load())
