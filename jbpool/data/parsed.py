"""The cache of what was parsed: tables and pickles are read once, their arrays afterwards."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from jbpool.data.arrays import Arrays, read_arrays
from jbpool.errors import DataError, reported_as
from jbpool.files import atomic_file

BLOCK_BYTES = 1 << 20
KEY = 24                # hex digits of the hash in the name of a cache file

log = logging.getLogger(__name__)


def cache_dir() -> Path:
    """Return the user's cache: ``$XDG_CACHE_HOME/jbpool``, by default ``~/.cache/jbpool``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "jbpool"


def cached(name: str, files: Iterable[Path], version: int, parse: Callable[[], Arrays]) -> Arrays:
    """Return ``parse()``, or its cached result for the same files and parser version.

    A damaged cache file is replaced. If the cache cannot be written, the data are parsed again the next time.
    """
    path = cache_dir() / "parsed" / f"{name}-{hash_files(files)[:KEY]}-v{version}.npz"
    if path.is_file():
        try:
            return read_arrays(path)
        except DataError as error:
            log.warning("%s: parsing again", error)
    arrays = parse()
    try:
        with atomic_file(path) as kept:
            np.savez(kept, **arrays)      # type: ignore[arg-type]
    except OSError as error:
        log.warning("no cache: %s", error)
    return arrays


def hash_files(files: Iterable[Path]) -> str:
    """Return the SHA-256 over the names and contents of files, in order."""
    whole = hashlib.sha256()
    for path in files:
        with reported_as(path, "cannot be read"), open(path, "rb") as file:
            digest = hashlib.sha256(path.name.encode() + b"\0")
            while block := file.read(BLOCK_BYTES):
                digest.update(block)
        whole.update(digest.digest())           # of fixed length, so that boundaries between files count
    return whole.hexdigest()


def check_counts(place: Path, name: str, of: str, counts: Sequence[object], published: Sequence[object]) -> None:
    """Refuse files with other counts than the published ones; mirrors have re-packed them, so there is no hash."""
    if tuple(counts) != tuple(published):
        raise DataError.at(place, f"{of}: {tuple(counts)}, but {name} has {tuple(published)}; download it again")
