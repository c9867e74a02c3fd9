"""One of several processes; test_processes.py starts them. Compares what it gets with the whole, which all know."""

import json
import sys
from pathlib import Path

import numpy as np
import scipy.sparse
import torch

from jbpool.graph import Graph
from jbpool.processes import Halo, RowShares, process_group, rank, world_size

WIDTH = 3
ROWS = 3000             # three blocks: of four processes, one has no rows


def whole_graph() -> tuple[scipy.sparse.csr_array, torch.Tensor]:
    """A weighted graph, with a hub and isolated nodes, and rows of its nodes."""
    random = np.random.default_rng(0)
    ends = random.integers(0, ROWS - 100, (2, 4 * ROWS))
    ends[0, :500] = 7
    matrix = scipy.sparse.coo_array((random.random(4 * ROWS) + 0.5, ends), (ROWS, ROWS)).tocsr()
    matrix = scipy.sparse.csr_array(matrix + matrix.T).astype(np.float32)
    matrix.setdiag(0)
    matrix.eliminate_zeros()
    matrix.sort_indices()
    return matrix, torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(0))


def seen() -> dict[str, bool]:
    matrix, whole = whole_graph()
    shares = RowShares.of_this_run(ROWS)
    mine = whole[shares.start : shares.stop]
    return {**moved(shares, whole, mine), **graphs(shares, matrix, whole, mine)}


def moved(shares: RowShares, whole: torch.Tensor, mine: torch.Tensor) -> dict[str, bool]:
    place, count = rank(), world_size()
    numbers = torch.tensor([0, 5, 1023, 1024, 2047, 2999])
    give = [sender_to(place, other) for other in range(count)]
    take = [sender_to(other, place) for other in range(count)]
    sent = torch.cat([torch.full((give[other], 2), 10.0 * place + other) for other in range(count)])
    got = torch.cat([torch.full((take[other], 2), 10.0 * other + place) for other in range(count)])
    return {
        "add_up": shares.add_up(torch.tensor([place, 1])).tolist() == [count * (count - 1) // 2, count],
        "from_first": shares.from_first(torch.tensor([5.0 + place])).tolist() == [5.0],
        "stacked": shares.stacked(torch.tensor([place, 7])).tolist() == [[other, 7] for other in range(count)],
        "chosen": torch.equal(shares.chosen(mine, numbers), whole[numbers]),
        "swap": count == 1 or torch.equal(shares.swap(sent, give, take), got),
        "owners": sum(shares.owners(numbers)) == len(numbers),
    }


def sender_to(sender: int, receiver: int) -> int:
    """How many rows one sends to the other in ``swap``; some none."""
    return (2 * sender + receiver) % 3


def graphs(shares: RowShares, matrix, whole: torch.Tensor, mine: torch.Tensor) -> dict[str, bool]:
    every = Graph.from_scipy(matrix)
    graph = every.part(shares)
    wanted = np.unique(matrix[shares.start : shares.stop].indices)
    wanted = wanted[(wanted < shares.start) | (wanted >= shares.stop)]
    extended, halo = graph.halo.extended(mine), graph.halo
    rows = matrix[shares.start : shares.stop]
    product = scipy.sparse.csr_array(
        (graph.edge_weight, graph.by_target.columns, graph.by_target.pointers), (len(mine), len(extended))
    ) @ extended.numpy()
    labels = whole[:, 0].mul(10).to(torch.int8)
    return {
        "wanted": halo.wanted.tolist() == wanted.tolist(),
        "extended": torch.equal(extended, whole[halo.numbers.long()]),
        "bytes": torch.equal(halo.extended(labels[shares.start : shares.stop]), labels[halo.numbers.long()]),
        "columns": torch.equal(halo.numbers[graph.by_target.columns.long()].int(), torch.from_numpy(rows.indices)),
        "product": np.array_equal(product, (matrix @ whole.numpy())[shares.start : shares.stop]),
        "counts": (graph.num_nodes, graph.num_edges, graph.shares.num_rows) == (len(mine), rows.nnz, ROWS),
        "nobody wants": Halo(shares, halo.wanted[:0]).extended(mine).shape == mine.shape,
    }


if __name__ == "__main__":
    with process_group(torch.device("cpu")):
        (Path(sys.argv[1]) / f"{rank()}.json").write_text(json.dumps(seen()))
