"""Arrays and matrices in files of numpy and scipy, never with pickled objects, and members of zip archives."""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from numpy.lib import format as npy

from jbpool.data.parts import WHOLE, Part
from jbpool.errors import DataError, reported_as

Arrays = dict[str, np.ndarray]
CSR_PARTS = "data", "indices", "indptr", "shape"
NO_ARRAYS = "not an array file of numpy without objects"


def read_array(path: Path, wanted: str) -> np.ndarray | scipy.sparse.csr_matrix:
    """Read the array of a ``.npy`` file, ``wanted`` or the only one of a ``.npz`` file, or a scipy matrix."""
    with reported_as(path, NO_ARRAYS), open(path, "rb") as file:
        stored = np.load(file, allow_pickle=False)
        if isinstance(stored, np.ndarray):
            return stored
        with stored:
            names = stored.files
            if "format" in names:
                return checked_csr(scipy.sparse.load_npz(path))
            if wanted not in names and len(names) != 1:
                raise DataError(f"has the arrays {names}: name the one to use {wanted!r}")
            return _member(stored, wanted if wanted in names else names[0])


def open_npy(path: Path) -> np.ndarray:
    """Return the array of a ``.npy`` file as a memory map; what is written to it does not reach the file."""
    with reported_as(path, NO_ARRAYS):
        return npy.open_memmap(path, mode="c")


def array_names(path: Path) -> list[str]:
    """Return the names of the arrays of a ``.npz`` file."""
    with open_archive(path) as archive:
        return [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]


def read_arrays(path: Path, names: Iterable[str] | None = None, part: Part = WHOLE) -> Arrays:
    """Return the arrays of a ``.npz`` file by name, or a part of their rows."""
    if part.processes > 1 and names is not None:
        return {name: _member_in_part(path, name, part) for name in names}
    with reported_as(path, NO_ARRAYS), open(path, "rb") as file, np.load(file, allow_pickle=False) as stored:
        return {name: _member(stored, name) for name in (stored.files if names is None else names)}


def _member(stored: Any, name: str) -> np.ndarray:
    array = stored[name]
    if isinstance(array, bytes):                        # what numpy returns for a member without the head of an array
        raise ValueError(f"{name} is no array")
    return array


def _member_in_part(path: Path, name: str, part: Part) -> np.ndarray:
    with reported_as(path, NO_ARRAYS), zipfile.ZipFile(path) as archive, archive.open(f"{name}.npy") as member:
        read_header = {(1, 0): npy.read_array_header_1_0}.get(npy.read_magic(member), npy.read_array_header_2_0)
        shape, columns_first, dtype = read_header(member)
        if dtype.hasobject or (columns_first and len(shape) > 1):
            raise ValueError(f"{name} holds objects, or columns one after another")
        rows = part.of(shape[0])
        array = np.empty((rows.stop - rows.start, *shape[1:]), dtype)
        member.seek(member.tell() + rows.start * dtype.itemsize * math.prod(shape[1:]))
        content = io.BufferedReader(member)                 # type: ignore[type-var]
        if content.readinto(array.reshape(-1).view(np.uint8).data) < array.nbytes:
            raise ValueError(f"{name} ends early")
        return array


def csr_from_arrays(path: Path, arrays: Arrays, prefix: str = "") -> scipy.sparse.csr_matrix:
    """Return the CSR matrix in the arrays ``{prefix}data`` and so on."""
    with reported_as(path, "not a sparse matrix"):
        data, indices, indptr, shape = (arrays[f"{prefix}{part}"] for part in CSR_PARTS)
        data = data.astype(np.float32) if data.dtype == np.float16 else data           # scipy has no float16
        return checked_csr(scipy.sparse.csr_matrix((data, indices, indptr), shape=tuple(shape)))


def read_csr(path: Path, prefix: str) -> scipy.sparse.csr_matrix:
    """Return the CSR matrix in the arrays ``{prefix}data`` and so on of a ``.npz`` file."""
    return csr_from_arrays(path, read_arrays(path, [f"{prefix}{part}" for part in CSR_PARTS]), prefix)


def csr_to_arrays(matrix: scipy.sparse.csr_matrix, prefix: str) -> Arrays:
    """Return the arrays from which ``csr_from_arrays`` makes the matrix again; values as float32."""
    parts = {"data": matrix.data.astype(np.float32, copy=False), "indices": matrix.indices, "indptr": matrix.indptr}
    return {f"{prefix}{part}": array for part, array in {**parts, "shape": np.array(matrix.shape)}.items()}


INT32_MAX = 2**31 - 1


def narrow(numbers: np.ndarray) -> np.ndarray:
    """Return whole numbers as int32 if they fit, else int64; a view if they have that type already."""
    fits = numbers.dtype.itemsize <= 2 or numbers.dtype == np.int32
    if not fits and numbers.size:
        fits = bool(numbers.min() >= -INT32_MAX and numbers.max() <= INT32_MAX)
    return numbers.astype(np.int32 if fits else np.int64, copy=False)


def checked_csr(matrix: scipy.sparse.spmatrix) -> scipy.sparse.csr_matrix:
    """Return a matrix as CSR, with every index checked: scipy would read beyond its arrays."""
    if hasattr(matrix, "indptr"):
        if (np.diff(matrix.indptr) < 0).any():          # scipy's own check looks only if the last one is above 0
            raise ValueError("indptr decreases")
        matrix.check_format(full_check=True)
    if math.prod(map(int, matrix.shape)) > np.iinfo(np.int64).max:
        raise ValueError(f"its shape {matrix.shape} has too many entries")      # torch cannot count them
    return scipy.sparse.csr_matrix(matrix)


def open_archive(path: Path) -> zipfile.ZipFile:
    """Open a zip archive."""
    with reported_as(path, "not a zip archive", "; replace it by an intact copy"):
        return zipfile.ZipFile(path)


def read_members(path: Path, names: Iterable[str]) -> dict[str, bytes]:
    """Return the contents of the named members."""
    with open_archive(path) as archive, reported_as(path, "the archive is damaged"):
        return {name: archive.read(name) for name in names}


def extract(path: Path, folder: Path) -> None:
    """Unpack an archive; ``extractall`` writes nothing outside the folder, and makes no links."""
    with open_archive(path) as archive, reported_as(path, "the archive is damaged"):
        archive.extractall(folder)
