"""Reading zip archives from outside without trusting them: no path traversal, no links, no bombs."""

from __future__ import annotations

import stat
import zipfile
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from jbpool.errors import DataError

MAX_BYTES = 4 << 30             # unpacked, all members together
MAX_MEMBERS = 10_000


def open_archive(path: Path) -> zipfile.ZipFile:
    """Open a zip archive, or say that it is none."""
    try:
        return zipfile.ZipFile(path)
    except zipfile.BadZipFile as error:
        raise DataError.at(path, f"not a zip archive ({error}); delete it and fetch it again") from None


def read_members(path: Path, names: Iterable[str], max_bytes: int = MAX_BYTES) -> dict[str, bytes]:
    """Contents of the named members, held in memory; nothing is written to disk."""
    contents = {}
    with open_archive(path) as archive:
        for name in names:
            try:
                contents[name] = _read(archive, archive.getinfo(name), max_bytes, path)
            except KeyError:
                raise DataError.at(path, f"the archive has no member {name}") from None
            max_bytes -= len(contents[name])
    return contents


def extract(path: Path, folder: Path, max_bytes: int = MAX_BYTES) -> None:
    """Unpack an archive below ``folder``: plain files only, none outside it."""
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
        for info in members:
            content = _read(archive, info, max_bytes, path)
            max_bytes -= len(content)
            target = folder / info.filename
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)


def _read(archive: zipfile.ZipFile, info: zipfile.ZipInfo, max_bytes: int, path: Path) -> bytes:
    """One member, at most ``max_bytes`` of it: the size in its header is a claim, not a fact."""
    try:
        with archive.open(info) as member:
            content = member.read(max(0, max_bytes) + 1)
    except (zipfile.BadZipFile, EOFError, OSError, RuntimeError, NotImplementedError) as error:
        raise DataError.at(path, f"member {info.filename!r} is damaged ({error})") from None
    if len(content) > max_bytes:
        raise DataError.at(path, f"member {info.filename!r} unpacks to more than is allowed")
    return content
