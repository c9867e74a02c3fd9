"""Connected components of a graph whose rows may be divided between processes."""

from __future__ import annotations

import numpy as np
import torch
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from jbpool.graph import Graph


def components(graph: Graph) -> Tensor:
    """Return the component of every node of this process, named after its first node: ``(n,)``, on the CPU.

    Every process finds those of its rows and their halo; which of them are one component, the halo says.
    """
    rows, halo, num_nodes = graph.by_target, graph.halo, graph.num_nodes
    pointers = np.pad(rows.pointers.cpu().numpy(), (0, len(halo.wanted)), mode="edge")
    arrays = np.ones(graph.num_edges, dtype=np.int8), rows.columns.cpu().numpy(), pointers
    alone = graph.shares.processes == 1         # then the strong components are those, without a transposed copy
    local = connected_components(csr_array(arrays, shape=(len(pointers) - 1,) * 2), alone, "strong")[1]
    first = np.unique(local, return_index=True)[1]                          # own nodes come before those of the halo
    name = torch.from_numpy(first[local]) + graph.shares.start              # (n + h,) different in all processes
    pairs = torch.stack([name, halo.extended(name[:num_nodes].to(graph.device)).cpu()])[:, num_nodes:]
    joined = np.concatenate(graph.shares.gather(pairs.unique(dim=1).numpy()), axis=1)
    names, ends = np.unique(joined, return_inverse=True)
    ends = ends.reshape(joined.shape)
    matrix = coo_array((np.ones(joined.shape[1], dtype=np.int8), (ends[0], ends[1])), (len(names),) * 2)
    label = connected_components(matrix, directed=False)[1]
    smallest = names[np.unique(label, return_index=True)[1]][label]         # of the names that are one component
    own = name[:num_nodes].numpy()
    known = np.isin(own, names)
    own[known] = smallest[np.searchsorted(names, own[known])]
    return torch.from_numpy(own)


def component_sizes(graph: Graph) -> Tensor:
    """Return the nodes of every component that begins in this process, ``(C,)``; those of other processes count."""
    shares = graph.shares
    names, counts = components(graph).unique(return_counts=True)
    begins = names >= shares.start                                          # the others begin in an earlier process
    elsewhere = shares.gather((names[~begins].numpy(), counts[~begins].numpy()))
    names, counts = names[begins], counts[begins]
    for found, more in elsewhere:
        here = (found >= shares.start) & (found < shares.stop)
        counts[torch.searchsorted(names, torch.from_numpy(found[here]))] += torch.from_numpy(more[here])
    return counts
