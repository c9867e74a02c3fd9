"""The text of a file, plain or ``.gz``, in blocks of whole lines."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from jbpool.console import progress_bar
from jbpool.data.archive import unpacked_limit
from jbpool.errors import DataError
from jbpool.memory import available_memory, require_memory

BLOCK = 16 << 20                # bytes read at a time
MAX_LINE = 16 << 20             # bytes of a line, where a file is read in blocks
TEXT_FACTOR = 8                 # memory that parsing takes, in sizes of the text, at most
PLAIN_FACTOR = 3                # the same for a table of numbers; 2.4 was measured


@dataclass(frozen=True)
class Block:
    """Whole lines of a file, all ending in LF, without a byte-order mark."""

    content: bytes              # comment lines are blank, so that line numbers stay
    comments: int               # how many there were
    before: int                 # lines of the file before this block
    share: float                # of the file that has been read, this block included


def read_text(path: Path) -> Block:
    """The whole text of a file as one block."""
    if path.is_file():
        require_memory(path, PLAIN_FACTOR * path.stat().st_size, "the table")
    parts = _whole_lines(path, available_memory() // TEXT_FACTOR, None)
    return _cleaned(path, b"".join(part for part, _ in parts), 0, 1.0)


def read_blocks(path: Path) -> Iterator[Block]:
    """The text of a file, ``BLOCK`` bytes at a time; nothing for an empty file."""
    before = 0
    for part, share in _whole_lines(path, None, MAX_LINE):
        block = _cleaned(path, part, before, share)
        before += block.content.count(b"\n")
        yield block


def _whole_lines(path: Path, limit: int | None, max_line: int | None) -> Iterator[tuple[bytes, float]]:
    """Raw parts that end where a line ends, and the share of the file read so far.

    Parameters
    ----------
    path : Path
        The file.
    limit : int or None
        Maximum number of bytes a compressed file may unpack to, besides the limit by its size.
    max_line : int or None
        Maximum number of bytes of a line.
    """
    if not path.is_file():
        raise DataError.at(path, "is a folder, give a file" if path.is_dir() else "no such file")
    try:
        size = path.stat().st_size
        with open(path, "rb") as raw, progress_bar(f"reading {path.name}", size, "bytes") as bar:
            is_packed = raw.peek(2)[:2] == b"\x1f\x8b"              # gzip, whatever the name of the file
            file = gzip.GzipFile(fileobj=raw) if is_packed else raw
            left = unpacked_limit(size) if limit is None else min(unpacked_limit(size), limit)
            rest = b""
            while block := file.read(BLOCK):
                left -= len(block)
                if left < 0 and is_packed:
                    raise DataError.at(path, "unpacks to more than its size or the available memory allows")
                bar.update(raw.tell() - bar.n)
                rest += block
                end = _end_of_last_line(rest)
                if end:
                    yield rest[:end], raw.tell() / size
                    rest = rest[end:]
                if max_line is not None and len(rest) > max_line:
                    raise DataError.at(path, f"a line of more than {max_line:,} bytes: this is not a table of edges")
            if rest:
                yield rest, 1.0
    except (OSError, EOFError, zlib.error) as error:
        raise DataError.at(path, f"cannot be read ({error})") from None


def _end_of_last_line(text: bytes) -> int:
    """How many bytes of the text are whole lines; a CR at its very end may be half a CRLF."""
    return text.rfind(b"\n") + 1 or text.rfind(b"\r", 0, -1) + 1


def _cleaned(path: Path, content: bytes, before: int, share: float) -> Block:
    if before == 0:
        content = content.removeprefix(b"\xef\xbb\xbf")
    if b"\r" in content:
        content = content.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    try:
        if not content.isascii():
            content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = before + content.count(b"\n", 0, error.start) + 1
        raise DataError.at(path, f"not UTF-8 text ({error.reason})", line) from None
    if b"\0" in content:
        line = before + content.count(b"\n", 0, content.index(b"\0")) + 1
        cure = "this is not a text table, or not in UTF-8; save it as UTF-8"
        raise DataError.at(path, f"contains a zero byte: {cure}", line)
    comments = 0
    if b"#" in content or b"%" in content:
        content, comments = re.subn(rb"(?m)^[ \t]*[#%][^\n]*", b"", content)
    return Block(content, comments, before, share)
