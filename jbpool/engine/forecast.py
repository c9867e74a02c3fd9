"""The expected duration of a run, printed soon after training has started if it exceeds a minute."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from tqdm import tqdm

MEASURED = 2.0          # seconds of training before extrapolating
WORTH_SAYING = 60.0     # total seconds


@dataclass
class Forecast:
    """Extrapolates from the first epochs to the whole run, and prints the estimate once.

    Parameters
    ----------
    trainings : int
        Number of training runs left, of about the same length.
    what : str
        Their description, such as ``"3 seeds x 5 starts"``.
    shorter : str
        How to shorten the run, for the message.
    say : callable, optional
        Prints the message. Default: ``tqdm.write``.
    clock : callable, optional
        Returns the time in seconds. Default: ``time.monotonic``.
    told : bool, default False
        Whether the estimate has been printed.
    """

    trainings: int
    what: str
    shorter: str
    say: Callable[[str], object] = tqdm.write
    clock: Callable[[], float] = time.monotonic
    told: bool = False

    def begin(self, epoch: int) -> None:
        """A training starts, or resumes after ``epoch`` epochs."""
        self.trainings -= 1
        self.first, self.began = epoch, self.clock()

    def after(self, epoch: int, epochs: int, stops_early: bool) -> None:
        """``epoch`` of ``epochs`` epochs are done."""
        seconds = self.clock() - self.began
        if self.told or seconds < MEASURED:
            return
        self.told = True
        left = seconds / (epoch - self.first) * (epochs - epoch + self.trainings * epochs)
        total = seconds + left
        if total > WORTH_SAYING:
            about = "up to" if stops_early else "about"
            self.say(f"{about} {duration(total)} for {self.what} x {epochs} epochs; {self.shorter}")


def duration(seconds: float) -> str:
    """``"16 min"``, ``"3.5 h"``, ``"12 days"``."""
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    hours = seconds / 3600
    return f"{hours:.1f} h" if hours < 48 else f"{hours / 24:,.0f} days"


def count(number: int, noun: str) -> str:
    """``"1 seed"``, ``"3 seeds"``."""
    return f"{number} {noun}" + ("" if number == 1 else "s")
