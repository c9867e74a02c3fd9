"""The command ``jbpool``: ``cluster``, ``classify``, ``compare`` and ``check``; ``tasks/*.py`` start the first two.

Nothing slow is imported before the arguments are parsed, so that ``--help`` answers at once.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import sys
import textwrap
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NoReturn

from jbpool import __version__
from jbpool.console import exit_on_broken_pipe
from jbpool.errors import DGL_RUNS_HERE, INSTALL_DGL, ConfigError, InputError, JBPoolError, TrainingError, WriteError
from jbpool.names import BACKBONES

CLUSTER = """Cluster the nodes of a graph.

  jbpool cluster edges.csv                        your own graph: a line per edge, the number of clusters is chosen
  jbpool cluster edges.csv -k 7 --features f.csv  seven clusters, with features of the nodes
  jbpool cluster --cfg dblp.yaml                  a published graph
  jbpool cluster --cfg cora --set method.name=dmon   another method
  jbpool cluster                                  a generated graph, in under a minute
"""

CLASSIFY = """Classify graphs with pooling.

  jbpool classify my_folder                      your own graphs: graphs.csv, nodes.csv and edges.csv
  jbpool classify --cfg proteins.yaml            ten folds of PROTEINS
  jbpool classify --cfg proteins --folds 0,1     two folds only
  jbpool classify --cfg nci1 --set model.pool=none   the same network without pooling
  jbpool classify                                generated graphs, in under a minute
"""

COMPARE = """Compare two or more runs on one page.

It shows scores side by side, settings that differ, the agreement of the results, and where they differ.
"""

PACKAGE = Path(__file__).parent
MEMORY_FIX = {
    "cluster": "fewer clusters (method.num_clusters), a smaller model.hidden, or a smaller graph",
    "classify": "a smaller train.batch_size, model.hidden, or fewer clusters (model.num_clusters, model.ratio)",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``jbpool`` with these arguments; returns the exit code."""
    return exit_on_broken_pipe(lambda: _command(sys.argv[1:] if argv is None else argv))


def cluster(argv: Sequence[str] | None = None) -> int:
    """Run ``jbpool cluster``."""
    return main(["cluster", *(sys.argv[1:] if argv is None else argv)])


def classify(argv: Sequence[str] | None = None) -> int:
    """Run ``jbpool classify``."""
    return main(["classify", *(sys.argv[1:] if argv is None else argv)])


# ---------------------------------------------------------------- arguments


