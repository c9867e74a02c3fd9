"""What is installed, whether it loads, and how to fix it: the command ``jbpool check``."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from jbpool import __version__
from jbpool.errors import DGL_RUNS_HERE, INSTALL_DGL

OLD_TORCH = "torch.__version__ >= (2, 4) or exit('jbpool needs torch 2.4 or later')"
# Package -> code that uses it, what needs it if not everything does, how to install it, and how to fix it.
PACKAGES = {
    "torch": (
        f"import torch; {OLD_TORCH}", "", "pip install torch, without a GPU with --index-url https://download.pytorch.org/whl/cpu",
        "pip install --upgrade --force-reinstall torch",
    ),
    "dgl": (
        "import dgl", "only graphs of DGL need it", INSTALL_DGL,
        "pip install dgl==1.1.3 packaging" if DGL_RUNS_HERE else f"pip uninstall dgl: {INSTALL_DGL}",
    ),
    "torch-geometric": (
        "import torch_geometric", "only graphs of PyG need it", "pip install 'jbpool[pyg]'",
        "pip install --upgrade torch-geometric",
    ),
    "anndata": (
        "import anndata", "only cells need it", "pip install 'jbpool[anndata]'", "pip install --upgrade anndata",
    ),
    "jbpool": (
        "import jbpool.trained, jbpool.clustering.estimator", "", "pip install . in the checkout",
        "install what is missing, or all of it: pip install . in the checkout",
    ),
}  # fmt: skip


def show_installation() -> int:
    """Print what is installed and loads, and how to fix what does not; returns 0 if jbpool can be used, else 1."""
    print(f"python {platform.python_version()}")
    code = 0
    for package, (use, needed_by, install, fix) in PACKAGES.items():
        try:
            shown = f"{package} {version(package)}"
        except PackageNotFoundError:
            shown = f"{package} {__version__} (not installed)" if package == "jbpool" else ""
        if not shown:
            print(f"{package} is not installed{f' ({needed_by})' if needed_by else ''}: {install}")
            problem: str | None = "missing"
        elif problem := _problem_of(use):
            print(f"{shown} cannot be used ({problem}): {fix}")
        else:
            print(shown)
        code = 1 if problem and not needed_by else code
    if code == 0:
        import torch

        place = "a GPU" if torch.cuda.is_available() else "the CPU; torch sees no GPU"
        print(f"jbpool is ready on {place}.")
    return code


def _problem_of(code: str) -> str | None:
    """Return why Python code fails, run in a process of its own: a library that does not fit may crash."""
    path = os.pathsep.join([str(Path(__file__).parent.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    command, env = [sys.executable, "-c", code], {**os.environ, "PYTHONPATH": path}
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    return (result.stderr.splitlines() or ["it crashes"])[-1] if result.returncode else None
