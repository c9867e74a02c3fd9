"""The user's own graphs to classify: a folder in the TU format or of CSV files, or a file of ``dgl.save_graphs``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from jbpool.data.bins import load_graph_bin
from jbpool.data.containers import GraphData, Split
from jbpool.data.graph_tables import EDGES, GRAPH_WORDS, GRAPHS, NODES, load_graph_tables
from jbpool.data.lines import read_text
from jbpool.data.text import Table, shown
from jbpool.data.tu import load_tu_folder
from jbpool.errors import DataError


def load_graph_files(
    folder: str | Path | None = None,
    graphs: str | Path | None = None,
    ids: str | Path | None = None,
    class_names: list[str] | None = None,
    train: str | Path | None = None,
    valid: str | Path | None = None,
    test: str | Path | None = None,
) -> GraphData:
    """Your own graphs, with a class each if they are for training.

    Parameters
    ----------
    folder : str or Path, optional
        A folder with ``graphs.csv``, ``nodes.csv`` and ``edges.csv``, or one in the TU format.
    graphs : str or Path, optional
        Instead of ``folder``: a file of ``dgl.save_graphs(path, graphs, {"label": classes})``. ndata 'feat', edata
        'weight' and edata 'feat' are used; without node features, degrees are.
    ids : str or Path, optional
        Text file with the id of every graph, one per line. CSV folders have ids already.
    class_names : list of str, optional
        Names of the classes, in the order of their numbers.
    train : str or Path, optional
        Your own split: a text file with the ids of the training graphs, one per line. ``valid`` and ``test`` are
        required with it.
    valid : str or Path, optional
        The validation graphs.
    test : str or Path, optional
        The test graphs.
    """
    if (folder is None) == (graphs is None):
        cure = "" if folder is None else "; --set dataset.graphs=null overrides a file that sets it"
        raise DataError(
            f"dataset 'file': give either folder (CSV files, or the TU format) or graphs (a DGL .bin file){cure}."
        )
    if folder is not None and not Path(folder).is_dir():
        raise DataError.at(folder, f"no such folder; it should have {GRAPHS}, {NODES} and {EDGES}, or the TU format")
    if graphs is not None and Path(graphs).is_dir():
        raise DataError.at(graphs, "it is a folder: use dataset.folder, and dataset.graphs=null if a file sets it")
    if graphs is not None:
        data = load_graph_bin(Path(graphs))
    elif folder is not None and Path(folder, GRAPHS).is_file():
        if ids is not None:
            raise DataError(f"dataset 'file': leave out dataset.ids, {GRAPHS} has the ids.")
        data = load_graph_tables(Path(folder))
    else:
        data = load_tu_folder(folder)               # type: ignore[arg-type]
    if ids is not None:
        data = replace(data, ids=_read_ids(Path(ids), len(data)))
    if class_names is not None:
        if len(class_names) != data.num_classes or len(set(class_names)) < len(class_names):
            known = ", ".join(data.class_names or ()) or "none"
            expected = f"{data.num_classes} different names, for the classes {known}"
            raise DataError(f"dataset.class_names={class_names}: give {expected}.")
        data = replace(data, class_names=class_names)
    parts = {"train": train, "valid": valid, "test": test}
    if any(part is not None for part in parts.values()):
        data = replace(data, official_split=_read_split(parts, data))
    return data


def _lines(path: Path) -> tuple[np.ndarray, Table]:
    """The ids in a file, one per line, as text; a header such as ``id`` is skipped."""
    block = read_text(path)
    table = Table.parse(path, block, header=False)
    if table.columns != 1:
        raise DataError.at(path, f"{table.columns} columns: expected one graph id per line", table.first + 1)
    if next(table.rows())[1][0].lower() in (*GRAPH_WORDS, "id"):
        table = Table.parse(path, block, header=True)
    return table.read((0,), text=True)[0], table


def _read_ids(path: Path, count: int) -> np.ndarray:
    ids, table = _lines(path)
    if len(ids) != count:
        raise DataError.at(path, f"{len(ids)} ids for {count} graphs")
    repeated = pd.Series(ids).duplicated().to_numpy()
    if repeated.any():
        place = int(repeated.argmax())
        raise DataError.at(path, f"graph {shown(ids[place])} is listed twice", table.line(place))
    return ids


def _read_split(parts: Mapping[str, str | Path | None], data: GraphData) -> Split:
    """The three parts of a split by graph ids."""
    missing = [name for name, path in parts.items() if path is None]
    if missing:
        raise DataError(f"dataset.{missing[0]} is missing: give train, valid and test, or none of them.")
    known = pd.Index([str(name) for name in data.own_ids])
    part_of = np.full(len(data), "", dtype=object)
    found = {}
    for name, place in parts.items():
        path = Path(place)                          # type: ignore[arg-type]
        ids, table = _lines(path)
        index = known.get_indexer(pd.Index(ids))
        for bad, problem in (
            (index < 0, "is not in the dataset"),
            (pd.Series(ids).duplicated().to_numpy(), "is listed twice"),
            ((index >= 0) & (part_of[index] != ""), "is also in another part of the split"),
        ):
            if bad.any():
                row = int(np.argmax(bad))
                raise DataError.at(path, f"graph {shown(ids[row])} {problem}", table.line(row))
        part_of[index] = name
        found[name] = torch.from_numpy(np.sort(index))
    return Split(**found)
