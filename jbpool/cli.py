"""The command ``jbpool``: ``cluster``, ``classify``, ``compare`` and ``check``; ``tasks/*.py`` start the first two.

Nothing slow is imported before the arguments are parsed, so that ``--help`` answers at once.
"""

from __future__ import annotations

import argparse
import os
import sys
import textwrap
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from jbpool import __version__
from jbpool.console import exit_on_broken_pipe, print_scores, print_settings, quitting_on_interrupt
from jbpool.errors import ConfigError, InputError, JBPoolError, TrainingError, WriteError, is_out_of_memory

if TYPE_CHECKING:
    from jbpool.engine.task import Task

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


def _whole_numbers(text: str) -> list[int]:
    """Return the numbers of ``0,1,2``."""
    return [int(word) for word in text.split(",")]


def _count(text: str) -> int:
    """Return a whole number of at least 1."""
    if int(text) < 1:
        raise ValueError
    return int(text)


def _number_or_range(text: str) -> int | str:
    """Return 7 of ``7``; a range as it is."""
    return int(text) if text.removeprefix("-").isdecimal() else text


class Option(NamedTuple):
    """An option of ``cluster`` or ``classify``, or of both."""

    help: str
    value: str | None = None                # what it takes, for --help; None: nothing
    sets: str = ""                          # the setting that it changes
    passed: bool = False                    # to run of the task, as an argument of this name
    read: Callable[[str], Any] = str        # text -> value
    only: str = ""                          # the command that has it
    trains: bool = False                    # it has no effect with --predict, which applies a trained model
    choices: tuple[str, ...] = ()


