"""Safe reading of untrusted files: zip archives without links and bombs, ``.npy`` and ``.npz`` without objects.

What a file declares is compared with its size and with the memory before anything is allocated.
"""

from __future__ import annotations

import math
import os
import re
import stat
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import IO, Any

import numpy as np
import scipy.sparse
from numpy.lib import format as npy

from jbpool.errors import DataError, reported_as

MAX_BYTES = 4 << 30             # unpacked, all members together
MAX_MEMBERS = 10_000
MAX_RATIO = 200                 # unpacked to packed size; graphs as text reach about 20, zeros 1,000
FREE_BYTES = 16 << 20           # unpacked size up to which any ratio is accepted
BLOCK = 1 << 20
_CGROUP = Path("/sys/fs/cgroup")


def open_archive(path: Path) -> zipfile.ZipFile:
    """Open a zip archive; a ``DataError`` says why it cannot be opened."""
    try:
        return zipfile.ZipFile(path)
    except FileNotFoundError:
        raise DataError.at(path, "no such file") from None
    except Exception as error:      # zipfile raises many kinds of errors for damaged files
        raise DataError.at(path, f"not a zip archive ({error}); replace it by an intact copy") from None


def unpacked_limit(packed: int, max_bytes: int = MAX_BYTES) -> int:
    """Return the maximum unpacked size of a compressed file of this size, in bytes."""
    return min(max_bytes, max(FREE_BYTES, MAX_RATIO * packed))


def read_members(path: Path, names: Iterable[str], max_bytes: int = MAX_BYTES) -> dict[str, bytes]:
    """Return the contents of the named members, in memory; nothing is written to disk."""
    contents = {}
    with open_archive(path) as archive:
        limit = unpacked_limit(path.stat().st_size, max_bytes)
        members = []
        for name in names:
            try:
                members.append(archive.getinfo(name))
            except KeyError:
                raise DataError.at(path, f"the archive has no member {name}") from None
        _check_sizes(members, limit, path)
        for info in members:
            with open_member(archive, info, path) as member:
                contents[info.filename] = b"".join(_blocks(member, info))
    return contents


def extract(path: Path, folder: Path, max_bytes: int = MAX_BYTES) -> None:
    """Unpack an archive into ``folder``: regular files only, none outside it."""
    with open_archive(path) as archive:
        members = [info for info in archive.infolist() if not info.is_dir()]
        if len(members) > MAX_MEMBERS:
            raise DataError.at(path, f"the archive has {len(members)} members, more than {MAX_MEMBERS}")
        for info in members:
            name = PurePosixPath(info.filename)
            if name.is_absolute() or ".." in name.parts or "\\" in info.filename or ":" in info.filename:
                raise DataError.at(path, f"member {info.filename!r} would be written outside its folder")
            mode = info.external_attr >> 16
            if mode and not stat.S_ISREG(mode) and stat.S_IFMT(mode):
                raise DataError.at(path, f"member {info.filename!r} is a link or device, not a file")
        fix = "; if you trust it, unpack it yourself and use the folder"
        _check_sizes(members, unpacked_limit(path.stat().st_size, max_bytes), path, fix)
        for info in members:
            target = folder / info.filename
            target.parent.mkdir(parents=True, exist_ok=True)
            with open_member(archive, info, path) as member, open(target, "wb") as file:
                file.writelines(_blocks(member, info))


@contextmanager
def open_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path) -> Iterator[IO[bytes]]:
    """Yield a member as a stream; report any error while reading as a damaged archive."""
    with reported_as(path, f"member {info.filename!r} is damaged"), archive.open(info) as member:
        yield member


def _check_sizes(members: list[zipfile.ZipInfo], limit: int, path: Path, fix: str = "") -> None:
    total = sum(info.file_size for info in members)
    if total > limit:
        raise DataError.at(path, f"its members unpack to {total:,} bytes, more than the limit of {limit:,}{fix}")


def _blocks(member: IO[bytes], info: zipfile.ZipInfo) -> Iterator[bytes]:
    """Yield the content in blocks; an error if its size is not the one that the header declares."""
    left = info.file_size
    while block := member.read(BLOCK):
        left -= len(block)
        if left < 0:
            raise ValueError("longer than its header declares")
        yield block
    if left:
        raise ValueError("shorter than its header declares")


ZIP_MAGIC = b"PK"
COMPRESSED = {"csr": scipy.sparse.csr_matrix, "csc": scipy.sparse.csc_matrix, "bsr": scipy.sparse.bsr_matrix}


def read_array(path: Path, wanted: str) -> np.ndarray | scipy.sparse.csr_matrix:
    """Read the array of a ``.npy`` file, ``wanted`` or the only one of a ``.npz`` file, or a scipy matrix."""
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
    """Return the array of a ``.npy`` file as a memory map, its header and size checked.

    The map is private: what is written to the array stays in memory and does not reach the file.
    """
    if not path.is_file():
        raise DataError.at(path, "no such file")
    with reported_as(path, "not an array file without objects"):
        with open(path, "rb") as file:
            shape, _ = _read_header(file, path.stat().st_size)
        return np.load(path, mmap_mode="c", allow_pickle=False) if math.prod(shape) else _read_npy(path)


def array_names(path: Path) -> list[str]:
    """Return the names of the arrays of a ``.npz``; at least one."""
    with open_archive(path) as archive:
        names = [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]
    if not names:
        raise DataError.at(path, "the archive has no arrays (.npy)")
    return names


