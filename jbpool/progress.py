"""Progress bars of long work."""

from __future__ import annotations

import os

from tqdm import tqdm

DELAY = 1.0             # seconds of work before a bar appears


def progress_bar(what: str, total: int | None, unit: str) -> tqdm:
    """A bar with rate and remaining time, which appears after a second of work, in the first process of a run only.

    Parameters
    ----------
    what : str
        The work.
    total : int or None
        Its amount, if known.
    unit : str
        What is counted.
    """
    hidden = int(os.environ.get("RANK", "0")) > 0       # set by torchrun
    return tqdm(
        total=total, desc=what, unit=f" {unit}", unit_scale=True, leave=False, delay=DELAY, mininterval=0.5,
        disable=hidden,
    )  # fmt: skip
