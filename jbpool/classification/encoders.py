"""From node features to vectors of the network's width."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class FeatureEncoder(nn.Module):
    """Node features, each brought to mean 0 and deviation 1 over the training graphs, to ``hidden`` numbers.

    A label that few training graphs have, or none, must not come in as a huge number elsewhere: columns of zeros and
    ones are scaled by 10 at most, and a number that is the same in all training graphs does not count.
    """

    centre: Tensor
    scale: Tensor

    def __init__(self, train_feat: Tensor, hidden: int):
        super().__init__()
        deviation = train_feat.std(0, correction=0)
        is_label = ((train_feat == 0) | (train_feat == 1)).all(0)
        self.register_buffer("centre", train_feat.mean(0))
        self.register_buffer(
            "scale", torch.where(is_label, 1 / deviation.clamp_min(0.1), deviation.pow(-1).nan_to_num(posinf=0.0))
        )
        self.linear = nn.Linear(train_feat.shape[1], hidden)

    def forward(self, feat: Tensor) -> Tensor:
        """``(N, D)`` to ``(N, hidden)``."""
        return self.linear((feat - self.centre) * self.scale)


class CategoryEncoder(nn.Module):
    """Columns of categories, such as the atoms of OGB: the sum of an embedding of each, as ``ogb``'s AtomEncoder."""

    first: Tensor

    def __init__(self, num_categories: Sequence[int], hidden: int):
        super().__init__()
        ends = torch.tensor([0, *num_categories]).cumsum(0)
        self.register_buffer("first", ends[:-1])            # one table for all columns: where each begins
        self.table = nn.EmbeddingBag(int(ends[-1]), hidden, mode="sum")
        nn.init.xavier_uniform_(self.table.weight)

    def forward(self, feat: Tensor) -> Tensor:
        """``(N, D)`` whole numbers to ``(N, hidden)``."""
        return self.table(feat + self.first)
