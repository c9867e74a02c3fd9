"""Check that torch is supported and dgl can be imported, and if not, say how to fix it (standard library only).

DGL is compiled against torch; after an upgrade of either, its import can fail with a traceback about a missing shared
library. ``import jbpool`` and ``scripts/check_env.py`` turn that into one line with the command that fixes it.
"""

from __future__ import annotations

import functools
import importlib
import logging
import os
import re
import sys
from importlib.metadata import PackageNotFoundError, version

TORCH, DGL = "2.13.0", "1.1.3"          # the pair of requirements.lock
OLDEST_TORCH, NEWEST_TORCH = "2.4.1", "2.15.0"      # what scripts/matrix.py tests
PACKAGES = {"yaml": "pyyaml", "sklearn": "scikit-learn"}        # module -> package, where they differ
INSTALL = f'pip install "torch=={TORCH}" "dgl=={DGL}" packaging'


def installed(package: str) -> str | None:
    """The installed version of a package, or ``None``."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def require_dgl() -> None:
    """Import dgl, or raise an ``ImportError`` that says how to fix the installation."""
    os.environ.setdefault("DGLBACKEND", "pytorch")      # otherwise dgl prompts and writes a file at first import
    check_torch(installed("torch"))
    try:
        importlib.import_module("dgl")
    except Exception as error:                          # missing libraries surface as OSError, FileNotFoundError, ...
        raise ImportError(advice(error)) from None


@functools.cache                                        # one line per process
def check_torch(torch: str | None) -> None:
    """Refuse a torch that is too old; warn about versions newer than those tested.

    Parameters
    ----------
    torch : str or None
        The installed version. ``None``: not installed, or without metadata.
    """
    if torch is None:
        return
    oldest, newest, found = (_minor(name) for name in (OLDEST_TORCH, NEWEST_TORCH, torch))
    if found < oldest:
        raise ImportError(f"jbpool needs torch {oldest[0]}.{oldest[1]} or later, not {torch}: run `{INSTALL}`.")
    if found > newest:
        tested = f"{oldest[0]}.{oldest[1]} to {newest[0]}.{newest[1]}"
        logging.getLogger("jbpool").warning(
            "jbpool has been tested with torch %s, not with %s; if something fails, run `%s`.", tested, torch, INSTALL
        )


def _minor(name: str) -> tuple[int, int]:
    """``"2.13.0+cpu"`` to (2, 13)."""
    found = re.match(r"(\d+)\.(\d+)", name)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def advice(error: Exception) -> str:
    """What cannot be loaded, why, and the command that fixes it, in one line."""
    torch, dgl = installed("torch"), installed("dgl")
    if torch is None:
        return (
            f"jbpool needs torch and dgl, and torch is not installed: run `{INSTALL}`, "
            "or in a checkout `make env` and `. .venv/bin/activate`."
        )
    if dgl is None:
        return f"jbpool needs dgl, and dgl is not installed beside torch {torch}: run `{INSTALL}`."
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    if missing is not None and "." not in missing and installed(PACKAGES.get(missing, missing)) is None:
        name = PACKAGES.get(missing, missing)
        return f"dgl {dgl} needs the package {name!r}, which is not installed: run `pip install {name}`."
    reason = " ".join(f"{type(error).__name__}: {error}".split())
    python = "" if sys.version_info < (3, 12) else f" under Python 3.11 (dgl {DGL} has no wheels for a later one)"
    return f"dgl {dgl} does not load with torch {torch} ({reason[:200]}): run `{INSTALL}`{python}."
