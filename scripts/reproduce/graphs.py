"""Run what is missing of the table of graph classification; it can be stopped and restarted at any time.

    python scripts/reproduce/graphs.py                              every dataset, all pools on the same folds
    python scripts/reproduce/graphs.py --sets proteins --folds 0,1  a part of it
    python scripts/reproduce/table.py runs/reproduce_graphs         the table, at any time

Each dataset has two folders under runs/reproduce_graphs: jb and none, and the other pools, all on the same folds.
Finished folds are not repeated.
"""

from __future__ import annotations

import argparse
import sys
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=SETS, choices=SETS)
    parser.add_argument("--forms", nargs="+", default=list(FORMS), choices=FORMS)
    parser.add_argument("--folds", help="the folds to run (default: all)")
    parser.add_argument("--out", default="runs/reproduce_graphs")
    args = parser.parse_args()
    commands = {}
    for name in args.sets:
        more = [] if args.folds is None or name == "molhiv" else ["--folds", args.folds]
        for form in args.forms:
            out = Path(args.out, f"{name}-{form}")
            changes = FORMS[form] + MORE.get(name, [])
            commands[f"{name}, {form}"] = task_command("graph_classify", name, changes, out, *more)
    return run_in_turn(commands)


if __name__ == "__main__":
    sys.exit(main())
