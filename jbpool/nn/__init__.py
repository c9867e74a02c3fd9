"""Layers: pools and message passing."""

from jbpool import _environment

_environment.require_dgl()

from jbpool.nn.cluster_pool import Pooled  # noqa: E402  (the environment is checked first, for a readable error)
from jbpool.nn.conv import DeltaConv  # noqa: E402
from jbpool.nn.pools import DiffPool, DMoNPool, JBPool, MinCutPool  # noqa: E402

__all__ = ["DMoNPool", "DeltaConv", "DiffPool", "JBPool", "MinCutPool", "Pooled"]
