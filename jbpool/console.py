"""What commands print: progress bars, scores and settings; output may be closed early."""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from tqdm import tqdm

_WRITING = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF}         # why a stream cannot be written
LINE_SECONDS = 10       # between lines of progress
LINE = "{l_bar} {n_fmt}/{total_fmt} [{elapsed}<{remaining}, {rate_fmt}{postfix}]"


def exit_on_broken_pipe(main: Callable[[], int]) -> int:
    """Return the exit code of ``main``; exit quietly if its output is closed early (``| head -1``), as on SIGPIPE."""
    try:
        try:
            return main()
        finally:
            sys.stdout.flush()                  # now, since flushing at exit would raise again
    except OSError as error:
        closed = isinstance(error, BrokenPipeError)
        if not closed and (error.errno not in _WRITING or error.filename is not None):
            raise                               # not about the output
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())                  # for what is in its buffer
        if closed:
            return 128 + signal.SIGPIPE
        print(f"the output cannot be written: {error.strerror}", file=sys.stderr)
        return 1


@contextmanager
def quitting_on_interrupt() -> Iterator[None]:
    """End the process at once on Ctrl-C inside the block: an exception inside an import may be lost or disguised."""

    def stop(*_: Any) -> None:
        os.write(2, b"\ninterrupted.\n")
        os._exit(130)

    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler or threading.current_thread() is not threading.main_thread():
        yield                                                               # ignored, or handled by someone else
        return
    signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class _Lines:
    """Standard error where every state of a bar is a line of its own, as in a log."""

    def write(self, text: str) -> None:
        if state := text.replace("\x1b[A", "").strip():                       # tqdm goes up a line, and blanks it
            sys.stderr.write(f"{state}\n")

    def flush(self) -> None:
        sys.stderr.flush()


class Bar(tqdm):
    """A bar of tqdm in the first process, or lines of progress where standard error is no terminal."""

    def __init__(self, *args: Any, **options: Any):
        first = int(os.environ.get("RANK", "0")) == 0                           # set by torchrun
        options = {"leave": False, "mininterval": 0.5, "disable": not first, **options}
        if not sys.stderr.isatty():
            # miniters: the time is looked at in every update; without it tqdm's second thread adds lines.
            options |= {"file": _Lines(), "bar_format": LINE, "delay": LINE_SECONDS, "miniters": 1}
            options["mininterval"] = LINE_SECONDS
        super().__init__(*args, **options)


@contextmanager
def watched(what: str, **options: Any) -> Iterator[Callable[..., None]]:
    """Show a bar for work that counts itself; yield what to call with the amount done, the total, and the bits saved.

    ``options`` are those of ``tqdm``.
    """
    with Bar(desc=what, **options) as bar:

        def watch(done: int, total: int, saved: float | None = None) -> None:
            bar.total = total
            if saved is not None:
                bar.set_postfix_str(f"{saved:.2f} bits saved per node", refresh=False)
            bar.update(done - bar.n)

        yield watch


def progress_bar(what: str, total: int | None, unit: str) -> Bar:
    """Return a bar with rate and remaining time for ``total`` of ``unit``; it appears after a second of work."""
    return Bar(desc=what, total=total, unit=f" {unit}", unit_scale=True, delay=1.0)


def plural(number: int, noun: str) -> str:
    """Return ``"1 seed"``, ``"3 seeds"``."""
    return f"{number} {noun}" + ("" if number == 1 else "s")


# Scores whose names do not say it
MEANING = {
    "score": "bits per node that the clusters save in describing edges and features",
    "moved": "nodes that changed their cluster after the training, for one that explains them better",
}


def print_scores(method: str, scores: dict[str, Any], paper: tuple[float | None, ...] | None) -> None:
    """Print the mean scores; beside them the paper's ``(ACC, its deviation, NMI, its deviation)``, if it has any."""
    print(method)
    published = {} if paper is None else {"acc": paper[0], "nmi": paper[2]}
    for key, value in scores["mean"].items():
        whole = all(isinstance(run.get(key), int) for run in scores["runs"]) and scores["std"][key] == 0
        line = f"{key:>18} {value:8.{0 if whole else 3}f}"
        line += f" +- {scores['std'][key]:.3f}" if len(scores["runs"]) > 1 and not whole else ""
        notes = [f"the paper's {method}: {published[key]:.3f}"] if key in published else []
        notes += [MEANING[key]] if key in MEANING else []
        print(line + (f"   ({'; '.join(notes)})" if notes else ""))


def print_settings(settings: Iterable[tuple[str, Any, Any, str]]) -> None:
    """Print a table of settings: key, value, default and origin of each."""
    rows = [("setting", "value", "default", "origin")]
    rows += [(key, json.dumps(value), json.dumps(default), origin) for key, value, default, origin in settings]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for row in rows:
        print("  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]]))