class _Parser(argparse.ArgumentParser):
    """Reports a wrong argument as one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser("jbpool", description="Just Balance pooling and clustering of graphs.")
    parser.add_argument("--version", action="version", version=f"jbpool {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")

    def add(name: str, description: str, run: Callable[[argparse.Namespace], int]) -> argparse.ArgumentParser:
        summary, raw = description.partition("\n")[0], argparse.RawDescriptionHelpFormatter
        command = commands.add_parser(name, help=summary, description=description, formatter_class=raw)
        command.set_defaults(run=run, parser=command)
        return command

    options = add("cluster", CLUSTER, lambda args: _start("node_cluster", args))
    formats = "a CSV of edges, Parquet, .npy, .npz, GML, GraphML, GEXF, or a .bin of DGL"
    options.add_argument("file", nargs="?", metavar="FILE", help=f"your own graph: {formats}")
    options.add_argument(
        "-k", metavar="7|2-12", help="the number of clusters, or a range to choose it from "
        "(default: the number of classes where there are labels, else 2-30)",
    )  # fmt: skip
    options.add_argument("--features", metavar="FILE", help="features of the nodes: CSV, Parquet, .npy, .npz")
    options.add_argument("--labels", metavar="FILE", help="classes of the nodes, to score the result")
    options.add_argument("--baselines", action="store_true", help="compare with k-means, spectral clustering, Leiden")
    _add_task_options(options, "node_cluster", "the graph FILE")
    options = add("classify", CLASSIFY, lambda args: _start("graph_classify", args))
    formats = "CSV files, the TU format, or a .bin of DGL"
    options.add_argument("file", nargs="?", metavar="FOLDER", help=f"your own graphs: {formats}")
    options.add_argument("--folds", metavar="0,1", help="the folds to run (default: all)")
    _add_task_options(options, "graph_classify", "the graphs in FOLDER")
    options = add("compare", COMPARE, lambda args: _compare(args))
    options.add_argument("runs", nargs="+", metavar="RUN", help="run folders")
    options.add_argument("--out", default="compare.html", metavar="FILE", help="the page (default: compare.html)")
    add("check", "Show what is installed, whether it loads, and how to fix it.", lambda _: _check())
    return parser


def _add_task_options(options: argparse.ArgumentParser, task: str, new: str) -> None:
    """Add the options that both tasks have."""
    options.add_argument("--cfg", metavar="NAME|PATH", help=f"a YAML file: a path, or a name in configs/{task}/")
    options.add_argument("--set", metavar="a.b=v", action="append", default=[], dest="changes", help="set a.b to v")
    options.add_argument("--seeds", metavar="0,1,2", help="the seeds to run (train.seeds)")
    options.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda"))
    options.add_argument("--out", metavar="DIR", help=f"the run folder (default: runs/{task}/<name>-<time>)")
    options.add_argument("--resume", action="store_true", help="continue the run in --out, or the latest of this name")
    options.add_argument("--predict", metavar="RUN_DIR", help=f"apply the trained model of a run to {new}")
    options.add_argument("--log", choices=("tensorboard", "mlflow"), help="pass every evaluation on to it")
    options.add_argument("--list", action="store_true", help="list configurations, methods and datasets")
    options.add_argument("--show-config", action="store_true", help="print every setting, its default and its origin")


def _command(argv: Sequence[str]) -> int:
    parser = _parser()
    args, unknown = parser.parse_known_args(argv)
    if args.command is None:
        parser.error("give a command: cluster, classify, compare or check")
    if unknown:
        one = "" if unknown[0].startswith("-") else " (give one file or folder)"
        args.parser.error(f"unrecognized arguments: {' '.join(unknown)}{one}")
    args.folder = None                                                      # until a run has one
    return _reporting_errors(args)


def _changes(name: str, args: argparse.Namespace) -> list[Any]:
    """Return what the arguments change, ``--set`` first: the others have precedence."""
    from jbpool.data.catalogue import graph_file, node_file
    from jbpool.engine.config import Change

    changes = list(args.changes)                                # texts, whose problems are reported with all others
    if args.file is not None:
        own = _own_file(name, args.file)
        options = node_file(own) if name == "node_cluster" else graph_file(own)
        changes += [Change(f"dataset.{key}", value, args.file) for key, value in options.items()]
    for option in ("features", "labels"):
        if (path := getattr(args, option, None)) is not None:
            if args.file is None and args.cfg is None and args.predict is None:
                raise ConfigError(f"--{option} {path}: give the graph, too: jbpool cluster FILE --{option} {path}")
            changes.append(Change(f"dataset.{option}", path, f"--{option} {path}"))
    if getattr(args, "k", None) is not None:
        number = int(args.k) if args.k.removeprefix("-").isdecimal() else args.k
        changes.append(Change("method.num_clusters", number, f"-k {args.k}"))
    if args.seeds is not None:
        changes.append(Change("train.seeds", _whole_numbers("--seeds", args.seeds), f"--seeds {args.seeds}"))
    return changes


def _own_file(name: str, given: str) -> Path:
    """Return the path of FILE or FOLDER, if it can be one."""
    from jbpool.engine.config import config_names

    path, command = Path(given).expanduser(), "cluster" if name == "node_cluster" else "classify"
    if path.suffix in (".yaml", ".yml"):
        raise ConfigError(f"{given} is a configuration: jbpool {command} --cfg {given}")
    if os.path.isfile(path / "config.yaml"):
        raise ConfigError(f"{given} is a run folder: apply its model with --predict {given}, or see its report.html.")
    if not os.path.exists(path):
        known = f"{given}.yaml" in config_names(name)
        raise ConfigError(f"{given}: no such file{f'; did you mean --cfg {given}.yaml?' if known else '.'}")
    if name == "node_cluster" and path.is_dir():
        raise ConfigError(f"{given} is a folder: give the file that has the edges; jbpool classify takes folders.")
    return path


# ---------------------------------------------------------------- running


@contextmanager
def _quitting_on_interrupt() -> Iterator[None]:
    """End the process at once on Ctrl-C inside the block: an exception inside an import may be lost or disguised."""

    def stop(*_: Any) -> None:
        os.write(2, b"\ninterrupted.\n")
        os._exit(130)

    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler or threading.current_thread() is not threading.main_thread():
        yield                                                               # ignored, or handled by someone else
        return
    signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _reporting_errors(args: argparse.Namespace) -> int:
    """Run the command; errors that users can fix are printed as one line, without a traceback.

    Returns the exit code: 0, 2 if the input is refused, 1 if the run fails, 130 after Ctrl-C.
    """
    try:
        return args.run(args)
    except KeyboardInterrupt:
        print(f"\ninterrupted{_what_is_left(args)}.", file=sys.stderr)
        return 130
    except WriteError as error:
        print(f"{error} with --out{_what_is_left(args)}.", file=sys.stderr)
        return error.exit_code
    except (InputError, BrokenPipeError):                       # a layer was called with the wrong input: a bug
        raise
    except JBPoolError as error:
        print(f"stopped: {error}" if isinstance(error, TrainingError) else error, file=sys.stderr)
        return error.exit_code
    except OSError as error:
        if error.filename is None or Path(str(error.filename)).is_relative_to(PACKAGE):        # a bug
            raise
        print(f"{error.filename}: {error.strerror}", file=sys.stderr)       # a file of the user that cannot be read
        return 2
    except (MemoryError, RuntimeError) as error:
        if not _is_out_of_memory(error):
            raise
        print(f"not enough memory: {MEMORY_FIX.get(args.command, 'close other programs')}.", file=sys.stderr)
        return 1
    finally:
        if "WORLD_SIZE" in os.environ:                          # this process ends by itself, with its own message
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            signal.signal(signal.SIGALRM, signal.SIG_IGN)


def _what_is_left(args: argparse.Namespace) -> str:
    """Return the end of a message about a stopped run: how to resume it, if it has started."""
    folder = args.folder
    if folder is None or not os.path.exists(folder / "config.yaml"):
        return ""
    finished = f"; finished work is in {folder}" if os.path.exists(folder / "finished.pt") else ""
    folds = f" --folds {args.folds}" if getattr(args, "folds", None) else ""
    return f"{finished}; continue with --resume --out {folder}{folds}"


def _is_out_of_memory(error: Exception) -> bool:
    """Return whether memory ran out: numpy raises MemoryError, torch its own on a GPU, an untyped one on the CPU."""
    import torch

    return isinstance(error, (MemoryError, torch.cuda.OutOfMemoryError)) or "DefaultCPUAllocator" in str(error)


def _start(name: str, args: argparse.Namespace) -> int:
    if args.list:
        return _show_list(name)
    with _quitting_on_interrupt():
        changes = _changes(name, args)
        from jbpool.engine.config import load_config, settings
        from jbpool.engine.run_folder import kept_config
        from jbpool.processes import choose_device

        task = _load_task(name)
    if args.predict is not None:
        return _predict(task, args, changes)
    cfg = args.cfg or ("file" if args.file else kept_config(name, args.out) if args.resume else None)
    if args.show_config:
        return _show_config(settings(task, cfg, changes))
    config = load_config(task, cfg, changes)
    more: dict[str, Any] = {"log": args.log}
    if getattr(args, "folds", None) is not None:
        more["folds"] = _whole_numbers("--folds", args.folds)
    if getattr(args, "baselines", False):
        more["baselines"] = True
    if "WORLD_SIZE" in os.environ:
        signal.signal(signal.SIGTERM, _stop_with_the_others)
    with ExitStack() as stack:
        return _run(task, args, config, choose_device(args.device), more, stack)


def _run(task: Any, args: argparse.Namespace, config: Any, device: Any, more: dict[str, Any], stack: ExitStack) -> int:
    """Run a task; ``stack`` holds the run folder until the report is written."""
    from jbpool.engine.run_folder import by_method, choose_folder, refuse_other_files
    from jbpool.files import check_writable, held
    from jbpool.processes import gather, process_group, rank, world_size
    from jbpool.report.published import CLUSTERING

    with process_group(device):
        folder = choose_folder(task.name, args.cfg or args.file, args.out, args.resume, changed=bool(args.changes))
        folder, config = gather((folder, config))[0]                        # of rank 0: others may lack its folder
        args.folder = folder
        if world_size() > 1 and (reason := task.one_process_only(config)):
            raise ConfigError(reason)
        if rank() == 0:                                                     # the only one that writes
            check_writable(folder / "config.yaml")                          # before hours of work
            stack.enter_context(held(folder))
            refuse_other_files(folder, args.resume)                         # another may have just finished one
            if unused := task.unused(config):
                print(f"settings without effect here: {', '.join(unused)}")
        data = task.load_data(config)
        out = task.run(config, data, folder, device, resume=args.resume, **more)
        if rank() > 0:
            return 0
    print()
    for method, scores in by_method(out.result).items():
        _print_scores(method, scores, CLUSTERING.get(method, {}).get(data.name))
    print()
    if (folder / "assign.csv").exists():
        print(f"the cluster of every node: {folder / 'assign.csv'}")
    print(f"open {out.write_report()}")
    return 0


def _load_task(name: str) -> Any:
    if name == "node_cluster":
        from jbpool.clustering.task import NODE_CLUSTER

        return NODE_CLUSTER
    from jbpool.classification.task import GRAPH_CLASSIFY

    return GRAPH_CLASSIFY


def _stop_with_the_others(*_: Any) -> None:
    """Stop: torchrun sends SIGTERM when another process has died."""
    # Python drops an exception raised in a destructor or a callback of a weak reference: then it is raised again.
    sys.unraisablehook = lambda _: None
    signal.signal(signal.SIGALRM, _stop_with_the_others)
    signal.setitimer(signal.ITIMER_REAL, 1.0)
    sys.exit("another process of this run has died, so this one stops; --resume continues from the checkpoint.")


# Options that have no effect with --predict, and why
NOT_TO_PREDICT = {
    "--cfg": "give the new graph as FILE or by --set dataset...=...",
    "-k": "the clusters of the model are fixed",
    "--folds": "the model of the best fold is applied",
    "--seeds": "the model of the best seed is applied",
    "--resume": "a prediction has no unfinished part",
    "--baselines": "other methods have no model to apply",
    "--log": "nothing is trained",
}


def _predict(task: Any, args: argparse.Namespace, changes: list[Any]) -> int:
    from jbpool.engine.config import load_config, parse_change
    from jbpool.processes import choose_device

    for option, why in NOT_TO_PREDICT.items():
        if getattr(args, option.lstrip("-"), None):
            raise ConfigError(f"{option} has no effect with --predict: {why}.")
    run_dir = Path(args.predict)
    if (run_dir / "config.yaml").is_file():
        load_config(task, str(run_dir / "config.yaml"))         # a run of the other task is refused as such
    if task.name == "node_cluster":
        from jbpool.clustering.predict import predict
    else:
        from jbpool.classification.predict import predict
    changes = [parse_change(change) if isinstance(change, str) else change for change in changes]
    print(predict(run_dir, changes, Path(args.out or run_dir / "predicted"), choose_device(args.device)))
    return 0


def _whole_numbers(option: str, text: str) -> list[int]:
    """Parse ``0,1,2``."""
    try:
        return [int(word) for word in text.split(",")]
    except ValueError:
        raise ConfigError(f"{option} {text}: give whole numbers separated by commas, such as 0,1,2.") from None


def _show_list(task: str) -> int:
    """Print what a task accepts; imports nothing slow."""
    from jbpool.data.catalogue import GRAPH_SETS, NODE_SETS
    from jbpool.engine.config import config_names

    names: dict[str, Iterable[str]] = {"--cfg": config_names(task)}
    if task == "node_cluster":
        from jbpool.clustering import config as clustering

        names |= {"method.name": clustering.METHODS, "model.backbone": clustering.NETWORKS, "dataset.name": NODE_SETS}
    else:
        from jbpool.classification import config as classification

        names |= {"model.pool": classification.METHODS, "model.backbone": BACKBONES, "dataset.name": GRAPH_SETS}
    for key, accepted in names.items():
        print(textwrap.fill(" ".join(accepted), 100, initial_indent=f"{key}: ", subsequent_indent="    ",
                            break_on_hyphens=False))  # fmt: skip
    print("python -m jbpool.data shows the size of every dataset, and where it is or comes from.")
    return 0


def _show_config(settings: Iterable[tuple[str, Any, Any, str]]) -> int:
    """Print rows of ``settings`` as a table."""
    rows = [("setting", "value", "default", "origin")]
    rows += [(key, json.dumps(value), json.dumps(default), origin) for key, value, default, origin in settings]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for row in rows:
        print("  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]]))
    return 0


# Scores whose names do not say it
MEANING = {
    "score": "bits per node that the clusters save in describing edges and features",
    "moved": "nodes that changed their cluster after the training, for one that explains them better",
}


def _print_scores(method: str, scores: dict[str, Any], paper: tuple[float | None, ...] | None) -> None:
    """Print the mean scores; beside them the paper's ``(ACC, its deviation, NMI, its deviation)``, if it has any."""
    print(method)
    published = {} if paper is None else {"acc": paper[0], "nmi": paper[2]}
    for key, value in scores["mean"].items():
        whole = all(isinstance(run.get(key), int) for run in scores["runs"]) and scores["std"][key] == 0
        line = f"{key:>18} {value:8.{0 if whole else 3}f}"
        line += f" +- {scores['std'][key]:.3f}" if len(scores["runs"]) > 1 and not whole else ""
        notes = [f"the paper's {method}: {published[key]:.3f}"] if key in published else []
        notes += [MEANING[key]] if key in MEANING else []
        print(line + (f"   ({'; '.join(notes)})" if notes else ""))


