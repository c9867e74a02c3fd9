"""Safe reading of untrusted ``.npy``, ``.npz`` and scipy ``.npz`` files: no objects, bounded memory."""

from __future__ import annotations

import math
from pathlib import Path
from typing import IO

import numpy as np
import scipy.sparse
from numpy.lib import format as npy

from jbpool.data.archive import open_archive, open_member
from jbpool.errors import DataError
from jbpool.memory import require_memory

ZIP_MAGIC = b"PK"
COMPRESSED = {"csr": scipy.sparse.csr_matrix, "csc": scipy.sparse.csc_matrix, "bsr": scipy.sparse.bsr_matrix}


def read_array(path: Path, wanted: str) -> np.ndarray | scipy.sparse.csr_matrix:
    """The array of a ``.npy`` file, the array ``wanted`` or the only one of a ``.npz`` file, or a scipy matrix."""
    if not path.is_file():
        raise DataError.at(path, "no such file")
    with open(path, "rb") as file:
        is_archive = file.read(2) == ZIP_MAGIC
    if not is_archive:
        return _read_npy(path)
    names = array_names(path)
    if "format" in names:
        return csr_from_arrays(path, read_arrays(path))
    name = wanted if wanted in names else names[0]
    if name != wanted and len(names) > 1:
        raise DataError.at(path, f"has the arrays {names}: name the one to use {wanted!r}")
    return read_arrays(path, [name])[name]


def open_npy(path: Path) -> np.ndarray:
    """The array of a ``.npy`` file as a memory map, its header and size checked.

    The map is private: what is written to the array stays in memory and does not reach the file.
    """
    if not path.is_file():
        raise DataError.at(path, "no such file")
    try:
        with open(path, "rb") as file:
            shape, _ = _read_header(file, path.stat().st_size)
        return np.load(path, mmap_mode="c", allow_pickle=False) if math.prod(shape) else _read_npy(path)
    except DataError:
        raise
    except Exception as error:      # a damaged header can fail in any way: it is a Python expression
        raise DataError.at(path, f"not an array file without objects ({error})") from None


def array_names(path: Path) -> list[str]:
    """Names of the arrays of a ``.npz``; at least one."""
    with open_archive(path) as archive:
        names = [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]
    if not names:
        raise DataError.at(path, "the archive has no arrays (.npy)")
    return names


def read_arrays(path: Path, names: list[str] | None = None) -> dict[str, np.ndarray]:
    """Arrays of a ``.npz`` by name."""
    arrays = {}
    with open_archive(path) as archive:
        for name in array_names(path) if names is None else names:
            info = archive.getinfo(f"{name}.npy")
            with open_member(archive, info, path) as member:
                arrays[name] = read_stream(member, info.file_size, path)
    return arrays


def _read_npy(path: Path) -> np.ndarray:
    try:
        with open(path, "rb") as file:
            return read_stream(file, path.stat().st_size, path)
    except DataError:
        raise
    except Exception as error:      # a damaged header, a Python expression, can fail in any way
        raise DataError.at(path, f"cannot be read as .npy ({error})") from None


def read_stream(file: IO[bytes], size: int, path: Path) -> np.ndarray:
    """An array that fits into the ``size`` bytes that its file or archive member has."""
    _read_header(file, size)
    require_memory(path, 2 * size, "the array")         # once as it is, once as float32
    file.seek(0)
    return npy.read_array(file, allow_pickle=False)


def _read_header(file: IO[bytes], size: int) -> tuple[tuple[int, ...], np.dtype]:
    """Shape and type of an array of plain values that ``size`` bytes can hold."""
    version = npy.read_magic(file)
    readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    if version not in readers:
        raise ValueError(f"format version {version}")
    shape, _, dtype = readers[version](file)
    if dtype.hasobject:
        raise ValueError("it contains Python objects")
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize > size:
        raise ValueError(f"shape {shape} of {dtype} needs more than its {size:,} bytes")
    return shape, dtype


def csr_from_arrays(path: Path, arrays: dict[str, np.ndarray], prefix: str = "") -> scipy.sparse.csr_matrix:
    """A sparse matrix from the arrays that ``scipy.sparse.save_npz`` writes, with every index checked.

    scipy does not check indices: one out of range reads or writes beyond its arrays.

    Parameters
    ----------
    path : Path
        The file, for messages.
    arrays : dict of str to array
        format (default csr), shape, data, and indices and indptr, or row and col.
    prefix : str, optional
        Prefix of the names. Default: none.
    """
    try:
        kind = arrays["format"].item() if "format" in arrays else "csr"
        kind = kind.decode() if isinstance(kind, bytes) else kind
        shape = tuple(int(size) for size in arrays[f"{prefix}shape"])
        if len(shape) != 2 or min(shape) < 0:
            raise ValueError(f"shape {shape}")
        require_memory(path, 8 * sum(shape), f"a matrix of {shape[0]:,} rows and {shape[1]:,} columns")
        data = arrays[f"{prefix}data"]
        if data.dtype.kind not in "biuf":
            raise ValueError(f"values of type {data.dtype}")
        if kind == "coo":
            pairs = arrays["row"], arrays["col"]
            return scipy.sparse.coo_matrix((data, pairs), shape=shape).tocsr()          # checks the indices
        if kind == "dia":
            return scipy.sparse.dia_matrix((data, arrays["offsets"]), shape=shape).tocoo().tocsr()
        if kind not in COMPRESSED:
            raise ValueError(f"format {kind!r}")
        parts = arrays[f"{prefix}indices"], arrays[f"{prefix}indptr"]
        if any(part.dtype.kind not in "iu" for part in parts):
            raise ValueError("indices are not whole numbers")
        matrix = COMPRESSED[kind]((data, *parts), shape=shape)
        matrix.check_format(full_check=True)
        return scipy.sparse.csr_matrix(matrix)
    except DataError:
        raise
    except KeyError as error:
        raise DataError.at(path, f"the array {error} of the sparse matrix is missing") from None
    except Exception as error:      # scipy raises many kinds of errors for invalid arrays
        raise DataError.at(path, f"not a sparse matrix ({error})") from None
