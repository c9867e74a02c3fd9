"""Cache of parsed data: plain arrays, keyed by the hash of the source files and the version of the parser."""

from __future__ import annotations

import glob
import hashlib
import logging
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import numpy as np

from jbpool.atomic import atomic_file
from jbpool.data.sources import cache_dir

Arrays = dict[str, np.ndarray]
KEY = 24                # hex digits of the hash in the name of a cache file
VERSIONS = 10           # cached versions kept per name of a dataset

log = logging.getLogger(__name__)


def hash_files(files: Iterable[Path]) -> str:
    """SHA-256 over the names and contents of files, in order."""
    whole = hashlib.sha256()
    for path in files:
        digest = hashlib.sha256(path.name.encode() + b"\0")
        with open(path, "rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
        whole.update(digest.digest())           # of fixed length, so that boundaries between files count
    return whole.hexdigest()


def hash_arrays(arrays: Arrays) -> str:
    """SHA-256 over the names, types, shapes and values of arrays."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape}\0".encode())
        digest.update(array.data if array.size else b"")
    return digest.hexdigest()


def cached(name: str, files: Iterable[Path], version: int, parse: Callable[[], Arrays]) -> Arrays:
    """``parse()``, or its cached result for the same files and parser version.

    A damaged cache file is replaced. If the cache cannot be written, the data are parsed again the next time.

    Parameters
    ----------
    name : str
        Start of the name of the cache file.
    files : iterable of Path
        The source files.
    version : int
        Version of the parser.
    parse : callable
        Returns the arrays.
    """
    key = hash_files(files)[:KEY]
    path = cache_dir() / "parsed" / f"{name}-{key}-v{version}.npz"
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as stored:
            arrays = dict(stored)
        if str(arrays.pop("digest", None)) == hash_arrays(arrays):
            with suppress(OSError):
                os.utime(path)                              # used now
            return arrays
        log.warning("%s has changed since it was written: parsing again", path)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except Exception as error:              # a damaged file can fail in any way
        log.warning("%s is damaged (%s): parsing again", path, error)
    arrays = parse()
    try:
        with atomic_file(path) as kept:
            np.savez(kept, digest=np.array(hash_arrays(arrays)), **arrays)      # type: ignore[arg-type]
        _remove_old(path.parent, name)
    except OSError as error:
        log.warning("cannot write %s to the cache: %s", path, error)
    return arrays


def _remove_old(folder: Path, name: str) -> None:
    """Keep the versions of a dataset that were used last: every change of its files leaves another."""
    with suppress(OSError):
        versions = folder.glob(f"{glob.escape(name)}-{'[0-9a-f]' * KEY}-v*.npz")
        for path in sorted(versions, key=lambda path: path.stat().st_mtime, reverse=True)[VERSIONS:]:
            path.unlink()
