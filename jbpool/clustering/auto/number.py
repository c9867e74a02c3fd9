"""How many clusters, and whether they are real.

A graph that blocks describe (``paths``) has the number whose partition shortens the description of its edges most. The
largest number is clustered once; then the two clusters whose union costs least become one, again and again, and after
each union all nodes move once: one partition for every number of clusters, at about the price of the largest.

Where there is more structure than blocks, as among neighbours or in a space, descriptions become shorter with ever more
of them. There, the number is the smallest one whose clusters two halves of the data (``halves``) agree about as well as
about any other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from jbpool.clustering.auto.anchors import STAY
from jbpool.clustering.auto.halves import Halves
from jbpool.clustering.auto.merging import Partition, unions
from jbpool.clustering.auto.refinement import Evidence

DESCRIBED = 1.4         # ``closure`` up to which blocks describe a graph
NOISE = 0.2             # agreement of halves below which clusters may be noise
TOLERANCE = 0.02        # difference of agreements that means nothing
FALL, KINK, END = 0.05, 0.4, 0.85       # when a number stands out by the agreement: ``stands_out``
DIVIDED, CROSSED = 0.18, 0.8            # nats of the borders that twice as many clusters cross: it does; it does not
KEPT = 0.8              # share of the best agreement that is enough for the number of previous clusters: seeds differ
EVERY, GROWTH = 15, 1.1         # numbers tried: every one up to 15, then each a tenth larger, and all around the best
KNOWN_GROWTH = 1.5              # each is half as large again where the description decides


class Level(NamedTuple):
    """A number of clusters that was tried."""

    n_clusters: int
    reproducibility: float | None   # agreement of the clusters of two halves of the data; None if it was not measured
    saved: float | None             # bits per node that so many clusters save in describing the edges
    level: bool                     # whether it is a local maximum of what decides


class Choice(NamedTuple):
    """The number of clusters, and what it was chosen by."""

    num_clusters: int               # 1 if no number in the range saves anything
    by: Literal["reproducibility", "description", "given", "previous"] = "given"
    reproducibility: float | None = None    # of this number (of one cluster: the best one), 0 by chance, 1 the same
    levels: tuple[Level, ...] = ()          # every number that was tried; none if it is given
    notes: tuple[str, ...] = ()             # what a user should know

    @property
    def savings(self) -> dict[int, float] | None:
        """K -> bits per node that K clusters save in describing the edges; ``None`` for a given number."""
        return {row.n_clusters: row.saved for row in self.levels if row.saved is not None} if self.levels else None

    def keeping(self, number: int) -> Choice:
        """Return the choice of this number, that of previous clusters, unless another one is clearly better."""
        agreement = {row.n_clusters: row.reproducibility for row in self.levels if row.reproducibility is not None}
        curve = self.savings if self.by == "description" else agreement
        if not curve or self.num_clusters == 1 or not min(curve) <= number <= max(curve):
            return self

        def at(count: int, values: dict[int, float]) -> float:
            return float(np.interp(count, [*values], [*values.values()]))

        if at(number, curve) < (STAY if self.by == "description" else KEPT) * at(self.num_clusters, curve):
            return self
        mean = at(number, agreement) if agreement else None
        return self._replace(num_clusters=number, by="previous", reproducibility=mean,
                             notes=() if mean is None else _noise_notes(mean))  # fmt: skip

    def described(self) -> dict[str, Any]:
        """Return number and agreement, with the table of all numbers tried, as an AnnData can hold them."""
        import pandas as pd

        said: dict[str, Any] = {"n_clusters": self.num_clusters, "chosen_by": self.by}
        if self.reproducibility is not None:
            said["reproducibility"] = self.reproducibility
        if self.levels:
            said["levels"] = pd.DataFrame(self.levels).astype(float)        # of None, which the file cannot hold, NaN
        return said


def ranked(savings: dict[int, float]) -> list[int]:
    """Return the numbers of clusters, best first; of equally good ones the smallest."""
    return sorted(savings, key=lambda k: (-savings[k], k))


def given(num_clusters: int, agreement: dict[int, Tensor]) -> Choice:
    """Return a number that is given, with its reproducibility; ``agreement`` as for ``choose_number``."""
    mean = float(agreement[num_clusters].mean())
    return Choice(num_clusters, "given", mean, notes=_noise_notes(mean))


def choose_number(
    low: int,
    high: int,
    savings: dict[int, float],
    closure: float,
    agreement: dict[int, Tensor],
    crossing: Callable[[int], float],
) -> Choice:
    """Choose the number of clusters from ``low`` to ``high``.

    ``savings``: K -> bits per node that K clusters save in describing the edges. ``closure``: whether blocks describe
    the graph, as ``paths.closure`` returns it. ``agreement``: K -> that of the halves in every split, ``(splits,)``.
    ``crossing``: K -> how much twice as many clusters cross their borders, as ``Halves.crossing``.
    """
    curve = {k: float(splits.mean()) for k, splits in sorted(agreement.items())}
    most = max(curve, key=lambda k: curve[k])
    shortest, described = ranked(savings)[0], is_described(closure, savings)
    if described or curve[most] < NOISE or 1 < max(savings) < low:
        by: Literal["reproducibility", "description"] = "description"
        chosen = shortest if savings[shortest] > 0 else 1
        levels, notes = local_maxima(savings), _description_notes(chosen, low, high)
        notes += () if described or chosen == 1 else _noise_notes(curve[most])
    else:
        by = "reproducibility"
        error = max(_standard_error(agreement, most), TOLERANCE)
        chosen = min(k for k in curve if curve[k] >= curve[most] - error)
        levels = {k for k in local_maxima(curve) if curve[k] >= NOISE}
        clear = stands_out(curve, chosen, crossing(chosen))
        notes = _reproducibility_notes(clear, chosen, low, max(curve), levels)
    rows = (Level(k, curve.get(k), savings.get(k), k in levels) for k in sorted(curve.keys() | savings.keys()))
    return Choice(chosen, by, curve.get(chosen, curve[most]), tuple(rows), notes)


def is_described(closure: float, savings: dict[int, float]) -> bool:
    """Return whether blocks describe a graph, and save anything; parameters as for ``choose_number``."""
    return closure <= DESCRIBED and max(savings.values()) > 0


def _standard_error(agreement: dict[int, Tensor], most: int) -> float:
    """Return that of the best mean over the splits, pooled down to half the number; 0 for a single split."""
    splits = torch.stack([agreement[k] for k in agreement if most / 2 <= k <= most])    # (numbers, splits)
    return float((splits.var(1).mean() / splits.shape[1]).sqrt()) if splits.shape[1] > 1 else 0.0


def local_maxima(curve: dict[int, float]) -> set[int]:
    """Return the numbers whose value no number close to them exceeds, without ripples that a larger number exceeds.

    Close are the next ones, and those that differ by an eighth. The largest number counts only if it is alone: more
    clusters may be better.
    """
    numbers = sorted(curve)
    maxima = set(numbers) if len(numbers) == 1 else set()
    for place, k in enumerate(numbers[:-1]):
        close = [n for i, n in enumerate(numbers) if n != k and (abs(i - place) == 1 or abs(n - k) <= k / 8)]
        higher = [n for n in numbers[place + 1 :] if curve[n] > curve[k]]
        dip = curve[k] - min(curve[n] for n in numbers[place:] if not higher or n < higher[0])
        peak = all(curve[n] < curve[k] if n < k else curve[n] <= curve[k] for n in close)
        if peak and (not higher or dip >= TOLERANCE):
            maxima.add(k)
    return maxima


def stands_out(curve: dict[int, float], chosen: int, crossing: float) -> bool:
    """Return whether a number of clusters is better than others, rather than one of many that divide a space.

    It is where twice as many clusters only divide them, and is not where these cross all of their borders. Between, the
    agreement has to fall after the number, or to rise up to it and not beyond: without clusters, and where there are
    more than the range has, it rises steadily. Compared are half and twice the number; one cluster has no agreement.
    """
    numbers, values = [1, *curve], [0.0, *curve.values()]
    half, here, twice = np.interp([chosen / 2, chosen, 2 * chosen], numbers, values)
    falls, bends = twice < (1 - FALL) * here, (here - half) - (twice - here) >= KINK * here
    if crossing >= CROSSED:
        return False
    return bool(falls) or (chosen <= END * numbers[-1] and bool(bends or crossing <= DIVIDED))


def reproducibility(
    halves: Halves, low: int, high: int, chosen: int | None = None, watch: Callable[[int], None] = lambda done: None
) -> dict[int, Tensor]:
    """Return the agreement of the halves for numbers from ``low`` to ``high``, the more the closer to the best one.

    ``chosen``: where the number is known already: then each is half as large again.
    """
    tried: dict[int, Tensor] = {}

    def measure(numbers: Iterable[int]) -> None:
        for number in numbers:
            tried[number] = halves.agreement(number)
            watch(len(tried))

    every, growth = (EVERY, GROWTH) if chosen is None else (low, KNOWN_GROWTH)
    grid = list(range(low, min(every, high) + 1)) or [low]
    while grid[-1] < high:
        grid.append(min(high, math.ceil(grid[-1] * growth)))
    if chosen is not None:
        measure(sorted({*grid, chosen}))
        return tried
    measure(grid)
    place = grid.index(max(tried, key=lambda k: float(tried[k].mean())))
    measure(k for k in range(grid[max(0, place - 1)], grid[min(len(grid) - 1, place + 1)]) if k not in tried)
    return tried


def describe(
    evidence: Evidence,
    partitions: Iterable[Tensor],
    low: int,
    watch: Callable[[int], None] = lambda done: None,
) -> tuple[dict[int, float], Tensor]:
    """Return K -> bits per node that K clusters save in describing the edges, and the clusters that save most.

    ``partitions``: clusters ``(N,)`` of the largest number. The next one counts if none before saves anything.
    """
    savings: dict[int, float] = {}
    for cluster in partitions:
        if not savings or max(savings.values()) <= 0:
            savings, best = _merge(evidence, cluster, low, watch)
    return savings, best


def _merge(
    evidence: Evidence, cluster: Tensor, low: int, watch: Callable[[int], None]
) -> tuple[dict[int, float], Tensor]:
    savings: dict[int, float] = {}
    best, high = cluster, evidence.shares.largest(cluster) + 1
    for partition, _ in unions(Partition(evidence, cluster), low):
        count = len(partition.size)
        watch(high - count + 1)
        if count < low and savings:                             # moves may leave clusters empty
            break
        savings[count] = partition.saved / math.log(2) / evidence.shares.num_rows
        if savings[count] == max(savings.values()):             # of equally good numbers the smallest
            best = partition.cluster
    return savings, best


def _description_notes(chosen: int, low: int, high: int) -> tuple[str, ...]:
    if chosen == 1 < low:
        why = "try smaller ones" if low > 2 else "the graph has no clusters, or too few edges to show them"
        return (
            f"no number of clusters from {low} to {high} shortens the description of the edges: {why}. The result "
            "is one cluster; give a number to get more.",
        )
    if chosen < low:
        return (f"only {chosen} clusters were found, fewer than {low}: lower the range.",)
    if chosen == high:
        return (f"the best number of clusters, {high}, is the end of the range: try a larger one.",)
    return ()


def _reproducibility_notes(clear: bool, chosen: int, low: int, high: int, levels: set[int]) -> tuple[str, ...]:
    if clear:
        first = f"the best number of clusters, {low}, is the start of the range: try smaller ones."
        return (first,) if chosen == low > 2 else ()
    others = ", ".join(str(k) for k in sorted(levels - {chosen})[:5])
    return (
        f"no number of clusters stands out: two halves of the data agree about as well on more than {chosen} clusters. "
        f"There may be more than {high}, or none, as in a grid: choose the number that you need"
        + (f" (local maxima: {others})." if others else "."),
    )


def _noise_notes(agreement: float) -> tuple[str, ...]:
    if agreement >= NOISE:
        return ()
    return (
        f"the agreement of two random halves of the data is only {as_text(agreement)}: the clusters may be noise, or "
        "too small to be found in half of the edges.",
    )


def as_text(agreement: float) -> str:
    """Return an agreement of halves with its scale; of one that is rounded to 0 without a sign."""
    return f"{round(agreement, 2) + 0.0:.2f} (0: chance, 1: identical)"
