"""Layers: pools and message passing."""

from jbpool import _environment

_environment.require_dgl()

from jbpool.nn.conv import DeltaConv  # noqa: E402
from jbpool.nn.pools import (  # noqa: E402
    DiffPool,
    DMoNPool,
    JBPool,
    MinCutPool,
    Pooled,
)

__all__ = ["DMoNPool", "DeltaConv", "DiffPool", "JBPool", "MinCutPool", "Pooled"]
