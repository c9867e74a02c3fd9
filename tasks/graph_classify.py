"""Classify graphs with pooling.

    python tasks/graph_classify.py                                  generated graphs, in under a minute
    python tasks/graph_classify.py --cfg proteins.yaml              ten folds of PROTEINS
    python tasks/graph_classify.py --cfg proteins --folds 0,1       a quick look
    python tasks/graph_classify.py --cfg nci1 --set model.pool=none the same network without pooling
    torchrun --nproc-per-node 2 tasks/graph_classify.py --cfg dd    two processes
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))        # also when started by other means than its path

import command_line as cli

TASK = "graph_classify"
LOST = "another process of this run has died, so this one stops; --resume continues from the last checkpoint."


def start(args: argparse.Namespace) -> int:
    import torch

    from jbpool.classification import run as graph_classify
    from jbpool.classification.report import write_report
    from jbpool.engine.config import load_config
    from jbpool.engine.processes import gather, process_group, rank, world_size

    if args.list:
        return cli.show_list(TASK, graph_classify.METHODS)
    if "WORLD_SIZE" in os.environ:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(LOST))        # torchrun's way to say that a process is gone
    device = cli.choose_device(args.device)
    if device.type == "cuda":
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(device)
    config = load_config(TASK, args.cfg, args.changes)
    folds = None if args.folds is None else cli.whole_numbers("--folds", args.folds)
    with process_group(device):
        folder = gather(cli.run_folder(args, TASK))[0]          # rank 0 names it, before anyone writes to it
        try:
            out = graph_classify.run(config, folder, device, folds, args.resume)
        except RuntimeError as error:
            if world_size() > 1 and any(word in str(error) for word in ("peer", "gloo", "NCCL")):
                sys.exit(LOST)
            raise
        if rank() > 0:
            return 0
    print()
    for method, scores in {out.method: out.result, **out.result["compared"]}.items():
        print(method)
        cli.print_scores(scores)
    print(f"\nopen {write_report(folder)}")
    return 0


if __name__ == "__main__":
    options = cli.parser(TASK, __doc__)
    options.add_argument("--folds", metavar="0,1", help="which folds to run; by default all")
    sys.exit(cli.main(start, cli.parse(options)))
