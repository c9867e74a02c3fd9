"""The command ``jbpool``: ``cluster``, ``classify``, ``compare`` and ``check``; ``tasks/*.py`` start the first two.

Nothing slow is imported before the arguments are parsed, so that ``--help`` answers at once.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import textwrap
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from jbpool import __version__
from jbpool.console import exit_on_broken_pipe
from jbpool.errors import ConfigError, InputError, JBPoolError, TrainingError, WriteError
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
TASKS = {"cluster": "node_cluster", "classify": "graph_classify"}           # command -> folder in configs/ and runs/
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


class Option(NamedTuple):
    """An option of ``cluster`` or ``classify``, or of both."""

    help: str
    value: str | None = None                # what it takes, for --help; None: nothing
    sets: str = ""                          # the setting that it changes
    only: str = ""                          # the command that has it
    trains: bool = False                    # it has no effect with --predict, which applies a trained model
    choices: tuple[str, ...] = ()


OPTIONS = {
    "-k": Option("their number, or a range to choose it from (default: that of the classes, without labels 2-30)",
                 "7|2-12", "method.num_clusters", "cluster", trains=True),
    "--features": Option("features of the nodes: CSV, Parquet, .npy, .npz", "FILE", "dataset.features", "cluster"),
    "--weight": Option("the column or edge attribute with the weights", "COLUMN", "dataset.weight", "cluster"),
    "--scale": Option("standard: features of mean 0 and deviation 1", "none|standard", "dataset.scale", "cluster"),
    "--graph": Option("the graph of a .h5ad: a key of obsp", "KEY", "dataset.graph", "cluster"),
    "--labels": Option("classes of the nodes, to score the result", "FILE", "dataset.labels", "cluster"),
    "--previous": Option("a run, or a table of nodes and clusters, whose numbers are kept", "RUN_DIR|FILE",
                         "method.previous", "cluster", trains=True),
    "--fixed": Option("a table of nodes that keep their cluster", "FILE", "method.fixed", "cluster", trains=True),
    "--max-size": Option("write clusters at all levels, and divide those with more nodes (hierarchy.csv)", "N",
                         only="cluster", trains=True),
    "--write": Option("a copy of the .h5ad with the clusters in obs", "FILE.h5ad", only="cluster", trains=True),
    "--baselines": Option("compare with k-means, spectral clustering, Leiden", only="cluster", trains=True),
    "--folds": Option("the folds to run (default: all)", "0,1", only="classify", trains=True),
    "--cfg": Option("a YAML file: a path, or a name in configs/", "NAME|PATH", trains=True),
    "--set": Option("set a.b to v", "a.b=v"),
    "--seeds": Option("the seeds to run", "0,1,2", "train.seeds", trains=True),
    "--device": Option("where to compute (default: auto)", choices=("auto", "cpu", "cuda")),
    "--out": Option("the run folder (default: runs/TASK/NAME-TIME)", "DIR"),
    "--resume": Option("continue the run in --out, or the latest of this name", trains=True),
    "--predict": Option("apply the trained model of a run to the graphs that are given", "RUN_DIR"),
    "--log": Option("pass every evaluation on to it", trains=True, choices=("tensorboard", "mlflow")),
    "--list": Option("list configurations, methods and datasets"),
    "--show-config": Option("print every setting, its default and its origin"),
}  # fmt: skip


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

    for name, description, metavar, formats in (
        ("cluster", CLUSTER, "FILE", "a CSV of edges, Parquet, .npy, .npz, GML, GraphML, GEXF"),
        ("classify", CLASSIFY, "FOLDER", "CSV files, the TU format"),
    ):
        command = add(name, description, _start)
        command.add_argument("file", nargs="?", metavar=metavar, help=f"your own: {formats}, or a .bin of DGL")
        for flag, option in OPTIONS.items():
            if option.only in ("", name):
                _add_option(command, flag, option)
    command = add("compare", COMPARE, _compare)
    command.add_argument("runs", nargs="+", metavar="RUN", help="run folders")
    command.add_argument("--out", default="compare.html", metavar="FILE", help="the page (default: compare.html)")
    add("check", "Show what is installed, whether it loads, and how to fix it.", _check)
    return parser


def _add_option(command: argparse.ArgumentParser, flag: str, option: Option) -> None:
    if flag == "--set":
        command.add_argument(flag, help=option.help, metavar=option.value, action="append", default=[], dest="changes")
    elif option.choices:
        command.add_argument(flag, help=option.help, choices=option.choices)
    elif option.value is None:
        command.add_argument(flag, help=option.help, action="store_true")
    else:
        command.add_argument(flag, help=option.help, metavar=option.value)


def _command(argv: Sequence[str]) -> int:
    parser = _parser()
    args, unknown = parser.parse_known_args(argv)
    if args.command is None:
        parser.error("give a command: cluster, classify, compare or check")
    if unknown:
        hint = "" if unknown[0].startswith("-") else " (give one file or folder)"
        args.parser.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
    args.folder = None                                                      # until a run has one
    return _reporting_errors(args)


def _given(args: argparse.Namespace, flag: str) -> Any:
    """Return the value of an option; ``None`` if it was not given, or if the command does not have it."""
    given = getattr(args, flag.lstrip("-").replace("-", "_"), None)
    return None if given is False else given


def _changes(args: argparse.Namespace) -> list[Any]:
    """Return what the arguments change, ``--set`` first: the others have precedence."""
    from jbpool.data.catalogue import graph_file, node_file
    from jbpool.engine.config import Change

    changes = list(args.changes)                                # texts, whose problems are reported with all others
    if args.file is not None:
        path = _own_file(args)
        options = node_file(path) if args.command == "cluster" else graph_file(path)
        changes += [Change(f"dataset.{key}", value, args.file) for key, value in options.items()]
    for flag, option in OPTIONS.items():
        given = _given(args, flag)
        if given is None or not option.sets:
            continue
        no_graph = args.file is None and args.cfg is None and args.predict is None
        if option.sets.startswith("dataset.") and no_graph:
            raise ConfigError(f"{flag} {given}: give the graph, too: jbpool cluster FILE {flag} {given}")
        value = _whole_numbers(flag, given) if flag == "--seeds" else given
        if flag == "-k":
            value = int(given) if given.removeprefix("-").isdecimal() else given
            if any(change.startswith(f"{option.sets}=") for change in args.changes):
                raise ConfigError(f"-k {given} and --set {option.sets}=...: give only one of them.")
        changes.append(Change(option.sets, value, f"{flag} {given}"))
    return changes


def _own_file(args: argparse.Namespace) -> Path:
    """Return the path of FILE or FOLDER, if it can be one."""
    from jbpool.engine.config import config_names

    given = args.file
    path = Path(given).expanduser()
    if path.suffix in (".yaml", ".yml"):
        raise ConfigError(f"{given} is a configuration: jbpool {args.command} --cfg {given}")
    if os.path.isfile(path / "config.yaml"):
        raise ConfigError(f"{given} is a run folder: apply its model with --predict {given}, or see its report.html.")
    if not os.path.exists(path):
        if "://" in given:
            raise ConfigError(f"{given} is an address on the web: download the file first (curl -LO {given}).")
        is_config = f"{given}.yaml" in config_names(TASKS[args.command])
        raise ConfigError(f"{given}: no such file{f'; did you mean --cfg {given}.yaml?' if is_config else '.'}")
    if args.command == "cluster" and path.is_dir():
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


def _start(args: argparse.Namespace) -> int:
    if args.list:
        return _show_list(args.command)
    with _quitting_on_interrupt():
        changes = _changes(args)
        from jbpool.engine.config import load_config, settings
        from jbpool.engine.run_folder import kept_config
        from jbpool.processes import choose_device

        task = _load_task(args.command)
    if args.predict is not None:
        return _predict(task, args, changes)
    cfg = args.cfg or ("file" if args.file else kept_config(task.name, args.out) if args.resume else None)
    if args.show_config:
        return _show_config(settings(task, cfg, changes))
    config = load_config(task, cfg, changes)
    more: dict[str, Any] = {"log": args.log}
    if (folds := _given(args, "--folds")) is not None:
        more["folds"] = _whole_numbers("--folds", folds)
    if (size := _given(args, "--max-size")) is not None:
        (more["max_size"],) = _whole_numbers("--max-size", size)[:1]
    if _given(args, "--baselines"):
        more["baselines"] = True
    if (target := _given(args, "--write")) is not None:
        more["write"] = Path(target)
    if "WORLD_SIZE" in os.environ:
        signal.signal(signal.SIGTERM, _stop_with_the_others)
    with ExitStack() as stack:
        return _run(task, args, config, choose_device(args.device or "auto"), more, stack)


def _run(task: Any, args: argparse.Namespace, config: Any, device: Any, more: dict[str, Any], stack: ExitStack) -> int:
    """Run a task; ``stack`` holds the run folder until the report is written."""
    from jbpool.engine.run_folder import by_method, choose_folder, refuse_other_files
    from jbpool.files import held
    from jbpool.processes import gather, process_group, rank
    from jbpool.report.published import CLUSTERING

    with process_group(device):
        folder = choose_folder(task.name, args.cfg or args.file, args.out, args.resume, changed=bool(args.changes))
        folder, config = gather((folder, config))[0]                        # of rank 0: others may lack its folder
        args.folder = folder
        if rank() == 0:                                                     # the only one that writes
            stack.enter_context(held(folder))                               # also writable, before hours of work
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


def _load_task(command: str) -> Any:
    if command == "cluster":
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


def _predict(task: Any, args: argparse.Namespace, changes: list[Any]) -> int:
    from jbpool.engine.config import parse_change
    from jbpool.engine.predict import config_for
    from jbpool.files import check_writable
    from jbpool.processes import choose_device

    for flag, option in OPTIONS.items():
        if option.trains and _given(args, flag) is not None:
            raise ConfigError(f"{flag} has no effect with --predict, which applies a trained model: leave it out.")
    run_dir = Path(args.predict)
    path = Path(args.out or run_dir / "predicted") / task.predicted
    config = config_for(
        task, run_dir, [parse_change(change) if isinstance(change, str) else change for change in changes]
    )
    if path.exists():
        raise ConfigError(f"{path} already exists: choose another --out.")
    check_writable(path.parent)
    task.predict(run_dir, config, path, choose_device(args.device or "auto"))
    print(path)
    return 0


def _whole_numbers(option: str, text: str) -> list[int]:
    """Parse ``0,1,2``."""
    try:
        return [int(word) for word in text.split(",")]
    except ValueError:
        raise ConfigError(f"{option} {text}: give whole numbers separated by commas, such as 0,1,2.") from None


def _show_list(command: str) -> int:
    """Print what a task accepts; imports nothing slow."""
    from jbpool.data.catalogue import GRAPH_SETS, NODE_SETS
    from jbpool.engine.config import config_names

    names: dict[str, Iterable[str]] = {"--cfg": config_names(TASKS[command])}
    if command == "cluster":
        from jbpool.clustering import config as clustering

        names |= {"method.name": clustering.METHODS, "model.backbone": clustering.NETWORKS, "dataset.name": NODE_SETS}
    else:
        from jbpool.classification import config as classification

        names |= {"model.pool": classification.METHODS, "model.backbone": BACKBONES, "dataset.name": GRAPH_SETS}
    for key, accepted in names.items():
        print(textwrap.fill(f"{key}: {' '.join(accepted)}", 100, subsequent_indent="    ", break_on_hyphens=False))
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


def _check(_: argparse.Namespace) -> int:
    from jbpool.installation import show_installation

    return show_installation()
