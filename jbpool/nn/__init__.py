"""Layers: pools and message passing."""

from jbpool.nn.conv import DeltaConv
from jbpool.nn.pooled import Pooled, pool_by
from jbpool.nn.pools import DiffPool, DMoNPool, JBPool, MinCutPool

__all__ = ["DMoNPool", "DeltaConv", "DiffPool", "JBPool", "MinCutPool", "Pooled", "pool_by"]
