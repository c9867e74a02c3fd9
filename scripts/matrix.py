"""Run the layer's tests with the oldest and the newest supported torch, each in a throwaway environment.

    python scripts/matrix.py                    # torch 2.4.1, then 2.15.0
    python scripts/matrix.py --torch 2.9.1      # another one

The other packages have the versions of requirements.lock. The environments need Python 3.11 and, since the torch of
PyPI brings CUDA's libraries along, up to 8 GB of disk, one at a time. Exits with 1 if a test failed or none ran.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import tomllib

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

DGL, OLDEST_TORCH, NEWEST_TORCH = "1.1.3", "2.4.1", "2.15.0"

TESTS = ("tests/ops", "tests/nn", "tests/test_objectives.py", "tests/test_theorems.py")
CHOSEN_BY_TORCH = {"torch", "sympy", "setuptools"}      # each torch has its own idea of their versions


def test_with(torch: str, folder: Path) -> tuple[bool, str]:
    """Whether the tests pass with a version of torch, and the last line that pip or pytest printed."""
    locked = (ROOT / "requirements.lock").read_text().splitlines()
    limits = folder / "constraints.txt"
    limits.write_text("\n".join(line for line in locked if line.split("==")[0] not in CHOSEN_BY_TORCH))
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    python = folder / "env" / "bin" / "python"
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-cache-dir"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    steps = (
        [sys.executable, "-m", "venv", str(folder / "env")],
        [*install, "--constraint", str(limits), f"torch=={torch}", *wanted, "pytest", "hypothesis"],
        [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS],
    )
    last = ""
    for step in steps:
        done = subprocess.run(step, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        last = next((line for line in lines if line.startswith("ERROR: ")), (lines or ["it printed nothing"])[-1])
        if done.returncode:
            shown = [line for line in lines if not line.startswith("WARNING: ")]
            print("\n".join(shown[-60:]), file=sys.stderr)
            return False, f"exit code {done.returncode} of {step[2]}: {last}"
    return True, last


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch", nargs="+", default=[OLDEST_TORCH, NEWEST_TORCH], metavar="VERSION")
    args = parser.parse_args()
    if sys.version_info[:2] != (3, 11):
        sys.exit(f"dgl {DGL} has wheels up to Python 3.11: run this with python3.11.")
    passed = True
    for torch in args.torch:
        with tempfile.TemporaryDirectory() as folder:
            good, last = test_with(torch, Path(folder))
        passed &= good
        told = re.sub("=+", "", last).strip()
        print(f"torch {torch}, dgl {DGL}: {'passed' if good else 'FAILED'} ({told})", flush=True)
    return int(not passed)


if __name__ == "__main__":
    sys.exit(main())
