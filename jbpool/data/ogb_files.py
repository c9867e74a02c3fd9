"""What all OGB sets share: ``import ogb`` without prompts, its catalogue, and where the files of a set are.

``ogb`` checks for updates over the network and prompts before it updates or downloads. Neither may block a run.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd

from jbpool.data.arrays import extract, open_archive
from jbpool.data.sources import Source
from jbpool.errors import DataError


def import_ogb():
    """``import ogb`` without its check for updates over the network, which can delay the exit."""
    if "ogb" not in sys.modules:
        before = sys.modules.get("outdated")
        sys.modules["outdated"] = None                      # type: ignore[assignment]  # ogb copes with its absence
        try:
            import ogb  # noqa: F401
        finally:
            del sys.modules["outdated"]
            if before is not None:
                sys.modules["outdated"] = before
    return sys.modules["ogb"]


def catalogue(kind: str, prefix: str) -> pd.DataFrame:
    """The table of datasets of ``ogb``: a column per dataset.

    Parameters
    ----------
    kind : str
        ``"graphproppred"`` or ``"nodeproppred"``.
    prefix : str
        How the names of the datasets begin.
    """
    master = Path(import_ogb().__file__).parent / kind / "master.csv"
    table = pd.read_csv(master, index_col=0, keep_default_na=False)
    return table[[name for name in table.columns if name.startswith(prefix)]]


def folder_name(name: str) -> str:
    """The folder of a set under a data root, as ``ogb`` calls it: ``ogb/ogbn_arxiv``."""
    return f"ogb/{name.replace('-', '_')}"


def source(info: pd.Series) -> Source:
    """The archive of a set. ``ogb`` publishes no hashes: its reader and the checks of the loaders take their place."""
    url = str(info["url"]).replace("http://", "https://", 1)
    return Source(f"ogb/{info['download_name']}.zip", (url,), check=lambda path: open_archive(path).close())


def files_of(folder: Path) -> list[Path]:
    """The data files of an unpacked set."""
    parts = [folder / part for part in ("raw", "split")]
    files = [path for part in parts for path in sorted(part.rglob("*")) if path.suffix in (".gz", ".npz")]
    if not files:
        raise DataError.at(folder, "has no raw/*.csv.gz; it must have the folders raw/ and split/ of OGB")
    return files


@contextmanager
def unpacked(archive: Path, info: pd.Series) -> Iterator[Path]:
    """The folder of a set, unpacked from its archive into a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        extract(archive, Path(folder))
        yield Path(folder, str(info["download_name"]))
