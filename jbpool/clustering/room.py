"""How much memory a run needs, so that a graph that does not fit is refused before the work starts."""

from __future__ import annotations

from jbpool.clustering.auto.views import COLUMNS, OVERSAMPLING
from jbpool.clustering.config import ClusterConfig, trains_heads
from jbpool.clustering.network import FIXED
from jbpool.data import NodeData
from jbpool.engine.processes import world_size
from jbpool.errors import DataError
from jbpool.memory import memory_problem
from jbpool.nn.pools import POOLS

LAYER_COPIES = 4            # copies of the values of a layer that are held until its gradient is computed, approximate
EDGE_BYTES = 12             # per edge of the smoothing operator: column, value, and temporary values while it is built
PAIR_BYTES = 2.5            # per pair of nodes of netmf: of a sparse matrix that stores about a third of all pairs
AUTO_COPIES = 8             # copies of a view or of an assignment that ``auto`` holds at a time


def needed_memory(config: ClusterConfig, data: NodeData, num_clusters: int) -> int:
    """Approximate number of bytes that a run needs in each process beyond the loaded data; 0 for most embeddings."""
    nodes, edges = data.graph.num_nodes(), data.graph.num_edges()
    in_feats = 3 * num_clusters if data.feat is None else data.feat.shape[1]
    model, name = config.model, config.method.name
    if name == "auto":
        return AUTO_COPIES * 4 * nodes * (2 * num_clusters + OVERSAMPLING) + 2 * EDGE_BYTES * edges
    if name not in POOLS:
        return int(PAIR_BYTES * nodes**2) if name == "netmf" else 0
    width = in_feats if model.backbone != "whitened" else min(in_feats, 2 * num_clusters + OVERSAMPLING)
    smoothing = EDGE_BYTES * edges + 4 * nodes * 2 * COLUMNS
    if trains_heads(config):
        return smoothing + 4 * (nodes // world_size()) * width + 12 * nodes
    values = width if model.backbone in FIXED else model.layers * model.hidden
    values += sum(model.mlp) + 2 * num_clusters
    return smoothing + LAYER_COPIES * 4 * nodes * values


def require_room(config: ClusterConfig, data: NodeData, num_clusters: int) -> None:
    """Refuse a run that needs more memory than there is.

    Parameters
    ----------
    config : ClusterConfig
        The run.
    data : NodeData
        Its graph, loaded.
    num_clusters : int
        K, the largest one if it is to be chosen.
    """
    graph = f"{data.graph.num_nodes():,} nodes and {data.graph.num_edges():,} directed edges"
    needed = needed_memory(config, data, num_clusters)
    problem = memory_problem(needed, f"{data.name}: {config.method.name} on {graph}")
    if problem is None:
        return
    cure = "lower method.num_clusters, or share the rows between machines (docs/scale.md)"
    if not trains_heads(config):
        cure = "large.yaml needs far less (docs/scale.md)"
    raise DataError(f"{problem}: {cure}.")
