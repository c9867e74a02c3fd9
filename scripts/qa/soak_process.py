"""Inside the processes of ``soak.py``: know the phase of a run, kill it, spoil its disk, watch its memory."""

from __future__ import annotations

import contextlib
import functools
import io
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jbpool import files
from jbpool.classification import run as classification_runner
from jbpool.clustering import run as clustering_runner
from jbpool.engine import fit

PHASES = ("training", "writing", "reporting")
STEPS = 10_000


class Phases:
    """Which phase a run is in; calls ``change(phase)`` whenever another one begins."""

    def __init__(self, change: Callable[[str], None]) -> None:
        self.inside: list[str] = ["start"]
        self.change = change
        step, replace = fit.mean_gradients, os.replace

        def first_step(parameters: Any) -> None:
            if self.inside == ["start"]:
                self.inside = ["training"]
                change("training")
            step(parameters)

        class File(io.FileIO):
            def __init__(this, *args: Any) -> None:  # noqa: N805
                self.enter("writing")
                super().__init__(*args)

            def close(this) -> None:  # noqa: N805
                was_open = not this.closed
                super().close()
                if was_open:
                    self.leave()

        def replaced(part: Path, target: Path) -> None:
            self.enter("writing")
            replace(part, target)
            self.leave()

        fit.CHECKPOINT_SECONDS, fit.mean_gradients = -1, first_step
        setattr(os, "replace", replaced)  # noqa: B010
        setattr(files, "open", lambda *args: io.BufferedWriter(File(*args)))  # noqa: B010
        for module in (clustering_runner, classification_runner):       # that write the page
            setattr(module, "page", self.reporting(getattr(module, "page")))  # noqa: B009, B010 - of either module

    def enter(self, phase: str) -> None:
        self.inside.append(phase)
        self.change(phase if self.inside[0] != "start" else "start")

    def leave(self) -> None:
        self.inside.pop()
        self.change(self.inside[-1] if self.inside[0] != "start" else "start")

    def reporting(self, page: Callable[..., str]) -> Callable[..., str]:
        @functools.wraps(page)
        def wrapped(*args: Any) -> str:
            self.enter("reporting")
            try:
                return page(*args)
            finally:
                self.leave()

        return wrapped


def measure(used: Any) -> None:
    """Add up the processor time of every phase in ``used``, a shared array."""
    last = ["start"]
    began = [0.0]

    def change(phase: str) -> None:
        now = time.process_time()
        if last[0] in PHASES:
            used[PHASES.index(last[0])] += now - began[0]
        last[0], began[0] = phase, now

    Phases(change)


def die_after(phase: str, seconds: float) -> None:
    """End this process at once, without any clean-up, after this much processor time inside a phase."""
    left, entered = [seconds], [time.process_time()]
    inside = ["start"]

    def change(now: str) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        if inside[0] == phase:
            left[0] -= time.process_time() - entered[0]
            if left[0] <= 0:                                    # the timer only ticks every few milliseconds
                os.kill(os.getpid(), signal.SIGKILL)
        inside[0], entered[0] = now, time.process_time()
        if now == phase:
            signal.setitimer(signal.ITIMER_PROF, max(left[0], 1e-6))

    signal.signal(signal.SIGPROF, signal.SIG_DFL)               # ends the process, as SIGKILL does
    Phases(change)


def spoil_at(number: int, disk: Path, how: str) -> None:
    """Fill the disk, or make it read-only, before the file of this number is written."""
    numbers = iter(range(10**6))

    def counted(*args: Any) -> Any:
        if next(numbers) == number:
            spoil(disk, how)
        return open(*args)

    fit.CHECKPOINT_SECONDS = -1
    setattr(files, "open", counted)  # noqa: B010 - instead of the built-in one


def spoil(disk: Path, how: str) -> None:
    if how == "read-only":
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    else:
        with contextlib.suppress(OSError), open(disk / "filler", "wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))


def watch_memory(sizes: Any) -> None:
    """Keep the memory of this process, in MB, at every hundredth of ``STEPS``."""
    step, steps = fit.mean_gradients, iter(range(10**9))

    def counted(parameters: Any) -> None:
        number = next(steps)
        if number % (STEPS // 100) == 0 and number < STEPS:
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            sizes[number // (STEPS // 100)] = pages * os.sysconf("SC_PAGE_SIZE") / 1e6
        step(parameters)

    fit.mean_gradients = counted
