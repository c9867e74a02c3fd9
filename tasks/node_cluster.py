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
    from jbpool.clustering import run as node_cluster
    from jbpool.clustering.predict import predict
    from jbpool.clustering.report import write_report
    from jbpool.engine.config import load_config

    if args.list:
        return cli.show_list(TASK, node_cluster.METHODS)
    device = cli.choose_device(args.device)
    if args.predict is not None:
        if args.cfg is not None:
            sys.exit("--cfg has no say beside --predict: name the new graph with --set dataset...=...")
        run_dir = Path(args.predict)
        print(predict(run_dir, args.changes, Path(args.out or run_dir / "predicted"), device))
        return 0
    config = load_config(TASK, args.cfg, args.changes)
    folder = cli.run_folder(args, TASK)
    data = node_cluster.load_data(config)
    try:
        out = node_cluster.run(config, folder, device, args.resume, data)
    except KeyboardInterrupt:
        if (folder / "assign.npz").exists():
            write_report(folder, data)              # of the seeds that are finished
        raise
    print()
    cli.print_scores(out.result)
    print(f"\nthe cluster of every node: {folder / 'assign.csv'}\nopen {write_report(folder, data)}")
    return 0


if __name__ == "__main__":
    options = cli.parser(TASK, __doc__)
    options.add_argument("--predict", metavar="RUN_DIR", help="assign the nodes of --set dataset... by a trained model")
    sys.exit(cli.main(start, cli.parse(options)))
