"""Cluster the nodes of a graph.

    python tasks/node_cluster.py                                    a generated graph, in under a minute
    python tasks/node_cluster.py --cfg dblp.yaml                    the paper's network on DBLP
    python tasks/node_cluster.py --cfg cora --set method.name=dmon  another method
    python tasks/node_cluster.py --cfg file.yaml                    your own graph: edit the file first
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))        # also when started by other means than its path

import command_line as cli

TASK = "node_cluster"


def start(args: argparse.Namespace) -> int:
    from jbpool import node_cluster
    from jbpool.config import load_config
    from jbpool.report import write_report

    if args.list:
        return cli.show_list(TASK, node_cluster.METHODS)
    device = cli.choose_device(args.device)
    if args.predict is not None:
        run_dir = Path(args.predict)
        print(node_cluster.predict(run_dir, args.changes, Path(args.out) if args.out else run_dir, device))
        return 0
    config = load_config(TASK, args.cfg, args.changes)
    folder = cli.run_folder(args, TASK)
    out = node_cluster.run(config, folder, device, args.resume)
    print()
    cli.print_scores(out.result["mean"], out.result["std"])
    print(f"\nopen {write_report(folder)}")
    return 0


if __name__ == "__main__":
    options = cli.parser(TASK, __doc__)
    options.add_argument("--predict", metavar="RUN_DIR", help="assign the nodes of --set dataset... by a trained model")
    sys.exit(cli.main(start, cli.parse(options)))
