"""The names of all datasets, what is known of them before a file is read, and the functions that load them.

A module of ``sets/`` or ``own/`` is imported when one of its datasets is loaded.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_type_hints

from jbpool.errors import DataError, JBPoolError
from jbpool.names import lookup
from jbpool.schema import convert, readable

MAX_OPTION = 10**12         # of options that are numbers: those of generated datasets


class Published(NamedTuple):
    """Counts of the paper's Table 1, and the class sizes in the order of the files."""

    nodes: int
    edges: int                  # directed
    features: int
    class_sizes: tuple[int, ...]


CITATION = {
    "cora": Published(2708, 10556, 1433, (351, 217, 418, 818, 426, 298, 180)),
    "citeseer": Published(3327, 9104, 3703, (264, 590, 668, 701, 596, 508)),
    "pubmed": Published(19717, 88648, 500, (4103, 7739, 7875)),
    "dblp": Published(17716, 105734, 1639, (7920, 5645, 1982, 2169)),
}
SIMULATED = {f"{name}-sim": name for name in CITATION}

BENCHMARK = "https://github.com/shchur/gnn-benchmark/raw/master/data/npz/"
GRAPH2GAUSS = "https://github.com/abojchevski/graph2gauss/raw/master/data/"
GRAPH_DATA = "https://github.com/EdisonLeeeee/GraphData/raw/master/datasets/"


class NpzSet(NamedTuple):
    """A public file and its counts."""

    file: str
    url: str                    # of the folder
    nodes: int
    features: int
    classes: int


NPZ = {
    "amazon-photo": NpzSet("amazon_electronics_photo.npz", BENCHMARK, 7650, 745, 8),
    "amazon-computers": NpzSet("amazon_electronics_computers.npz", BENCHMARK, 13752, 767, 10),
    "coauthor-cs": NpzSet("ms_academic_cs.npz", BENCHMARK, 18333, 6805, 15),
    "coauthor-physics": NpzSet("ms_academic_phy.npz", BENCHMARK, 34493, 8415, 5),
    "cora-ml": NpzSet("cora_ml.npz", GRAPH2GAUSS, 2995, 2879, 7),
    "acm": NpzSet("acm.npz", GRAPH_DATA, 3025, 1870, 3),
}


class OgbSet(NamedTuple):
    """Counts as OGB publishes them, for messages."""

    nodes: int
    edges: int
    labels: str


# ogbn-mag is left out: it has several types of nodes.
OGB_NODES = {
    "ogbn-arxiv": OgbSet(169_343, 1_166_243, "40 classes"),
    "ogbn-products": OgbSet(2_449_029, 61_859_140, "47 classes"),
    "ogbn-proteins": OgbSet(132_534, 39_561_252, "no classes (112 tasks)"),
    "ogbn-papers100M": OgbSet(111_059_956, 1_615_685_872, "172 classes"),
}


class GcbSet(NamedTuple):
    """A published file and the numbers of its training, validation and test graphs."""

    file: str
    counts: tuple[int, int, int]


GCB = {
    "gcb-easy-small": GcbSet("easy_small.npz", (239, 30, 31)),
    "gcb-hard-small": GcbSet("hard_small.npz", (245, 29, 26)),
    "gcb-easy": GcbSet("easy.npz", (1475, 162, 163)),
    "gcb-hard": GcbSet("hard.npz", (1451, 159, 190)),
}


# Datasets with published results; TU has the whole collection.
TU_SIZES = {
    "MUTAG": "188 graphs, 2 classes", "ENZYMES": "600 graphs, 6 classes", "PROTEINS": "1,113 graphs, 2 classes",
    "DD": "1,178 graphs, 2 classes", "NCI1": "4,110 graphs, 2 classes", "NCI109": "4,127 graphs, 2 classes",
    "REDDIT-BINARY": "2,000 graphs, 2 classes", "IMDB-BINARY": "1,000 graphs, 2 classes",
    "IMDB-MULTI": "1,500 graphs, 3 classes", "COLLAB": "5,000 graphs, 3 classes",
}  # fmt: skip

TU = (
    *TU_SIZES,
    "AIDS", "BZR", "BZR_MD", "COX2", "COX2_MD", "DHFR", "DHFR_MD", "ER_MD", "FRANKENSTEIN", "MCF-7", "MCF-7H",
    "MOLT-4", "MOLT-4H", "Mutagenicity", "NCI-H23", "NCI-H23H", "OVCAR-8", "OVCAR-8H", "P388", "P388H", "PC-3",
    "PC-3H", "PTC_FM", "PTC_FR", "PTC_MM", "PTC_MR", "SF-295", "SF-295H", "SN12C", "SN12CH", "SW-620", "SW-620H",
    "UACC257", "UACC257H", "Yeast", "YeastH", "KKI", "OHSU", "Peking_1", "PROTEINS_full", "COIL-DEL", "COIL-RAG",
    "Cuneiform", "Fingerprint", "FIRSTMM_DB", "Letter-high", "Letter-low", "Letter-med", "MSRC_9", "MSRC_21",
    "MSRC_21C", "DBLP_v1", "deezer_ego_nets", "github_stargazers", "reddit_threads", "twitch_egos", "REDDIT-MULTI-5K",
    "REDDIT-MULTI-12K", "TWITTER-Real-Graph-Partial", "COLORS-3", "SYNTHETIC", "SYNTHETICnew", "Synthie", "TRIANGLES",
)  # fmt: skip

