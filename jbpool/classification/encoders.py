"""Encoders of node features."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from jbpool.ops.derivatives import ClosedForm, first_order


def centre_and_scale(values: Tensor) -> tuple[Tensor, Tensor]:
    """Return what standardises the columns of the training graphs: ``(N, D)`` to mean ``(D,)`` and factor ``(D,)``.

    Rare binary features must not be scaled up excessively: columns of zeros and ones are scaled by at most 10. Other
    columns that are constant in the training graphs up to rounding are ignored.
    """
    if not len(values):
        return torch.zeros(values.shape[1]), torch.ones(values.shape[1])
    deviation, largest = values.std(0, correction=0), values.abs().amax(0)
    is_label = ((values == 0) | (values == 1)).all(0)
    factor = torch.where(deviation > 1e-6 * largest, deviation.pow(-1), 0.0)
    return values.mean(0), torch.where(is_label, 1 / deviation.clamp_min(0.1), factor)


class FeatureEncoder(nn.Module):
    """A linear layer on features standardised over those of the training graphs ``(N, D)`` (``centre_and_scale``)."""

    centre: Tensor
    scale: Tensor

    def __init__(self, train_feat: Tensor, hidden: int):
        super().__init__()
        centre, scale = centre_and_scale(train_feat)
        self.register_buffer("centre", centre)
        self.register_buffer("scale", scale)
        self.linear = nn.Linear(train_feat.shape[1], hidden)

    def forward(self, feat: Tensor) -> Tensor:
        """Encode features: ``(N, D)`` to ``(N, hidden)``."""
        return self.linear((feat - self.centre) * self.scale)


class CategoryEncoder(nn.Module):
    """Sum of the embeddings of categorical columns, like the AtomEncoder of ``ogb``."""

    first: Tensor

    def __init__(self, num_categories: Sequence[int], hidden: int):
        super().__init__()
        ends = torch.tensor([0, *num_categories]).cumsum(0)
        self.register_buffer("first", ends[:-1])            # first row of each column in the common table
        self.table = nn.EmbeddingBag(int(ends[-1]), hidden, mode="sum")
        nn.init.xavier_uniform_(self.table.weight)

    def forward(self, feat: Tensor) -> Tensor:
        """Embed categories: ``(N, D)`` integers to ``(N, hidden)``."""
        return _SumOfRows.apply(self.table.weight, feat + self.first)


class _SumOfRows(ClosedForm):
    """Sum of the rows of a table at the indices of each node: ``(R, hidden)`` and ``(N, D)`` to ``(N, hidden)``.

    Torch's own gradient sorts the indices, which takes several times as long as adding up column by column.
    """

    @staticmethod
    def forward(table, index):
        return functional.embedding_bag(index, table, mode="sum")

    @staticmethod
    def setup_context(ctx, inputs, output):
        table, index = inputs
        ctx.save_for_backward(index)
        ctx.num_rows = len(table)

    @staticmethod
    @first_order
    def backward(ctx, grad):                                            # (N, hidden)
        (index,) = ctx.saved_tensors
        total = grad.new_zeros(ctx.num_rows, grad.shape[1])
        for column in index.unbind(1):
            total.index_add_(0, column, grad)
        return total, None
