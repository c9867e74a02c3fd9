"""Cluster the nodes of a graph.

    python tasks/node_cluster.py                                    a generated graph, in under a minute
    python tasks/node_cluster.py --cfg dblp.yaml                    the paper's network on DBLP
    python tasks/node_cluster.py --cfg cora --set method.name=dmon  another method
    python tasks/node_cluster.py --cfg file.yaml                    your own graph: edit the file first
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TASK = "node_cluster"


def parse() -> argparse.Namespace:
    """Arguments, before anything slow is imported."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cfg", metavar="NAME|PATH", help=f"a YAML file: a path, or a name in configs/{TASK}/")
    parser.add_argument("--set", metavar="a.b=v", action="append", default=[], dest="changes", help="change a setting")
    parser.add_argument("--seeds", metavar="0,1,2", help="the seeds to run (train.seeds)")
    parser.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda"))
    parser.add_argument("--out", metavar="DIR", help=f"the run folder; by default runs/{TASK}/<cfg>-<time>")
    parser.add_argument("--list", action="store_true", help="list configurations, methods and datasets")
    parser.add_argument("--resume", action="store_true", help="continue the run in --out, or the latest of this --cfg")
    parser.add_argument("--predict", metavar="RUN_DIR", help="assign the nodes of --set dataset... by a trained model")
    args = parser.parse_args()
    if args.seeds is not None:
        args.changes.append(f"train.seeds=[{args.seeds}]")
    return args


def run_folder(args: argparse.Namespace) -> Path:
    """Where the run goes; never into a folder that holds another one."""
    name = Path(args.cfg).stem if args.cfg else "default"
    base = Path("runs", TASK)
    if args.out is not None:
        folder = Path(args.out)
    elif args.resume:
        earlier = sorted(base.glob(f"{name}-*"))
        if not earlier:
            sys.exit(f"--resume: there is no run of {name} under {base}; name its folder with --out.")
        folder = earlier[-1]
    else:
        folder = base / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    if not args.resume and (folder / "config.yaml").exists():
        sys.exit(f"{folder} holds a run already: continue it with --resume, or choose another --out.")
    return folder


def main() -> int:
    args = parse()
    sys.path.insert(0, str(ROOT))
    try:
        return start(args)
    except KeyboardInterrupt:
        print("\ninterrupted; what is done so far is in the run folder, --resume continues.", file=sys.stderr)
        return 130


def start(args: argparse.Namespace) -> int:
    import torch

    from jbpool import node_cluster
    from jbpool.config import CONFIGS, load_config
    from jbpool.report import write_report
    from jbpool.train import TrainingError

    if args.list:
        names = ", ".join(sorted(path.name for path in (CONFIGS / TASK).glob("*.yaml")))
        print(f"configurations: {names}\nmethods: {', '.join(node_cluster.METHODS)}\n")
        from jbpool.data.__main__ import main as list_datasets

        list_datasets()
        return 0
    if args.device == "cuda" and not torch.cuda.is_available():
        sys.exit("--device cuda: torch sees no GPU here; use --device cpu, or see scripts/check_env.py.")
    device = torch.device(
        "cuda" if args.device == "cuda" or (args.device == "auto" and torch.cuda.is_available()) else "cpu"
    )
    try:
        if args.predict is not None:
            run_dir = Path(args.predict)
            print(node_cluster.predict(run_dir, args.changes, Path(args.out) if args.out else run_dir, device))
            return 0
        config = load_config(TASK, args.cfg, args.changes)
        folder = run_folder(args)
        out = node_cluster.run(config, folder, device, args.resume)
    except TrainingError as error:
        print(f"stopped: {error}", file=sys.stderr)
        return 1
    except ValueError as error:             # configurations and data: the message says what to change
        print(error, file=sys.stderr)
        return 2
    print()
    for key, value in out.result["mean"].items():
        print(f"{key:>18} {value:8.3f} +- {out.result['std'][key]:.3f}")
    print(f"\nopen {write_report(folder)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