OPTIONS = {
    "-k": Option("their number, or a range to choose it from (default: that of the classes, without labels 2-30)",
                 "7|2-12", "method.num_clusters", read=_number_or_range, only="cluster", trains=True),
    "--features": Option("features of the nodes: CSV, Parquet, .npy, .npz", "FILE", "dataset.features", only="cluster"),
    "--weight": Option("the column or edge attribute with the weights", "COLUMN", "dataset.weight", only="cluster"),
    "--scale": Option("standard: features of mean 0 and deviation 1", "none|standard", "dataset.scale", only="cluster"),
    "--graph": Option("the graph of a .h5ad: a key of obsp", "KEY", "dataset.graph", only="cluster"),
    "--sample": Option("the samples of a .h5ad: a column of obs", "COLUMN", "dataset.sample", only="cluster"),
    "--labels": Option("classes of the nodes, to score the result", "FILE", "dataset.labels", only="cluster"),
    "--previous": Option("a run, or a table of nodes and clusters, whose numbers are kept", "RUN_DIR|FILE",
                         "method.previous", only="cluster", trains=True),
    "--fixed": Option("a table of nodes that keep their cluster", "FILE", "method.fixed", only="cluster", trains=True),
    "--max-size": Option("write clusters at all levels, and divide those with more nodes (hierarchy.csv)", "N>0",
                         passed=True, read=_count, only="cluster", trains=True),
    "--write": Option("a copy of the .h5ad with the clusters in obs", "FILE.h5ad", passed=True, read=Path,
                      only="cluster", trains=True),
    "--baselines": Option("compare with k-means, spectral clustering, Leiden", passed=True, only="cluster",
                          trains=True),
    "--folds": Option("the folds to run (default: all)", "0,1", passed=True, read=_whole_numbers, only="classify",
                      trains=True),
    "--cfg": Option("a YAML file: a path, or a name in configs/", "NAME|PATH", trains=True),
    "--set": Option("set a.b to v", "a.b=v"),
    "--seeds": Option("the seeds to run", "0,1,2", "train.seeds", read=_whole_numbers, trains=True),
    "--device": Option("where to compute (default: auto)", choices=("auto", "cpu", "cuda")),
    "--out": Option("the run folder (default: runs/TASK/NAME-TIME)", "DIR"),
    "--resume": Option("continue the run in --out, or the latest of this name", trains=True),
    "--predict": Option("apply the trained model of a run to the graphs that are given", "RUN_DIR"),
    "--log": Option("pass every evaluation on to it", passed=True, trains=True, choices=("tensorboard", "mlflow")),
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
        command.set_defaults(run=run, parser=command, folder=None)          # None until a run has one
        return command

    formats = {"FILE": "a CSV of edges, Parquet, .npy, .npz, GML, GraphML, GEXF", "FOLDER": "CSV files, the TU format"}
    for name, description, metavar in (("cluster", CLUSTER, "FILE"), ("classify", CLASSIFY, "FOLDER")):
        command = add(name, description, _start)
        command.add_argument("file", nargs="?", metavar=metavar, help=f"your own: {formats[metavar]}, or a .bin of DGL")
        for flag, option in OPTIONS.items():
            takes: dict[str, Any] = {"metavar": option.value, "choices": option.choices or None}
            if option.value is None and not option.choices:
                takes = {"action": "store_true"}
            elif flag == "--set":
                takes |= {"action": "append", "default": []}
            if option.only in ("", name):
                command.add_argument(flag, help=option.help, **takes)
    command = add("compare", COMPARE, _compare)
    command.add_argument("runs", nargs="+", metavar="RUN", help="run folders")
    command.add_argument("--out", default="compare.html", metavar="FILE", help="the page (default: compare.html)")
    add("check", "Show what is installed, whether it loads, and how to fix it.", _check)
    return parser


def _given(args: argparse.Namespace, flag: str) -> Any:
    """Return the value of an option; ``None`` if it was not given, or if the command does not have it."""
    given = getattr(args, _name(flag), None)
    if given is None or given is False:
        return None
    try:
        return given if given is True else OPTIONS[flag].read(given)
    except ValueError:
        raise ConfigError(f"{flag} {given}: write it as {OPTIONS[flag].value}.") from None


def _name(flag: str) -> str:
    """Return ``max_size`` of ``--max-size``."""
    return flag.lstrip("-").replace("-", "_")


def _changes(args: argparse.Namespace) -> list[Any]:
    """Return what the arguments change, ``--set`` first: the others have precedence."""
    from jbpool.data.catalogue import graph_file, node_file
    from jbpool.engine.config import Change

    changes = list(args.set)                              # texts, whose problems are reported with all others
    if args.file is not None:
        path = _own_file(args)
        options = node_file(path) if args.command == "cluster" else graph_file(path)
        changes += [Change(f"dataset.{key}", value, args.file) for key, value in options.items()]
    for flag, option in OPTIONS.items():
        value = _given(args, flag) if option.sets else None
        if value is None:
            continue
        given = getattr(args, _name(flag))                      # as it was written
        no_graph = args.file is None and args.cfg is None and args.predict is None
        if option.sets.startswith("dataset.") and no_graph:
            raise ConfigError(f"{flag} {given}: give the graph, too: jbpool cluster FILE {flag} {given}")
        if flag == "-k" and any(change.startswith(f"{option.sets}=") for change in args.set):
            raise ConfigError(f"-k {given} and --set {option.sets}=...: give only one of them.")
        changes.append(Change(option.sets, value, f"{flag} {given}"))
    return changes


def _own_file(args: argparse.Namespace) -> Path:
    """Return the path of FILE or FOLDER, if it can be one."""
    from jbpool.engine.config import config_names

    given, clusters = args.file, args.command == "cluster"
    path = Path(given).expanduser()
    is_folder, is_config = path.is_dir(), f"{given}.yaml" in config_names(TASKS[args.command])
    missing = f"no such {'file' if clusters else 'folder'}{f'; did you mean --cfg {given}.yaml?' if is_config else '.'}"
    problems = (
        (path.suffix in (".yaml", ".yml"), f" is a configuration: jbpool {args.command} --cfg {given}"),
        (os.path.isfile(path / "config.yaml"), f" is a run folder: see its report.html, or give --predict {given}"),
        ("://" in given, f" is an address on the web: download the file first (curl -LO {given})."),
        (not os.path.exists(path), f": {missing}"),
        (clusters and is_folder, " is a folder: give the file that has the edges; jbpool classify takes folders."),
        (not clusters and not is_folder and path.suffix != ".bin",
         f" is no folder of graphs, and no .bin of DGL; for the nodes of one graph: jbpool cluster {given}"),
    )  # fmt: skip
    for problem in (text for applies, text in problems if applies):
        raise ConfigError(f"{given}{problem}")
    return path


# ---------------------------------------------------------------- running


def _command(argv: Sequence[str]) -> int:
    """Run a command; errors that users can fix are printed as one line, without a traceback.

    Returns the exit code: 0, 2 if the input is refused, 1 if the run fails, 130 after Ctrl-C.
    """
    parser = _parser()
    args, unknown = parser.parse_known_args(argv)
    if args.command is None:
        parser.error("give a command: cluster, classify, compare or check")
    if unknown:
        hint = "" if unknown[0].startswith("-") else " (give one file or folder)"
        args.parser.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
    try:
        return args.run(args)
    except (Exception, KeyboardInterrupt) as error:
        code, message = _explained(error, args)
        if not message:                                                     # a bug
            raise
        print(message, file=sys.stderr)
        return code


def _explained(error: BaseException, args: argparse.Namespace) -> tuple[int, str]:
    """Return the exit code and what is printed of an error that a user can fix; of others, an empty text."""
    if isinstance(error, KeyboardInterrupt):
        return 130, f"\ninterrupted{_what_is_left(args)}."
    if isinstance(error, WriteError):
        return error.exit_code, f"{error} with --out{_what_is_left(args)}."
    if isinstance(error, JBPoolError) and not isinstance(error, InputError):        # that one: our call of a layer
        return error.exit_code, f"stopped: {error}" if isinstance(error, TrainingError) else str(error)
    if isinstance(error, OSError) and error.filename and not Path(str(error.filename)).is_relative_to(PACKAGE):
        return 2, f"{error.filename}: {error.strerror}"                     # a file of the user that cannot be read
    if is_out_of_memory(error):
        return 1, f"not enough memory: {MEMORY_FIX.get(args.command, 'close other programs')}."
    return 1, ""


def _what_is_left(args: argparse.Namespace) -> str:
    """Return the end of a message about a stopped run: how to resume it, if it has started."""
    folder = args.folder
    if folder is None or not os.path.exists(folder / "config.yaml"):
        return ""
    finished = f"; finished work is in {folder}" if os.path.exists(folder / "finished.pt") else ""
    folds = f" --folds {args.folds}" if getattr(args, "folds", None) else ""
    return f"{finished}; continue with --resume --out {folder}{folds}"


def _start(args: argparse.Namespace) -> int:
    if args.list:
        return _show_list(args.command)
    with quitting_on_interrupt():
        changes = _changes(args)
        from jbpool.engine.config import load_config, settings
        from jbpool.engine.run_folder import kept_config

        task = _load_task(args.command)
    if args.predict is not None:
        return _predict(task, args, changes)
    cfg = args.cfg or ("file" if args.file else kept_config(task.name, args.out) if args.resume else None)
    if args.show_config:
        print_settings(settings(task, cfg, changes))
        return 0
    return _run(task, args, load_config(task, cfg, changes))


def _load_task(command: str) -> Task:
    if command == "cluster":
        from jbpool.clustering.node_cluster import NODE_CLUSTER

        return NODE_CLUSTER
    from jbpool.classification.graph_classify import GRAPH_CLASSIFY

    return GRAPH_CLASSIFY


def _run(task: Task, args: argparse.Namespace, config: Any) -> int:
    from jbpool.engine.run_folder import by_method, choose_folder, refuse_other_files
    from jbpool.files import held
    from jbpool.processes import choose_device, gather, process_group, rank
    from jbpool.report.published import CLUSTERING

    flags = (flag for flag, option in OPTIONS.items() if option.passed)
    passed = {_name(flag): value for flag in flags if (value := _given(args, flag)) is not None}
    device = choose_device(args.device or "auto")
    with process_group(device):
        folder = choose_folder(task.name, args.cfg or args.file, args.out, args.resume, changed=bool(args.set))
        folder, config = gather((folder, config))[0]                        # of rank 0: others may lack its folder
        args.folder, first = folder, rank() == 0
        with held(folder) if first else nullcontext():                      # also writable, before hours of work
            if first:                                                       # the only one that writes
                refuse_other_files(folder, args.resume)                     # another may have just finished one
                if unused := task.unused(config):
                    print(f"settings without effect here: {', '.join(unused)}")
            data = task.load_data(config)
            out = task.run(config, data, folder, device, resume=args.resume, **passed)
            report = out.write_report()
            if not first:
                return 0
            print()
            for method, scores in by_method(out.result).items():
                print_scores(method, scores, CLUSTERING.get(method, {}).get(data.name))
            print()
            if (folder / "assign.csv").exists():
                print(f"the cluster of every node: {folder / 'assign.csv'}")
            elif task.name == "node_cluster":
                print(f"the clusters of the nodes, a part per process: {folder / 'assign-*.npz'}")
            print(f"open {report}")
    return 0


def _predict(task: Task, args: argparse.Namespace, changes: list[Any]) -> int:
    from jbpool.engine.predict import config_for
    from jbpool.files import check_writable
    from jbpool.processes import choose_device

    for flag, option in OPTIONS.items():
        if option.trains and _given(args, flag) is not None:
            raise ConfigError(f"{flag} has no effect with --predict, which applies a trained model: leave it out.")
    run_dir = Path(args.predict)
    path = Path(args.out or run_dir / "predicted") / task.predicted
    config = config_for(task, run_dir, changes)
    if path.exists():
        raise ConfigError(f"{path} already exists: choose another --out.")
    check_writable(path.parent)
    task.predict(run_dir, config, path, choose_device(args.device or "auto"))
    print(path)
    return 0


def _show_list(command: str) -> int:
    """Print what a task accepts; imports nothing slow."""
    from jbpool.engine.config import config_names

    if command == "cluster":
        from jbpool.clustering.config import LISTED
    else:
        from jbpool.classification.config import LISTED
    for key, accepted in {"--cfg": config_names(TASKS[command]), **LISTED}.items():
        print(textwrap.fill(f"{key}: {' '.join(accepted)}", 100, subsequent_indent="    ", break_on_hyphens=False))
    print("python -m jbpool.data shows the size of every dataset, and where it is or comes from.")
    return 0


# ---------------------------------------------------------------- the other commands


def _compare(args: argparse.Namespace) -> int:
    if len(args.runs) < 2:
        raise ConfigError("give at least two run folders to compare.")
    with quitting_on_interrupt():
        from jbpool.compare import compare
    out = Path(args.out).expanduser()
    compare([Path(run).expanduser() for run in args.runs], out)
    print(f"open {out}")
    return 0


def _check(_: argparse.Namespace) -> int:
    from jbpool.installation import show_installation

    return show_installation()
