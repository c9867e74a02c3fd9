"""Pickles of arrays and CSR matrices, read without running foreign code.

A pickle is a program that calls what it names. The names in ``_ALLOWED`` are all that exist here.
"""

from __future__ import annotations

import codecs
import pickle
from collections import defaultdict
from pathlib import Path
from typing import IO, Any

import numpy as np
import scipy.sparse

from jbpool.errors import reported_as


class _DType:
    """A type of numbers, of whose state only the byte order counts: numpy believes flags, also damaged ones."""

    def __init__(self, name: str, *_: object):
        self.dtype = np.dtype(name)

    def __setstate__(self, state: tuple) -> None:
        self.dtype = self.dtype.newbyteorder(state[1])


class _Array(np.ndarray):
    """An array with such a type."""

    def __setstate__(self, state: tuple) -> None:
        version, shape, kind, is_fortran, data = state
        super().__setstate__((version, shape, kind.dtype, is_fortran, data))


_RECONSTRUCT = np.empty(0).__reduce__()[0]          # numpy's own, whose module depends on the version
_ALLOWED: dict[tuple[str, str], Any] = {
    ("collections", "defaultdict"): defaultdict,
    ("__builtin__", "list"): list,                  # as Python 2 wrote it
    ("builtins", "list"): list,
    ("_codecs", "encode"): codecs.encode,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _DType,
    ("numpy.core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy._core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("scipy.sparse.csr", "csr_matrix"): scipy.sparse.csr_matrix,
    ("scipy.sparse._csr", "csr_matrix"): scipy.sparse.csr_matrix,
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"it refers to {module}.{name}")
        return _ALLOWED[module, name]


def read_pickle(file: IO[bytes]) -> Any:
    """Return the array, matrix, list or dictionary in a pickle, also of Python 2."""
    return _Unpickler(file, encoding="latin1").load()


def load_pickle(path: Path) -> Any:
    """Return the array, matrix, list or dictionary in a pickle file."""
    with reported_as(path, "not a pickle of plain arrays", "; download the file again"), open(path, "rb") as file:
        return read_pickle(file)
