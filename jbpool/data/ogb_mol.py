"""``ogbg-mol*`` datasets: the reader, official split and metric of ``ogb``, without its prompts.

``ogb`` prompts on the terminal before it updates or downloads; it is therefore given a complete folder. The graphs are
packed and cached, so that ``ogb`` reads a dataset only once.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from jbpool.checks import lookup
from jbpool.data import ogb_files
from jbpool.data.cache import Arrays, cached
from jbpool.data.containers import GraphData, Split
from jbpool.data.ogb_files import files_of, folder_name, import_ogb, source, unpacked
from jbpool.data.sources import fetch, find
from jbpool.errors import DataError

PARSER = 1
PARTS = ("train", "valid", "test")
NUM_GRAPHS = {                              # as OGB publishes them
    "ogbg-molbace": 1513,
    "ogbg-molbbbp": 2039,
    "ogbg-molclintox": 1477,
    "ogbg-molmuv": 93087,
    "ogbg-molpcba": 437929,
    "ogbg-molsider": 1427,
    "ogbg-moltox21": 7831,
    "ogbg-moltoxcast": 8576,
    "ogbg-molhiv": 41127,
    "ogbg-molesol": 1128,
    "ogbg-molfreesolv": 642,
    "ogbg-mollipo": 4200,
    "ogbg-molchembl": 456331,
}


def catalogue() -> pd.DataFrame:
    """The molecule sets of ``ogb``: a column with the properties of each."""
    return ogb_files.catalogue("graphproppred", "ogbg-mol")


def _graphproppred():
    import_ogb()
    import ogb.graphproppred as graphproppred

    return graphproppred


def evaluator(name: str):
    """The official ``Evaluator`` of a set."""
    return _graphproppred().Evaluator(name)


def load_ogb(name: str, root: str | Path | None = None) -> GraphData:
    """A molecule dataset from a data root (for example the folder ``ogb/ogbg_molhiv``), else downloaded."""
    molecules = catalogue()
    info = lookup({column: molecules[column] for column in molecules}, name, "dataset.name")
    folder = find(folder_name(name), root)
    if folder is None:
        archive = fetch(source(info), root, offline="python tasks/graph_classify.py (generated graphs)")

        def parse() -> Arrays:
            with unpacked(archive, info) as content:
                return _read(name, content, info)

        arrays = cached(name, [archive], PARSER, parse)
    else:
        arrays = cached(name, files_of(folder), PARSER, lambda: _read(name, folder, info))

    tensors = {key: torch.from_numpy(value) for key, value in arrays.items()}
    return GraphData(
        name=name,
        sizes=tensors["sizes"],
        num_edges=tensors["num_edges"],
        source=tensors["source"].long(),
        target=tensors["target"].long(),
        feat=tensors["feat"].long(),
        label=tensors["label"],
        num_classes=tensors["label"].shape[1],
        metric=str(info["eval metric"]),
        edge_feat=tensors["edge_feat"].long(),
        official_split=Split(*(tensors[part] for part in PARTS)),
    )


def _read(name: str, folder: Path, info: pd.Series) -> Arrays:
    """Let ``ogb`` read a folder in its own layout through symbolic links, and pack the graphs."""
    with tempfile.TemporaryDirectory() as staging:
        copy = Path(staging, name.replace("-", "_"))
        scheme = str(info["split"])
        (copy / "split" / scheme).mkdir(parents=True)
        (copy / f"RELEASE_v{info['version']}.txt").touch()      # otherwise ogb asks whether to update
        if not (folder / "raw").is_dir():
            raise DataError.at(folder, "has no folder raw/")
        os.symlink((folder / "raw").resolve(), copy / "raw")
        for part in PARTS:
            table = folder / "split" / scheme / f"{part}.csv.gz"
            if not table.is_file():
                raise DataError.at(table, "is missing")
            os.symlink(table.resolve(), copy / "split" / scheme / table.name)
        (copy / "processed").mkdir()
        try:
            with open(os.devnull, "w") as silence, contextlib.redirect_stdout(silence):
                dataset = _graphproppred().GraphPropPredDataset(name, root=staging)
        except (OSError, ValueError, KeyError, IndexError, EOFError) as error:
            raise DataError.at(folder, f"ogb cannot read it ({type(error).__name__}: {error})") from None
        graphs, split = dataset.graphs, dataset.get_idx_split()
        labels = dataset.labels

    arrays = _pack(graphs, labels, split)
    problem = _first_problem(arrays, int(info["num tasks"]))
    if problem is not None:
        raise DataError.at(folder, problem)
    small = {"source": np.int32, "target": np.int32, "feat": np.int16, "edge_feat": np.int16}
    return {key: value.astype(small.get(key, value.dtype)) for key, value in arrays.items()}


def _first_problem(arrays: Arrays, num_tasks: int) -> str | None:
    """The first inconsistency of a dataset, which ``ogb`` itself does not check."""
    num_graphs = len(arrays["sizes"])
    if arrays["label"].shape != (num_graphs, num_tasks):
        return f"labels of shape {arrays['label'].shape} for {num_graphs} graphs and {num_tasks} tasks"
    node_limit = arrays["sizes"].repeat(arrays["num_edges"])
    for end in ("source", "target"):
        if ((arrays[end] < 0) | (arrays[end] >= node_limit)).any():
            return "an edge leads to a node that its graph does not have"
    import_ogb()
    from ogb.utils.features import get_atom_feature_dims, get_bond_feature_dims

    for kind, limits in (("feat", get_atom_feature_dims()), ("edge_feat", get_bond_feature_dims())):
        codes = arrays[kind]
        if codes.shape[1] != len(limits) or (codes < 0).any() or (codes >= np.array(limits)).any():
            return f"{'atom' if kind == 'feat' else 'bond'} features are outside the range of ogb's encoders"
    chosen = np.concatenate([arrays[part] for part in PARTS])
    if chosen.min(initial=0) < 0 or chosen.max(initial=0) >= num_graphs or len(np.unique(chosen)) != len(chosen):
        return f"the split names a graph twice or one outside 0..{num_graphs - 1}"
    return None


def _pack(graphs: list, labels: np.ndarray, split: dict[str, np.ndarray]) -> Arrays:
    ends = np.concatenate([graph["edge_index"] for graph in graphs], axis=1)
    return {
        "sizes": np.array([graph["num_nodes"] for graph in graphs]),
        "num_edges": np.array([graph["edge_index"].shape[1] for graph in graphs]),
        "source": ends[0],
        "target": ends[1],
        "feat": np.concatenate([graph["node_feat"] for graph in graphs]),
        "edge_feat": np.concatenate([graph["edge_feat"] for graph in graphs]),
        "label": labels,
        **{part: split[part] for part in PARTS},
    }
