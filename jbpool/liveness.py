"""Signs of life of the processes of a run: one that was stopped, or whose machine is gone, closes no connection.

A child of each process counts in the store of the group: Python runs no thread while a long call of C holds its lock.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from torch import distributed

BEAT = 5.0              # seconds between two signs of life
PATIENCE = 9            # beats without one
ENDED = 1 << 40         # the count of a process that has ended, as its connections tell the others
SILENT = 3              # exit code of a child
MESSAGE = "another process of this run gives no sign of life: this one stops; --resume continues from the checkpoint."


@contextmanager
def signs_of_life() -> Iterator[None]:
    """Give signs of life to the other processes, and end this one where one of them gives none."""
    if not hasattr(os, "fork") or os.environ["WORLD_SIZE"] == "1":
        yield
        return
    parent, child = os.getpid(), os.fork()          # before there are connections, which a child would keep open
    if child == 0:
        with suppress(BaseException):
            _watch(parent)
        os._exit(0)
    ending = threading.Lock()                       # who has it says why, so that there is one line
    threading.Thread(target=_end_with, args=(child, ending), daemon=True).start()
    try:
        yield
    finally:
        ending.acquire()
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGTERM)


def _end_with(child: int, ending: threading.Lock) -> None:
    _, status = os.waitpid(child, 0)
    if os.waitstatus_to_exitcode(status) == SILENT and ending.acquire(blocking=False):
        os.write(sys.stderr.fileno(), f"{MESSAGE}\n".encode())
        os._exit(1)                                 # the main thread may wait for a message for ever


class _Counter(threading.Thread):
    """Adds ``step`` to the count of this process in the store, and keeps those of all."""

    def __init__(self):
        super().__init__(daemon=True)
        self.step, self.counts = 0, [0] * int(os.environ["WORLD_SIZE"])

    def run(self) -> None:
        mine, address, port = (os.environ[name] for name in ("RANK", "MASTER_ADDR", "MASTER_PORT"))
        with suppress(distributed.DistError):           # the store is closed: all have ended, or a message says so
            store, step = distributed.TCPStore(address, int(port), wait_for_workers=False), 0
            while step < ENDED:
                step = self.step
                for place in range(len(self.counts)):
                    self.counts[place] = store.add(f"jbpool/alive/{place}", step if place == int(mine) else 0)
                time.sleep(BEAT / 2)
        self.counts[:] = [ENDED] * len(self.counts)


def _watch(parent: int) -> None:
    """Look at the counts while the parent lives; give up a process that does not run."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):                               # torch prints calls of C++ where the store is closed
        os.dup2(nowhere, stream)
    counter = _Counter()
    counter.start()
    before, silent, stopped = [*counter.counts], [*counter.counts], 0           # silent: beats without a sign
    try:
        while os.getppid() == parent:
            stopped = stopped + 1 if _is_stopped(parent) else 0
            counter.step = int(not stopped)
            time.sleep(BEAT)
            now = [*counter.counts]
            silent = [beats + 1 if new == old else 0 for new, old, beats in zip(now, before, silent, strict=True)]
            before = now
            if stopped > PATIENCE:
                os.kill(parent, signal.SIGKILL)
            elif any(beats > PATIENCE and 0 < count < ENDED for beats, count in zip(silent, now, strict=True)):
                os._exit(SILENT)
    finally:
        counter.step = ENDED
        counter.join(2 * BEAT)                          # if the store answers


def _is_stopped(process: int) -> bool:
    """Return whether a process was stopped by a signal; only Linux says so."""
    with suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] in "Tt"
    return False
