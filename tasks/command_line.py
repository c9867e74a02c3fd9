"""What the two tasks share on the command line. Nothing slow is imported before the arguments are parsed."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def parser(task: str, description: str | None) -> argparse.ArgumentParser:
    """The options of every task."""
    options = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--cfg", metavar="NAME|PATH", help=f"a YAML file: a path, or a name in configs/{task}/")
    options.add_argument("--set", metavar="a.b=v", action="append", default=[], dest="changes", help="change a setting")
    options.add_argument("--seeds", metavar="0,1,2", help="the seeds to run (train.seeds)")
    options.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda"))
    options.add_argument("--out", metavar="DIR", help=f"the run folder; by default runs/{task}/<cfg>-<time>")
    options.add_argument("--list", action="store_true", help="list configurations, methods and datasets")
    options.add_argument("--resume", action="store_true", help="continue the run in --out, or the latest of this --cfg")
    return options


def parse(options: argparse.ArgumentParser) -> argparse.Namespace:
    args = options.parse_args()
    if args.seeds is not None:
        args.changes.append(f"train.seeds=[{args.seeds}]")
    return args


def whole_numbers(option: str, text: str) -> list[int]:
    """``0,1,2`` as numbers."""
    try:
        return [int(word) for word in text.split(",")]
    except ValueError:
        sys.exit(f"{option} {text}: give whole numbers with commas between them, such as 0,1,2.")


def main(start: Callable[[argparse.Namespace], int], args: argparse.Namespace) -> int:
    """Run a task: what users can mend is told in a sentence, without a traceback."""
    sys.path.insert(0, str(ROOT))
    try:
        from jbpool.engine.fit import TrainingError

        try:
            return start(args)
        except TrainingError as error:
            print(f"stopped: {error}", file=sys.stderr)
            return 1
        except ValueError as error:             # configurations and data: the message says what to change
            print(error, file=sys.stderr)
            return 2
        except PermissionError as error:
            print(f"{error.filename} cannot be written ({error.strerror}); choose another --out.", file=sys.stderr)
            return 2
    except KeyboardInterrupt:
        folder = getattr(args, "folder", None)
        more = "" if folder is None else f"; what is done so far is in {folder}, --resume --out {folder} continues"
        print(f"\ninterrupted{more}.", file=sys.stderr)
        return 130


def show_list(task: str, methods: tuple[str, ...]) -> int:
    from jbpool.data.__main__ import main as list_datasets
    from jbpool.engine.config import CONFIGS

    names = ", ".join(sorted(path.name for path in (CONFIGS / task).glob("*.yaml")))
    print(f"configurations: {names}\nmethods: {', '.join(methods)}\n")
    list_datasets()
    return 0


def choose_device(name: str):
    """The torch device of ``--device``."""
    import torch

    if name == "cuda" and not torch.cuda.is_available():
        sys.exit("--device cuda: torch sees no GPU here; use --device cpu, or see scripts/check_env.py.")
    return torch.device("cuda" if name == "cuda" or (name == "auto" and torch.cuda.is_available()) else "cpu")


def run_folder(args: argparse.Namespace, task: str) -> Path:
    """Where the run goes; never into a folder that holds another one."""
    name = Path(args.cfg).stem if args.cfg else "default"
    base = Path("runs", task)
    if args.out is not None:
        folder = Path(args.out)
    elif args.resume:
        pattern = f"{name}-" + "[0-9]" * 8 + "-" + "[0-9]" * 6
        earlier = sorted(path.parent for path in base.glob(f"{pattern}/config.yaml"))
        if not earlier:
            sys.exit(f"--resume: there is no run of {name} under {base}; name its folder with --out.")
        folder = earlier[-1]
    else:
        folder = base / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    if not args.resume and (folder / "config.yaml").exists():
        sys.exit(f"{folder} holds a run already: continue it with --resume, or choose another --out.")
    if args.resume and not (folder / "config.yaml").exists():
        print(f"{folder} holds no run to continue: a new one begins.")
    if any(part.exists() and not part.is_dir() for part in (folder, *folder.parents)):
        sys.exit(f"--out {folder}: cannot be made a folder, there is a file of that name; choose another.")
    args.folder = folder
    return folder


def print_scores(scores: dict[str, Any]) -> None:
    for key, value in scores["mean"].items():
        print(f"{key:>18} {value:8.3f}" + (f" +- {scores['std'][key]:.3f}" if len(scores["runs"]) > 1 else ""))
