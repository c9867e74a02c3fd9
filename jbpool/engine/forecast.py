"""How long a run will take: one line, soon after training has begun, if it is more than a minute."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from tqdm import tqdm

MEASURED = 2.0          # seconds of training to extrapolate from
WORTH_SAYING = 60.0     # seconds in all


@dataclass
class Forecast:
    """Extrapolates from the first epochs of a run to all that are left, and says so once.

    Parameters
    ----------
    trainings : int
        How many trainings are still to come, of about the same length.
    what : str
        What they are, such as ``"3 seeds x 5 starts"``.
    shorter : str
        How to make the run shorter.
    """

    trainings: int
    what: str
    shorter: str
    say: Callable[[str], object] = tqdm.write
    clock: Callable[[], float] = time.monotonic
    told: bool = False

    def begin(self, epoch: int) -> None:
        """A training begins, or continues, after ``epoch`` epochs."""
        self.trainings -= 1
        self.first, self.began = epoch, self.clock()

    def after(self, epoch: int, epochs: int, stops_early: bool) -> None:
        """``epoch`` of ``epochs`` epochs are done."""
        seconds = self.clock() - self.began
        if self.told or seconds < MEASURED:
            return
        self.told = True
        left = seconds / (epoch - self.first) * (epochs - epoch + self.trainings * epochs)
        if seconds + left > WORTH_SAYING:
            about = "up to" if stops_early else "about"
            self.say(f"{about} {duration(seconds + left)} for {self.what} x {epochs} epochs; {self.shorter}")


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