MOLECULES = {                               # numbers of graphs, as OGB publishes them
    "ogbg-molbace": 1513, "ogbg-molbbbp": 2039, "ogbg-molclintox": 1477, "ogbg-molmuv": 93087, "ogbg-molpcba": 437929,
    "ogbg-molsider": 1427, "ogbg-moltox21": 7831, "ogbg-moltoxcast": 8576, "ogbg-molhiv": 41127, "ogbg-molesol": 1128,
    "ogbg-molfreesolv": 642, "ogbg-mollipo": 4200, "ogbg-molchembl": 456331,
}  # fmt: skip

TU_LOADER = "sets.tu:load_tu"        # also of sets in a data root that are not listed here

# Name -> module and function. A function whose first parameter is ``name`` loads several datasets.
NODE_SETS: dict[str, str] = {
    **dict.fromkeys(CITATION, "sets.citation:load_citation"),
    **dict.fromkeys(NPZ, "sets.npz:load_npz_set"),
    **dict.fromkeys(OGB_NODES, "sets.ogb:load_ogb_nodes"),
    "npz": "sets.npz:load_npz_file",
    "sbm": "sets.synthetic:sbm",
    **dict.fromkeys(SIMULATED, "sets.synthetic:simulated"),
    "file": "own.one_graph:load_node_files",
}

GRAPH_SETS: dict[str, str] = {
    **dict.fromkeys(TU, TU_LOADER),
    **dict.fromkeys(MOLECULES, "sets.ogb:load_molecules"),
    **dict.fromkeys(GCB, "sets.gcb:load_gcb"),
    "gcb-sim": "sets.gcb:gcb_sim",
    "motifs": "sets.synthetic:motifs",
    "trees": "sets.synthetic:trees",
    "csl": "sets.synthetic:csl",
    "file": "own.many_graphs:load_graph_files",
}


def loader(table: Mapping[str, str], name: str, root: str | Path | None = None) -> Callable[..., Any]:
    """Return the function that loads a dataset of ``NODE_SETS`` or ``GRAPH_SETS``, or any TU set of a data root."""
    if table is GRAPH_SETS and name not in table and _is_tu_on_disk(name, root):
        table = {name: TU_LOADER}
    module, function = lookup(table, name, "dataset.name").split(":")
    load = getattr(import_module(f"jbpool.data.{module}"), function)
    first = next(iter(inspect.signature(load).parameters), None)
    return partial(load, name) if first == "name" else load


def _is_tu_on_disk(name: str, root: str | Path | None) -> bool:
    """Return whether a data root has a dataset of this name in the TU format."""
    from jbpool.data.download import find

    plain = isinstance(name, str) and re.fullmatch(r"[A-Za-z0-9][\w.-]{0,100}", name) is not None
    return plain and any(find(place, root) for place in (f"TU/{name}.zip", f"TU/{name}/{name}_A.txt"))


def default_options(load: Callable[..., Any]) -> dict[str, Any]:
    """Return the options of a loader, with their defaults."""
    parameters = inspect.signature(load).parameters.values()
    return {item.name: item.default for item in parameters if item.name not in ("root", "name")}


def file_options(table: Mapping[str, str], name: str) -> list[str]:
    """Return the options of a dataset that describe files: their places, and the names of the classes in them."""
    return [option for option, hint in _hints(loader(table, name)).items() if _is_path(hint) or option == "class_names"]


def _hints(load: Callable[..., Any]) -> dict[str, Any]:
    hints = get_type_hints(getattr(load, "func", load))             # of the function inside a partial
    return {option: hints[option] for option in default_options(load)}


def _is_path(hint: Any) -> bool:
    return Path in get_args(hint)


def problems(
    table: Mapping[str, str], name: str, root: str | Path | None, options: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    """Yield key and problem of an unknown name or option, and of every value of the wrong type or range."""
    try:
        load = loader(table, name, root)
    except JBPoolError as error:
        yield "dataset.name", str(error)
        return
    hints = _hints(load)
    for option, value in options.items():
        key = f"dataset.{option}"
        try:
            lookup(hints, option, f"dataset {name!r}: option")
            value = convert(value, hints[option])
            if isinstance(value, (int, float)) and not 0 <= value <= MAX_OPTION:
                yield key, f"{key}={value} should be at least 0 and at most {MAX_OPTION}"
        except TypeError:
            yield key, f"{key}={value!r} should be {readable(hints[option])}"
        except JBPoolError as error:
            yield key, str(error)


def load_set(table: Mapping[str, str], name: str, root: str | Path | None, options: Mapping[str, Any]) -> Any:
    """Check the options of a dataset and load it."""
    wrong = [problem for _, problem in problems(table, name, root, options)]
    if wrong:
        raise DataError("\n".join(wrong))
    load, options = loader(table, name, root), dict(options)
    for option, hint in _hints(load).items():
        if _is_path(hint) and isinstance(options.get(option), str):
            options[option] = os.path.expanduser(options[option])
    if "root" in inspect.signature(load).parameters:
        options["root"] = root if root is None else Path(root).expanduser()
    return load(**options)


def node_file(path: Path) -> dict[str, str]:
    """Return the ``dataset.*`` settings that load a user's graph from this file, by its suffix."""
    if path.suffix == ".npz":
        from jbpool.data.arrays import array_names

        if "adj_indptr" in array_names(path):
            return {"name": "npz", "path": str(path)}
    return {"name": "file", "graph" if path.suffix == ".bin" else "edges": str(path)}


def graph_file(path: Path) -> dict[str, str]:
    """Return the ``dataset.*`` settings that load a user's graphs from this folder, or file of DGL."""
    return {"name": "file", "folder" if path.is_dir() else "graphs": str(path)}
