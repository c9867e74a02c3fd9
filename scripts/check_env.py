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
    for package in ("torch", "dgl", "torch-geometric"):
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

    print(f"jbpool {jbpool.__version__} is ready on {'cuda' if torch.cuda.is_available() else 'cpu'}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
