"""Safe reading of untrusted zip archives: no path traversal, no links, no zip bombs."""

from __future__ import annotations

import stat
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from jbpool.errors import DataError
from jbpool.memory import available_memory

MAX_BYTES = 4 << 30             # unpacked, all members together
MAX_MEMBERS = 10_000
MAX_RATIO = 200                 # unpacked to packed size; graphs as text reach about 20, zeros 1,000
FREE_BYTES = 16 << 20           # unpacked size up to which any ratio is accepted
BLOCK = 1 << 20


def open_archive(path: Path) -> zipfile.ZipFile:
    """Open a zip archive; a ``DataError`` says why it cannot be opened."""
    try:
        return zipfile.ZipFile(path)
    except FileNotFoundError:
        raise DataError.at(path, "no such file") from None
    except Exception as error:      # zipfile raises many kinds of errors for damaged files
        raise DataError.at(path, f"not a zip archive ({error}); replace it by an intact copy") from None


def unpacked_limit(packed: int, max_bytes: int = MAX_BYTES) -> int:
    """The maximum unpacked size of a compressed file of this size, in bytes."""
    return min(max_bytes, max(FREE_BYTES, MAX_RATIO * packed))


def read_members(path: Path, names: Iterable[str], max_bytes: int = MAX_BYTES) -> dict[str, bytes]:
    """Contents of the named members, in memory; nothing is written to disk."""
    contents = {}
    with open_archive(path) as archive:
        limit = min(unpacked_limit(path.stat().st_size, max_bytes), available_memory())
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
        cure = "; if you trust it, unpack it yourself and use the folder"
        _check_sizes(members, unpacked_limit(path.stat().st_size, max_bytes), path, cure)
        for info in members:
            target = folder / info.filename
            target.parent.mkdir(parents=True, exist_ok=True)
            with open_member(archive, info, path) as member, open(target, "wb") as file:
                file.writelines(_blocks(member, info))


@contextmanager
def open_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path) -> Iterator[IO[bytes]]:
    """A member as a stream; any error while reading is reported as a damaged archive."""
    try:
        with archive.open(info) as member:
            yield member
    except DataError:
        raise
    except Exception as error:      # zlib.error, NotImplementedError, struct.error, EOFError, ...
        raise DataError.at(path, f"member {info.filename!r} is damaged ({error})") from None


def _check_sizes(members: list[zipfile.ZipInfo], limit: int, path: Path, cure: str = "") -> None:
    total = sum(info.file_size for info in members)
    if total > limit:
        raise DataError.at(path, f"its members unpack to {total:,} bytes, more than the limit of {limit:,}{cure}")


def _blocks(member: IO[bytes], info: zipfile.ZipInfo) -> Iterator[bytes]:
    """The content in blocks; an error if its size is not the one that the header declares."""
    left = info.file_size
    while block := member.read(BLOCK):
        left -= len(block)
        if left < 0:
            raise ValueError("longer than its header declares")
        yield block
    if left:
        raise ValueError("shorter than its header declares")