# ---------------------------------------------------------------- the other commands


def _compare(args: argparse.Namespace) -> int:
    if len(args.runs) < 2:
        raise ConfigError("give at least two run folders to compare.")
    with _quitting_on_interrupt():
        from jbpool.compare import compare
    out = Path(args.out).expanduser()
    compare([Path(run).expanduser() for run in args.runs], out)
    print(f"open {out}")
    return 0


OLD_TORCH = "torch.__version__ >= (2, 4) or exit('jbpool needs torch 2.4 or later')"
# Package -> code that uses it, what needs it if not everything does, how to install it, and how to fix it.
PACKAGES = {
    "torch": (
        f"import torch; {OLD_TORCH}", "", "pip install torch, without a GPU with --index-url https://download.pytorch.org/whl/cpu",
        "pip install --upgrade --force-reinstall torch",
    ),
    "dgl": (
        "import dgl", "only graphs of DGL need it", INSTALL_DGL,
        "pip install dgl==1.1.3 packaging" if DGL_RUNS_HERE else f"pip uninstall dgl: {INSTALL_DGL}",
    ),
    "torch-geometric": (
        "import torch_geometric", "only graphs of PyG need it", "pip install 'jbpool[pyg]'",
        "pip install --upgrade torch-geometric",
    ),
    "jbpool": (
        "import jbpool.trained, jbpool.clustering.estimator", "", "pip install . in the checkout",
        "install what is missing, or all of it: pip install . in the checkout",
    ),
}  # fmt: skip


