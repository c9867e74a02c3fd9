"""``ogbg-mol*`` through ``ogb`` itself: its reader, official split and metric, without its prompts.

``ogb`` asks on the terminal whether to update or download; it is therefore handed a folder in which nothing is left
to ask for. What it reads is packed and cached, so the second load does not go through it again.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from jbpool.checks import lookup
from jbpool.data.archive import extract
from jbpool.data.cache import Arrays, cached
from jbpool.data.errors import DataError
from jbpool.data.sources import Source, fetch, find
from jbpool.data.types import GraphData, Split

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


def import_ogb():
    """``import ogb`` without its question to the network whether it is outdated, which can hold up the exit."""
    if "ogb" not in sys.modules:
        before = sys.modules.get("outdated")
        sys.modules["outdated"] = None                      # type: ignore[assignment]  # ogb copes with its absence
        try:
            import ogb  # noqa: F401
        finally:
            del sys.modules["outdated"]
            if before is not None:
                sys.modules["outdated"] = before
    import ogb.graphproppred as graphproppred

    return graphproppred


def catalogue() -> pd.DataFrame:
    """What ``ogb`` knows of its molecule sets: a column each."""
    master = Path(import_ogb().__file__).with_name("master.csv")
    table = pd.read_csv(master, index_col=0, keep_default_na=False)
    return table[[name for name in table.columns if name.startswith("ogbg-mol")]]


def evaluator(name: str):
    """The official ``Evaluator`` of a set."""
    return import_ogb().Evaluator(name)


def source(name: str) -> Source:
    """The archive of a set; ``ogb`` publishes no hash, its reader and the counts stand for one."""
    info = lookup({column: catalogue()[column] for column in catalogue()}, name, "dataset.name")
    url = str(info["url"]).replace("http://", "https://", 1)
    return Source(f"ogb/{info['download_name']}.zip", (url,))


def load_ogb(name: str, root: str | Path | None = None) -> GraphData:
    """A molecule set from a data root (the folder ``ogb/ogbg_molhiv``), else fetched."""
    info = lookup({column: catalogue()[column] for column in catalogue()}, name, "dataset.name")
    folder = find(f"ogb/{name.replace('-', '_')}", root)
    with contextlib.ExitStack() as stack:
        if folder is None:
            archive = fetch(source(name), root, offline="python tasks/graph_classify.py (generated graphs)")
            files = [archive]

            def parse() -> Arrays:
                unpacked = Path(stack.enter_context(tempfile.TemporaryDirectory()))
                extract(archive, unpacked)
                return _read(name, unpacked / str(info["download_name"]), info)
        else:
            files = [path for part in ("raw", "split") for path in sorted((folder / part).rglob("*.gz"))]
            if not files:
                raise DataError.at(folder, "has no raw/*.csv.gz; it must have the folders raw/ and split/ of OGB")

            def parse() -> Arrays:
                return _read(name, folder, info)

        arrays = cached(name, files, PARSER, parse)

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
    """Let ``ogb`` read a folder of its own form, from a copy made of links, and pack the graphs."""
    with tempfile.TemporaryDirectory() as staging:
        copy = Path(staging, name.replace("-", "_"))
        scheme = str(info["split"])
        (copy / "split" / scheme).mkdir(parents=True)
        (copy / f"RELEASE_v{info['version']}.txt").touch()      # else ogb asks whether to update
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
                dataset = import_ogb().DglGraphPropPredDataset(name, root=staging)
        except (OSError, ValueError, KeyError, IndexError, EOFError) as error:
            raise DataError.at(folder, f"ogb cannot read it ({type(error).__name__}: {error})") from None
        graphs, split = dataset.graphs, dataset.get_idx_split()
        labels = dataset.labels

    if len(labels) != len(graphs) or sum(len(split[part]) for part in PARTS) > len(graphs):
        raise DataError.at(folder, f"{len(labels)} labels and a split that do not fit {len(graphs)} graphs")
    ends = [graph.edges() for graph in graphs]
    return {
        "sizes": np.array([graph.num_nodes() for graph in graphs]),
        "num_edges": np.array([graph.num_edges() for graph in graphs]),
        "source": torch.cat([source for source, _ in ends]).numpy().astype(np.int32),
        "target": torch.cat([target for _, target in ends]).numpy().astype(np.int32),
        "feat": torch.cat([graph.ndata["feat"] for graph in graphs]).numpy().astype(np.int16),
        "edge_feat": torch.cat([graph.edata["feat"] for graph in graphs]).numpy().astype(np.int16),
        "label": labels.numpy(),
        **{part: split[part].numpy() for part in PARTS},
    }
