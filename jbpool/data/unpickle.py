"""Reading pickles of numpy arrays and scipy matrices without running what they ask for.

A pickle is a program. This unpickler resolves only the names below, every one a plain container or the constructor
of an array; anything else stops the read before it is called.
"""

from __future__ import annotations

import collections
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from jbpool.errors import DataError


def _codecs_encode(text: str, encoding: str) -> bytes:
    """What old pickles use to spell bytes; only that spelling is allowed."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"encoding {encoding!r}")
    return text.encode("latin1")


def _reconstruct(subtype: type, shape: tuple, dtype: Any) -> np.ndarray:
    """An empty array that its state is then set on; never of a type that holds objects."""
    if subtype is not np.ndarray:
        raise pickle.UnpicklingError(f"array type {subtype!r}")
    return np.empty(shape, np.dtype(dtype))


_ALLOWED: dict[tuple[str, str], Any] = {
    ("collections", "defaultdict"): collections.defaultdict,
    ("__builtin__", "list"): list,
    ("builtins", "list"): list,
    ("_codecs", "encode"): _codecs_encode,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("scipy.sparse.csr", "csr_matrix"): scipy.sparse.csr_matrix,
    ("scipy.sparse._csr", "csr_matrix"): scipy.sparse.csr_matrix,
}
for _module in ("numpy.core.multiarray", "numpy._core.multiarray"):
    _ALLOWED[_module, "_reconstruct"] = _reconstruct


class _ArrayUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ALLOWED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}") from None


def load_pickle(path: Path) -> Any:
    """The object in a pickle file of arrays, matrices, dicts and lists."""
    try:
        with open(path, "rb") as file:
            return _ArrayUnpickler(file, encoding="latin1").load()
    except FileNotFoundError:
        raise
    except Exception as error:      # a damaged pickle can fail in any way at all
        raise DataError.at(path, f"not a pickle of plain arrays ({error}); fetch the file again") from None
