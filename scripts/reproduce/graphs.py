"""Run what is missing of the table of graph classification; it can be stopped and restarted at any time.

    python scripts/reproduce/graphs.py                              every dataset, all pools on the same folds
    python scripts/reproduce/graphs.py --sets proteins --folds 0,1  a part of it
    python scripts/reproduce/table.py runs/reproduce_graphs         the table, at any time
    python scripts/reproduce/graphs.py --single --folds 0,1,2       single networks of every pool, into a CSV

Each dataset has two folders under runs/reproduce_graphs: jb and none, and the other pools, all on the same folds.
Finished folds are not repeated. With --single every pool of a dataset has a folder under runs/single_graphs, and its
folds are added to single.csv there as soon as they are finished.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Iterable
from pathlib import Path

from in_turn import run_in_turn, task_command

SETS = (
    "mutag", "gcb-hard-small", "gcb-easy-small", "enzymes", "proteins", "gcb-sim",
    "nci1", "dd", "reddit-binary", "molhiv",
)  # fmt: skip
# Three networks per fold; on small sets, their dropout rate is selected on the validation graphs of the fold.
AVERAGED, SEARCHED = "model.members=3", "search.grid.model.dropout=[0.15, 0.4]"
MORE = {
    "mutag": [AVERAGED, SEARCHED], "gcb-hard-small": [AVERAGED, SEARCHED], "gcb-easy-small": [AVERAGED, SEARCHED],
    "proteins": [AVERAGED, SEARCHED], "enzymes": [AVERAGED, SEARCHED], "gcb-sim": [AVERAGED], "nci1": [AVERAGED],
    "dd": [AVERAGED], "reddit-binary": [AVERAGED], "molhiv": [AVERAGED],
}  # fmt: skip
FORMS = {
    "flat": ["model.compare=[none]"],
    "pools": ["model.pool=mincut", "model.compare=[dmon, diffpool]"],
}
# Where pooling may pay: also two generated sets.
SINGLE = (
    "mutag", "gcb-hard-small", "motifs", "csl", "enzymes", "proteins", "gcb-easy-small", "gcb-sim", "nci1", "dd",
    "reddit-binary",
)  # fmt: skip
POOLS = ("none", "jb", "mincut", "dmon", "diffpool", "topk", "sag", "kmis", "graclus", "random")
COLUMNS = ("set", "pool", "seed", "fold", "valid", "test", "epochs", "seconds")


def run_single(sets: Iterable[str], pools: Iterable[str], folds: list[str], out: Path) -> int:
    """Run single networks of every pool, and collect their scores in single.csv."""
    code = 0
    for name in sets:
        for pool in pools:
            folder = out / f"{name}-{pool}"
            command = task_command("graph_classify", name, [f"model.pool={pool}", "model.compare=[]"], folder, *folds)
            code |= run_in_turn({f"{name}, {pool}": command})
            with open(out / "single.csv", "w", newline="") as file:
                writer = csv.DictWriter(file, COLUMNS, extrasaction="ignore")
                writer.writeheader()
                for path in sorted(out.glob("*/result.json")):
                    result = json.loads(path.read_text())
                    of = {"set": path.parent.name.rpartition("-")[0], "pool": result["method"]}
                    writer.writerows(of | run for run in result["runs"])
    return code


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=sorted({*SETS, *SINGLE}), metavar="NAME")
    parser.add_argument("--forms", nargs="+", default=list(FORMS), choices=FORMS)
    parser.add_argument("--folds", help="the folds to run (default: all)")
    parser.add_argument("--single", action="store_true", help="single networks of every pool")
    parser.add_argument("--pools", nargs="+", default=POOLS, choices=POOLS, help="with --single")
    parser.add_argument("--out")
    args = parser.parse_args()
    if args.single:
        folds = [] if args.folds is None else ["--folds", args.folds]
        return run_single(args.sets or SINGLE, args.pools, folds, Path(args.out or "runs/single_graphs"))
    commands = {}
    for name in args.sets or SETS:
        more = [] if args.folds is None or name == "molhiv" else ["--folds", args.folds]
        for form in args.forms:
            out = Path(args.out or "runs/reproduce_graphs", f"{name}-{form}")
            changes = FORMS[form] + MORE.get(name, [])
            commands[f"{name}, {form}"] = task_command("graph_classify", name, changes, out, *more)
    return run_in_turn(commands)


if __name__ == "__main__":
    sys.exit(main())
