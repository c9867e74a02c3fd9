"""Just Balance pooling and clustering for DGL."""

from jbpool import _environment

_environment.require_dgl()

from jbpool import objectives  # noqa: E402  (the environment is checked first, for a readable error)
from jbpool.checks import value_checks  # noqa: E402
from jbpool.nn.conv import DeltaConv  # noqa: E402
from jbpool.nn.pools import DiffPool, DMoNPool, JBPool, MinCutPool, Pooled  # noqa: E402

__version__ = "0.1.0"
__all__ = ["DMoNPool", "DeltaConv", "DiffPool", "JBPool", "MinCutPool", "Pooled", "objectives", "value_checks"]