def _check() -> int:
    """Print what is installed and loads, and how to fix what does not; returns 0 if jbpool can be used, else 1."""
    from importlib.metadata import PackageNotFoundError, version

    print(f"python {platform.python_version()}")
    code = 0
    for package, (use, needed_by, install, fix) in PACKAGES.items():
        try:
            shown = f"{package} {version(package)}"
        except PackageNotFoundError:
            shown = f"{package} {__version__} (not installed)" if package == "jbpool" else ""
        if not shown:
            print(f"{package} is not installed{f' ({needed_by})' if needed_by else ''}: {install}")
            problem: str | None = "missing"
        elif problem := _problem_of(use):
            print(f"{shown} cannot be used ({problem}): {fix}")
        else:
            print(shown)
        code = 1 if problem and not needed_by else code
    if code == 0:
        import torch

        place = "a GPU" if torch.cuda.is_available() else "the CPU; torch sees no GPU"
        print(f"jbpool is ready on {place}.")
    return code


def _problem_of(code: str) -> str | None:
    """Return why Python code fails, run in a process of its own: a library that does not fit may crash."""
    import subprocess

    path = os.pathsep.join([str(PACKAGE.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    command, env = [sys.executable, "-c", code], {**os.environ, "PYTHONPATH": path}
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    return (result.stderr.splitlines() or ["it crashes"])[-1] if result.returncode else None
