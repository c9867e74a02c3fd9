"""From features to the logits of K clusters: activations and dropout of the hidden layers, and the last layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Generator, Tensor, nn

from jbpool.checks import check_positive
from jbpool.errors import JBPoolError
from jbpool.names import lookup
from jbpool.ops.adjacency import inverse_sqrt
from jbpool.ops.sparse import at_least_float32, full_precision

ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "elu": nn.ELU,
    "gelu": nn.GELU,
    "leaky_relu": nn.LeakyReLU,
    "silu": nn.SiLU,
    "tanh": nn.Tanh,
}
Activation = Literal["relu", "elu", "gelu", "leaky_relu", "silu", "tanh"] | Callable[[Tensor], Tensor]


def make_activation(activation: Activation) -> nn.Module:
    """Return the module of an activation that is given by its name, as a module or as a function."""
    if isinstance(activation, nn.Module):
        return activation
    return Elementwise(activation) if callable(activation) else lookup(ACTIVATIONS, activation, "activation")()


class Elementwise(nn.Module):
    """A function of tensors as a module."""

    def __init__(self, function: Callable[[Tensor], Tensor]):
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        """Apply the function."""
        return self.function(x)

    def extra_repr(self) -> str:
        return getattr(self.function, "__name__", repr(self.function))


class CosineHead(nn.Module):
    """Bounded logits: the cosine of each row to K learned prototypes, divided by a temperature.

    ``logits[i, k] = <x_i / |x_i|, w_k / |w_k|> / temperature``, so that every logit lies in
    [-1 / temperature, 1 / temperature].

    Parameters
    ----------
    in_feats : int
        Size of the input features.
    num_clusters : int
        Number of prototypes K.
    temperature : float, optional
        Divisor of the cosines, positive. Default: 0.2.

    Examples
    --------
    >>> head = CosineHead(2, num_clusters=2, temperature=0.5)
    >>> with torch.no_grad():
    ...     _ = head.weight.copy_(torch.tensor([[3.0, 0.0], [0.0, 0.1]]))
    >>> head(torch.tensor([[5.0, 0.0]])).tolist()
    [[2.0, 0.0]]
    """

    def __init__(self, in_feats: int, num_clusters: int, temperature: float = 0.2):
        super().__init__()
        self.temperature = check_positive(temperature, "temperature")
        self.weight = nn.Parameter(torch.empty(num_clusters, in_feats))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw prototypes in random directions, of length one in expectation."""
        nn.init.normal_(self.weight, std=self.weight.shape[1] ** -0.5)

    def forward(self, feat: Tensor) -> Tensor:
        """Compute the logits: ``(N, in_feats)`` to ``(N, K)``, float32 at least."""
        with full_precision(feat):
            return unit_rows(feat) @ (unit_rows(self.weight) / self.temperature).mT

    def extra_repr(self) -> str:
        num_clusters, in_feats = self.weight.shape
        return f"{in_feats}, {num_clusters}, temperature={self.temperature}"


def unit_rows(rows: Tensor) -> Tensor:
    """Return rows scaled to length one, ``(..., D)`` to ``(..., D)``, float32 at least.

    A row shorter than about 3e-10 (in float32) becomes zero, with gradient zero.
    """
    rows = at_least_float32(rows)
    return rows * inverse_sqrt(rows.square().sum(-1, keepdim=True))


def spread_rows(feat: Tensor, count: int, generator: Generator | None = None) -> Tensor:
    """Return unit rows of ``feat`` that lie far apart: k-means++ on the sphere, ``(N, D)`` to ``(count, D)``.

    The first row is drawn uniformly, each later one with probability proportional to ``1 - cos`` of the angle to the
    closest row drawn so far, which is half the squared distance of unit rows. Rows of zeros are never drawn. If there
    are fewer distinct rows than ``count``, some are drawn twice.
    """
    if not bool(feat.isfinite().all()):
        raise JBPoolError("feat contains NaN or infinity: prototypes are rows of it; use torch.nan_to_num(feat).")
    rows = unit_rows(feat)
    nonzero = (rows != 0).any(dim=1)                                                 # (N,)
    if not bool(nonzero.any()):
        raise JBPoolError(f"feat has {len(rows)} rows, all zero: prototypes need at least one row that is not.")
    chance = nonzero.to(rows.dtype)
    cosine = torch.full_like(chance, -1)                                            # (N,)  to the closest row drawn
    chosen: list[Tensor] = []
    for _ in range(count):
        chosen.append(rows[torch.multinomial(chance, 1, generator=generator)])      # (1, D)
        cosine = torch.maximum(cosine, (rows @ chosen[-1].mT).squeeze(1))
        chance = torch.where(nonzero, (1 - cosine).clamp_min(1e-7), 0)
    return torch.cat(chosen)


# name -> (in_feats, num_clusters, temperature) -> module, (N, in_feats) to (N, num_clusters)
HEADS: dict[str, Callable[[int, int, float], nn.Module]] = {
    "linear": lambda in_feats, num_clusters, _: nn.Linear(in_feats, num_clusters),
    "cosine": CosineHead,
}


LEVELS = 2**16          # a random number of 64 bits decides four entries, with 16 bits each


class Dropout(nn.Dropout):
    """``nn.Dropout``, three to four times as fast on the CPU, where torch draws a random number for every entry.

    There the rate is rounded to a multiple of 2**-16. The entries that are kept are scaled by the rounded rate, so that
    the mean of the output is that of the input.

    Parameters
    ----------
    p : float, optional
        Probability that an entry is set to zero. Default: 0.5.

    Examples
    --------
    >>> dropped = Dropout(0.25)(torch.ones(1000))
    >>> sorted(set(dropped.tolist()))
    [0.0, 1.33333...]
    """

    def __init__(self, p: float = 0.5):
        super().__init__(p)

    def forward(self, x: Tensor) -> Tensor:
        """Set entries to zero at random in training; return ``x`` itself in evaluation."""
        dropped = round(self.p * LEVELS)
        if not (self.training and 0 < dropped < LEVELS and x.device.type == "cpu"):
            return super().forward(x)
        draws = torch.empty(-(-x.numel() // 4), dtype=torch.int64, device=x.device).random_(-(2**63), None)  # all bits
        bits = draws.view(torch.int16)[: x.numel()].view(x.shape)
        keep = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        torch.ge(bits, dropped - LEVELS // 2, out=keep)                                         # zeros and ones
        return x * keep.mul_(LEVELS / (LEVELS - dropped))
