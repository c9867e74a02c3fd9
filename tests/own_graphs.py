"""Graphs of the user's own as CSV files, and settings for a short training run on them."""

import numpy as np

SMALL = ("train.epochs=4", "train.batch_size=16", "model.hidden=8", "model.num_clusters=3")


def write_graphs(folder, seed=0, count=24, head="graph,label,split", names=("ring", "path"), nodes="x,y", edges="bond"):
    """Rings and paths as CSV files; the second feature and the edge features have other scales."""
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True)
    tables = {"graphs": [head], "nodes": [f"graph,node,{nodes}"], "edges": [f"graph,source,target,{edges}".strip(",")]}
    for graph in range(count):
        kind, size = graph % 2, int(rng.integers(5, 9))
        part = ("train", "train", "valid", "test")[graph // 2 % 4]
        columns = {"graph": f"g{graph}", "label": names[kind], "split": part}
        tables["graphs"].append(",".join(columns[name] for name in head.split(",")))
        values = {"x": rng.normal(kind, 1, size), "y": 100 * rng.normal(size=size) + 7, "z": np.ones(size)}
        rows = zip(*(values[name] for name in nodes.split(",")), strict=True)
        tables["nodes"] += [f"g{graph},{node}," + ",".join(f"{x:.3f}" for x in row) for node, row in enumerate(rows)]
        scales = [(1, 1000)[place % 2] for place, name in enumerate(edges.split(",")) if name]
        for i in range(size - kind):
            bonds = [f"{scale * rng.random():.2f}" for scale in scales]
            tables["edges"].append(",".join([f"g{graph},{i},{(i + 1) % size}", *bonds]))
    for name, lines in tables.items():
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")


def write_targets(folder, values, head="graph,label,split", count=24, seed=0):
    """Rings and paths whose column label, or columns of targets, are these texts."""
    write_graphs(folder, seed=seed, count=count, head="graph,split")
    lines = (folder / "graphs.csv").read_text().splitlines()[1:]
    rows = [f"{line.split(',')[0]},{value},{line.split(',')[1]}" for line, value in zip(lines, values, strict=True)]
    (folder / "graphs.csv").write_text("\n".join([head, *rows]) + "\n")
    return folder


def sizes_of(folder, count=24):
    names = [line.split(",")[0] for line in (folder / "nodes.csv").read_text().splitlines()[1:]]
    return np.array([names.count(f"g{graph}") for graph in range(count)])


FEW = ["0.5", "1.5", "2"] * 8
MANY = [f"{number / 7:.4f}" for number in range(24)]
