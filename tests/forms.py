"""One graph in every form that is read, in files and in memory."""

import importlib.util

import networkx
import numpy as np
import pandas as pd
import scipy.sparse
import torch

from jbpool.graph import Graph


def installed(*names):
    return all(importlib.util.find_spec(name) for name in names)


def edges_of(data):
    """Edges in the user's ids, each direction, with their weights."""
    weight = [1.0] * data.graph.num_edges if data.edge_weight is None else data.edge_weight.tolist()
    source, target = (data.own_ids[end.numpy()].tolist() for end in data.graph.edge_index)
    return dict(zip(zip(source, target, strict=True), weight, strict=True))


def both(*pairs, weight=1.0):
    return {edge: weight for u, v in pairs for edge in ((u, v), (v, u))}


def drawn(pairs, kind=networkx.Graph):
    """A graph of networkx with the nodes of these edges, numbers in their order."""
    graph = kind()
    graph.add_nodes_from(sorted({node for u, v, _ in pairs for node in (u, v)}))
    graph.add_weighted_edges_from(pairs)
    return graph


def forms(pairs, folder, num_nodes):
    """Yield name and form of a graph of weighted edges among the nodes 0 .. N-1, all of which occur.

    Edges may be repeated, always in the same direction, and be loops; a matrix has their sums.
    """
    source, target, weight = (np.array(column) for column in zip(*pairs, strict=True))
    frame = pd.DataFrame({"source": source, "target": target, "weight": weight})
    frame.to_csv(folder / "e.csv", index=False)
    yield "CSV", folder / "e.csv"
    frame.to_csv(folder / "plain.txt", index=False, header=False, sep=" ")
    yield "text", folder / "plain.txt"
    np.savez(folder / "e.npz", source=source, target=target, weight=weight)
    yield ".npz", folder / "e.npz"
    if installed("pyarrow"):
        frame.to_parquet(folder / "e.parquet")
        yield "Parquet", folder / "e.parquet"
    yield "DataFrame", frame[["weight", "target", "source"]]
    yield "tuples", pairs
    if len(pairs) > 3:                                                  # an array of shape (3, 3) is a matrix
        yield "array", frame.to_numpy()
    graph = drawn(pairs, networkx.MultiGraph)
    yield "networkx", graph
    for end, write in ("gml", networkx.write_gml), ("graphml", networkx.write_graphml), ("gexf", networkx.write_gexf):
        write(graph, folder / f"e.{end}")
        yield end, folder / f"e.{end}"
    if installed("igraph"):
        import igraph

        drawing = igraph.Graph(num_nodes, [pair[:2] for pair in pairs])
        drawing.es["weight"] = weight.tolist()
        yield "igraph", drawing
    matrix = np.zeros((num_nodes, num_nodes))
    np.add.at(matrix, (source, target), weight)
    matrix += matrix.T
    yield "matrix", matrix
    yield "torch", torch.from_numpy(matrix)
    yield "csr", scipy.sparse.csr_matrix(matrix)
    yield "coo array", scipy.sparse.coo_array(matrix)
    scipy.sparse.save_npz(folder / "m.npz", scipy.sparse.csr_matrix(matrix))
    yield "scipy .npz", folder / "m.npz"
    if num_nodes > 3:
        yield "DataFrame matrix", pd.DataFrame(matrix)
    joins = source != target
    ends = torch.from_numpy(np.concatenate([[source, target], [target[joins], source[joins]]], axis=1))
    twice = torch.from_numpy(np.concatenate([weight, weight[joins]])).float()
    for package, kind in ("dgl", "DGL"), ("torch_geometric", "PyG"):
        if installed(package):
            made = Graph(ends, num_nodes)
            made = made.to_dgl() if kind == "DGL" else made.to_pyg()
            if kind == "DGL":
                made.edata["weight"] = twice
            else:
                made.edge_weight = twice
            yield kind, made
            if kind == "DGL":
                import dgl

                dgl.save_graphs(str(folder / "e.bin"), [made])
                yield ".bin", folder / "e.bin"
    yield "Graph", Graph(ends, num_nodes, edge_weight=twice)
