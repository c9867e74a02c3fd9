"""Which clusters of two clusterings of the same nodes correspond, and numbers that stay."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from jbpool.ops.segment import contingency
from jbpool.processes import ALONE, RowShares


class Matching(NamedTuple):
    """How the clusters of two clusterings of the same nodes correspond."""

    counts: np.ndarray                      # (K, K') nodes by both clusters
    pairs: np.ndarray                       # (K, K') whether two clusters are matched, one to one
    whole: np.ndarray                       # (K, K') others that share more than half of one of them: merged or split

    @property
    def moved(self) -> np.ndarray:
        """Whether nodes of these two clusters count as moved, ``(K, K')``."""
        return ~(self.pairs | self.whole)


def match(cluster: Tensor, other: Tensor, shares: RowShares = ALONE) -> Matching:
    """Match clusters ``(n,)``, -1 for none, one to one so that they share as many nodes as possible."""
    counts = contingency(cluster.long(), other.long(), shares=shares).cpu().numpy()
    pairs = np.zeros(counts.shape, dtype=bool)
    pairs[linear_sum_assignment(counts, maximize=True)] = True
    pairs &= counts > 0
    most = np.maximum(counts / counts.sum(1, keepdims=True).clip(1), counts / counts.sum(0).clip(1))
    return Matching(counts, pairs, (most > 0.5) & ~pairs)


def kept_numbers(
    cluster: Tensor, previous: Tensor, num_clusters: int | None = None, shares: RowShares = ALONE
) -> Tensor:
    """Return the number that each cluster keeps, ``(K,)``: that of the previous cluster it is matched with.

    Clusters that are matched with none get new numbers, after all previous ones. ``cluster``, ``previous``: ``(n,)``,
    -1 for none. ``num_clusters``: K, by default up to the largest cluster.
    """
    numbers = torch.full((shares.largest(cluster) + 1 if num_clusters is None else num_clusters,), -1)
    rows, columns = match(cluster, previous, shares).pairs.nonzero()
    numbers[rows] = torch.from_numpy(columns)
    new = numbers < 0
    numbers[new] = shares.largest(previous) + 1 + torch.arange(int(new.sum()))
    return numbers
