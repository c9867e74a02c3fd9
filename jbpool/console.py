"""What commands print: progress bars with the time spent on each kind of work, and output that may be closed early."""

from __future__ import annotations

import errno
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tqdm import tqdm

_WRITING = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF}         # why a stream cannot be written


def exit_on_broken_pipe(main: Callable[[], int]) -> int:
    """Return the exit code of ``main``; exit quietly if its output is closed early (``| head -1``), as on SIGPIPE."""
    try:
        try:
            return main()
        finally:
            sys.stdout.flush()                  # now, since flushing at exit would raise again
    except BrokenPipeError:
        _discard_output()
        return 128 + signal.SIGPIPE
    except OSError as error:
        if error.errno not in _WRITING or error.filename is not None:
            raise                               # not about the output
        _discard_output()
        print(f"the output cannot be written: {error.strerror}", file=sys.stderr)
        return 1


def _discard_output() -> None:
    """Discard what is still in the buffers."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


DELAY = 1.0             # seconds of work before a bar appears
LINE_SECONDS = 10       # between lines of progress
LINE = "{desc}: {percentage:3.0f}%| {n_fmt}/{total_fmt} [{elapsed}<{remaining}, {rate_fmt}{postfix}]"

seconds: dict[str, float] = {}          # kind of work -> seconds in this process so far


class Bar(tqdm):
    """A bar of tqdm, or lines of progress where standard error is not a terminal, such as a log file.

    It can be interrupted while it is made; tqdm's own raises then when it is deleted.
    """

    def __init__(self, *args, **options):
        self.in_lines, self.message = not sys.stderr.isatty(), False
        if self.in_lines:
            # miniters: the time is looked at in every update; without it tqdm's second thread adds lines.
            options |= {"delay": LINE_SECONDS, "mininterval": LINE_SECONDS, "miniters": 1}
        super().__init__(*args, **options)

    def display(self, msg=None, pos=None):
        if not self.in_lines:
            return super().display(msg, pos)
        self.bar_format = LINE if self.total else None
        if not self.message:
            self.fp.write(f"{self}\n")
        self.message = False
        return True

    def clear(self, *args, **options):
        """Make way for a message, after which the bar is displayed again."""
        self.message = self.in_lines
        if not self.in_lines:
            super().clear(*args, **options)

    def close(self):
        if self.in_lines:
            self.delay = float("inf")                       # as if nothing had been displayed: nothing is to be cleared
        super().close()

    def __del__(self):
        if hasattr(self, "start_t"):                        # set last, and not in a hidden bar
            super().__del__()


class _TimedBar(Bar):
    """Adds the time until it is closed to ``seconds``."""

    def __init__(self, what: str, **options):
        self.what = what
        self.began: float | None = time.perf_counter()
        super().__init__(desc=what, **options)

    def close(self):
        if self.began is not None:                          # tqdm closes a bar more than once
            seconds[self.what] = seconds.get(self.what, 0.0) + time.perf_counter() - self.began
            self.began = None
        super().close()


@contextmanager
def watched(what: str, **options: Any) -> Iterator[Callable[..., None]]:
    """Show a bar for work that counts itself; yield what to call with the amount done, the total, and the bits saved.

    ``options`` are those of ``tqdm``.
    """
    with Bar(desc=what, leave=False, **options) as bar:

        def watch(done: int, total: int, saved: float | None = None) -> None:
            bar.total = total
            if saved is not None:
                bar.set_postfix_str(f"{saved:.2f} bits saved per node", refresh=False)
            bar.update(done - bar.n)

        yield watch


def progress_bar(what: str, total: int | None, unit: str) -> tqdm:
    """Return a bar with rate and remaining time; it appears after a second of work, in the first process only.

    ``what``: the kind of work. ``total``: its amount in ``unit``, if known.
    """
    hidden = int(os.environ.get("RANK", "0")) > 0           # set by torchrun
    return _TimedBar(
        what, total=total, unit=f" {unit}", unit_scale=True, leave=False, delay=DELAY, mininterval=0.5, disable=hidden
    )
