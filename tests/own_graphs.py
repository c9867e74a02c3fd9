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
