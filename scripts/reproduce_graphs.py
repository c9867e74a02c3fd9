"""Run what is missing of the table of graph classification; stop and start it as you like.

    python scripts/reproduce_graphs.py                              every set: all pools side by side on the same folds
    python scripts/reproduce_graphs.py --sets proteins --folds 0,1  a quick look
    python scripts/table.py runs/reproduce_graphs                   the table, at any time

Each set has two folders under runs/reproduce_graphs, jb with both roots beside none, and the other pools, all on the
same folds. Finished folds are not run again.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SETS = ("proteins", "mutag", "enzymes", "nci1", "dd", "reddit-binary", "molhiv")
FORMS = {
    "flat": ["model.compare=[none, jb-diagonal]"],
    "pools": ["model.pool=mincut", "model.compare=[dmon, diffpool]"],
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=SETS, choices=SETS)
    parser.add_argument("--forms", nargs="+", default=list(FORMS), choices=FORMS)
    parser.add_argument("--folds", help="which folds, by default all")
    parser.add_argument("--out", default="runs/reproduce_graphs")
    args = parser.parse_args()
    failed = []
    for name in args.sets:
        for form in args.forms:
            command = [sys.executable, str(ROOT / "tasks" / "graph_classify.py"), "--cfg", f"{name}.yaml", "--resume"]
            command += ["--out", str(Path(args.out, f"{name}-{form}"))]
            command += [word for change in FORMS[form] for word in ("--set", change)]
            command += [] if args.folds is None or name == "molhiv" else ["--folds", args.folds]
            print(f"== {name}, {form}", flush=True)
            if subprocess.run(command, check=False).returncode:
                failed.append(f"{name}, {form}")
    if failed:
        print("failed: " + "; ".join(failed), file=sys.stderr)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
