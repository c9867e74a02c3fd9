"""Print the installed versions of torch and dgl, whether they load, and if not, how to fix it.

    python scripts/check_env.py

The exit code is 0 if jbpool can be used, else 1.
"""

from __future__ import annotations

import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))     # works in a checkout that is not installed


def main() -> int:
    print(f"python {platform.python_version()}")
    for package in ("torch", "dgl", "packaging"):
        try:
            print(f"{package} {version(package)}")
        except PackageNotFoundError:
            print(f"{package} is not installed")
    try:
        import jbpool.nn
    except ImportError as error:
        print(f"jbpool cannot be imported.\n{error}")
        return 1
    import torch

    from jbpool.processes import dgl_has_cuda

    sees_gpu = torch.cuda.is_available()
    ready = sees_gpu and dgl_has_cuda()
    print(f"import dgl works; jbpool {jbpool.__version__} is ready on {'cuda' if ready else 'cpu'}.")
    if sees_gpu and not ready:
        torch_minor, cuda = ".".join(torch.__version__.split(".")[:2]), (torch.version.cuda or "").replace(".", "")
        print(
            "torch sees a GPU but this dgl was built without CUDA: run `pip install --force-reinstall --no-deps dgl -f "
            f"https://data.dgl.ai/wheels/torch-{torch_minor}/cu{cuda}/repo.html` (docs/install.md: which pairs exist)."
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
