"""Parsed data in the cache of the user: plain arrays, keyed by the hash of their source and the parser's version."""

from __future__ import annotations

import hashlib
import logging
import zipfile
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from jbpool.data.sources import cache_dir, write_atomically

Arrays = dict[str, np.ndarray]

log = logging.getLogger(__name__)


def hash_files(files: Iterable[Path]) -> str:
    """SHA-256 over the contents of files, in order."""
    digest = hashlib.sha256()
    for path in files:
        with open(path, "rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


def cached(name: str, files: Iterable[Path], version: int, parse: Callable[[], Arrays]) -> Arrays:
    """``parse()``, or what it gave the last time for the same files and parser version.

    A cache file that does not read back whole (the zip format checks every array) is made anew, not trusted; where
    the cache cannot be written, the data is simply parsed again the next time.
    """
    key = hash_files(files)[:24]
    path = cache_dir() / "parsed" / f"{name}-{key}-v{version}.npz"
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as stored:
            return dict(stored)
    except FileNotFoundError:
        pass
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        log.warning("%s is damaged (%s): parsing again", path, error)
    arrays = parse()
    try:
        write_atomically(path, lambda file: np.savez(file, **arrays))      # type: ignore[arg-type]
    except OSError as error:
        log.warning("cannot keep %s in the cache: %s", path, error)
    return arrays
