"""From features to the logits of K clusters: activations of the hidden layers, and the last layer."""

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
