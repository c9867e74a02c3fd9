"""Just Balance pooling and clustering of graphs, for DGL, PyG and plain torch.

Public names are imported on first use, so that ``import jbpool`` and ``--help`` are fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jbpool import objectives
    from jbpool.checks import value_checks
    from jbpool.clustering.estimator import JBClustering
    from jbpool.graph import Graph, as_graph
    from jbpool.nn import DeltaConv, DiffPool, DMoNPool, JBPool, MinCutPool, Pooled, pool_by
    from jbpool.nn import selection as select
    from jbpool.trained import load_run

__version__ = "0.3.0"
__all__ = [
    "DMoNPool", "DeltaConv", "DiffPool", "Graph", "JBClustering", "JBPool", "MinCutPool", "Pooled", "as_graph",
    "load_run", "objectives", "pool_by", "select", "value_checks",
]  # fmt: skip

_MODULES = {                                        # public name -> module, if not jbpool.nn
    "Graph": "jbpool.graph",
    "JBClustering": "jbpool.clustering.estimator",
    "as_graph": "jbpool.graph",
    "load_run": "jbpool.trained",
    "value_checks": "jbpool.checks",
}
_SUBMODULES = {name: name for name in ("data", "errors", "nn", "objectives", "ops")} | {"select": "nn.selection"}


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return import_module(f"jbpool.{_SUBMODULES[name]}")
    if name not in __all__:
        raise AttributeError(f"module 'jbpool' has no attribute {name!r}")
    return getattr(import_module(_MODULES.get(name, "jbpool.nn")), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_SUBMODULES})         # names that are not imported yet, too