def read_arrays(path: Path, names: list[str] | None = None) -> dict[str, np.ndarray]:
    """Return the arrays of a ``.npz`` by name."""
    arrays = {}
    with open_archive(path) as archive:
        for name in array_names(path) if names is None else names:
            info = archive.getinfo(f"{name}.npy")
            with open_member(archive, info, path) as member:
                arrays[name] = read_stream(member, info.file_size, path)
    return arrays


def _read_npy(path: Path) -> np.ndarray:
    with reported_as(path, "cannot be read as .npy"), open(path, "rb") as file:
        return read_stream(file, path.stat().st_size, path)


def read_stream(file: IO[bytes], size: int, path: Path) -> np.ndarray:
    """Return an array that fits into the ``size`` bytes that its file or archive member has."""
    _read_header(file, size)
    check_memory(path, 2 * size, "the array")         # once as it is, once as float32
    file.seek(0)
    return npy.read_array(file, allow_pickle=False)


def _read_header(file: IO[bytes], size: int) -> tuple[tuple[int, ...], np.dtype]:
    """Return the shape and type of an array of plain values that ``size`` bytes can hold."""
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


def checked_matrix(
    parts: tuple[np.ndarray, np.ndarray, np.ndarray], shape: tuple[int, int], kind: Any = scipy.sparse.csr_matrix
) -> Any:
    """Return a sparse matrix of data, indices and indptr, with every index checked; a ValueError if one is invalid.

    scipy itself accepts an indptr that ends in a negative number, and then reads beyond its arrays.
    """
    _, indices, indptr = parts
    if any(part.ndim != 1 or part.dtype.kind not in "iu" for part in (indices, indptr)):
        raise ValueError("indices are not whole numbers")
    if (indptr[1:] < indptr[:-1]).any():
        raise ValueError("indptr decreases")
    matrix = kind(parts, shape=shape)
    matrix.check_format(full_check=True)
    return matrix


def csr_from_arrays(path: Path, arrays: dict[str, np.ndarray], prefix: str = "") -> scipy.sparse.csr_matrix:
    """Return a sparse matrix from the arrays that ``scipy.sparse.save_npz`` writes, with every index checked."""
    try:
        kind = arrays["format"].item() if "format" in arrays else "csr"
        kind = kind.decode() if isinstance(kind, bytes) else kind
        shape = tuple(int(size) for size in arrays[f"{prefix}shape"])
        if len(shape) != 2 or min(shape) < 0:
            raise ValueError(f"shape {shape}")
        check_memory(path, 8 * sum(shape), f"a matrix of {shape[0]:,} rows and {shape[1]:,} columns")
        data = arrays[f"{prefix}data"]
        if data.dtype.kind not in "biuf":
            raise ValueError(f"values of type {data.dtype}")
        data = data.astype(np.float32) if data.dtype == np.float16 else data       # scipy has no float16
        if kind == "coo":
            pairs = arrays["row"], arrays["col"]
            return scipy.sparse.coo_matrix((data, pairs), shape=shape).tocsr()          # checks the indices
        if kind == "dia":
            return scipy.sparse.dia_matrix((data, arrays["offsets"]), shape=shape).tocoo().tocsr()
        if kind not in COMPRESSED:
            raise ValueError(f"format {kind!r}")
        parts = data, arrays[f"{prefix}indices"], arrays[f"{prefix}indptr"]
        return scipy.sparse.csr_matrix(checked_matrix(parts, shape, COMPRESSED[kind]))
    except DataError:
        raise
    except KeyError as error:
        raise DataError.at(path, f"the array {error} of the sparse matrix is missing") from None
    except Exception as error:      # scipy raises many kinds of errors for invalid arrays
        raise DataError.at(path, f"not a sparse matrix ({error})") from None


def csr_to_arrays(matrix: scipy.sparse.csr_matrix, prefix: str) -> dict[str, np.ndarray]:
    """Return the arrays from which ``csr_from_arrays`` makes the matrix again; values as float32."""
    parts = {"data": matrix.data.astype(np.float32, copy=False), "indices": matrix.indices, "indptr": matrix.indptr}
    return {f"{prefix}{part}": array for part, array in {**parts, "shape": np.array(matrix.shape)}.items()}


def available_memory() -> int:
    """Return the bytes that can be allocated without swapping, also inside a container; a large number if unknown."""
    candidates = []
    try:
        found = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text())
        candidates.append(int(found[1]) * 1024 if found else os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (OSError, ValueError, AttributeError):
        pass                                    # not available on this system
    try:
        limit, used = (int((_CGROUP / f"memory.{name}").read_text()) for name in ("max", "current"))
        candidates.append(max(0, limit - used + _file_cache()))
    except (OSError, ValueError):
        pass                                    # not in a container, or no limit ("max")
    return min(candidates, default=1 << 62)


def _file_cache() -> int:
    """Return the bytes of a container's memory that hold parts of files, and are freed when they are needed."""
    with suppress(OSError):
        found = re.search(r"^inactive_file (\d+)", (_CGROUP / "memory.stat").read_text(), re.MULTILINE)
        return int(found[1]) if found else 0
    return 0


def check_memory(path: Path, needed: int, what: str) -> None:
    """Raise a ``DataError`` if what a file declares, of ``needed`` bytes, does not fit into the memory."""
    available = available_memory()
    if needed > available:
        sizes = f"{needed / 1e6:,.0f} MB of memory, but only {available / 1e6:,.0f} MB is available"
        raise DataError.at(path, f"{what} needs {sizes}")
