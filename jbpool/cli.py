"""The commands ``jbpool-cluster`` and ``jbpool-classify``, also started by ``tasks/*.py``.

Nothing slow is imported before the arguments are parsed, so that ``--help`` answers at once.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from jbpool.console import exit_on_broken_pipe
from jbpool.errors import ConfigError, InputError, JBPoolError, TrainingError, WriteError
from jbpool.files import check_writable, held

CLUSTER = """Cluster the nodes of a graph.

  {command}                                    a generated graph, in under a minute
  {command} --cfg dblp.yaml                    the paper's network on DBLP
  {command} --cfg cora --set method.name=dmon  another method
  {command} --cfg file --set dataset.edges=edges.csv   your own graph
"""

CLASSIFY = """Classify graphs with pooling.

  {command}                                  generated graphs, in under a minute
  {command} --cfg proteins.yaml              ten folds of PROTEINS
  {command} --cfg proteins --folds 0,1       two folds only
  {command} --cfg nci1 --set model.pool=none the same network without pooling
"""

PACKAGE = Path(__file__).parent
MEMORY_FIX = {
    "node_cluster": "fewer clusters (method.num_clusters), a smaller model.hidden, or a smaller graph",
    "graph_classify": "a smaller train.batch_size, model.hidden, or fewer clusters (model.num_clusters, model.ratio)",
}


def cluster(argv: Sequence[str] | None = None) -> int:
    """``jbpool-cluster``: returns the exit code."""
    options = _parser("node_cluster", CLUSTER)
    options.add_argument("--predict", metavar="RUN_DIR", help="apply a trained model to the graph of --set dataset...")
    options.add_argument("--baselines", action="store_true", help="compare with k-means, spectral clustering, Leiden")
    return exit_on_broken_pipe(lambda: _main("node_cluster", options.parse_args(argv)))


def classify(argv: Sequence[str] | None = None) -> int:
    """``jbpool-classify``: returns the exit code."""
    options = _parser("graph_classify", CLASSIFY)
    options.add_argument("--folds", metavar="0,1", help="the folds to run (default: all)")
    options.add_argument("--predict", metavar="RUN_DIR", help="apply a trained model to the graphs of --set dataset...")
    return exit_on_broken_pipe(lambda: _main("graph_classify", options.parse_args(argv)))


def _parser(task: str, description: str) -> argparse.ArgumentParser:
    """The options that both tasks share."""
    command = Path(sys.argv[0]).name
    command = f"python tasks/{command}" if command.endswith(".py") else command
    options = argparse.ArgumentParser(
        description=description.format(command=command), formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--cfg", metavar="NAME|PATH", help=f"a YAML file: a path, or a name in configs/{task}/")
    options.add_argument("--set", metavar="a.b=v", action="append", default=[], dest="changes", help="set a.b to v")
    options.add_argument("--seeds", metavar="0,1,2", help="the seeds to run (train.seeds)")
    options.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda"))
    options.add_argument("--out", metavar="DIR", help=f"the run folder (default: runs/{task}/<cfg>-<time>)")
    options.add_argument("--list", action="store_true", help="list configurations, methods and datasets")
    options.add_argument("--resume", action="store_true", help="continue the run in --out, or the latest of this --cfg")
    return options


def _main(name: str, args: argparse.Namespace) -> int:
    """Run a task; errors that users can fix are printed as one line, without a traceback.

    Returns the exit code: 0, 2 if the input is refused, 1 if the run fails, 130 after Ctrl-C.
    """
    if args.seeds is not None:
        args.changes.append(f"train.seeds=[{args.seeds}]")
    args.folder = None
    try:
        return _start(name, args)
    except KeyboardInterrupt:
        print(f"\ninterrupted{_what_is_left(args)}.", file=sys.stderr)
        return 130
    except WriteError as error:
        print(f"{error} with --out{_what_is_left(args)}.", file=sys.stderr)
        return error.exit_code
    except JBPoolError as error:
        if _is_wrong_call(error):
            raise
        print(f"stopped: {error}" if isinstance(error, TrainingError) else error, file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.filename is None or Path(str(error.filename)).is_relative_to(PACKAGE):        # a bug
            raise
        print(f"{error.filename}: {error.strerror}", file=sys.stderr)       # a file of the user that cannot be read
        return 2
    except (MemoryError, RuntimeError) as error:
        if not _is_out_of_memory(error):
            raise
        print(f"not enough memory: {MEMORY_FIX[name]}.", file=sys.stderr)
        return 1
    finally:
        if "WORLD_SIZE" in os.environ:                          # this process ends by itself, with its own message
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            signal.signal(signal.SIGALRM, signal.SIG_IGN)


def _what_is_left(args: argparse.Namespace) -> str:
    """The end of a message about a stopped run: how to resume it, if it has started."""
    folder = args.folder
    if folder is None or not os.path.exists(folder / "config.yaml"):
        return ""
    finished = f"; finished work is in {folder}" if os.path.exists(folder / "finished.pt") else ""
    folds = f" --folds {args.folds}" if getattr(args, "folds", None) else ""
    return f"{finished}; continue with --resume --out {folder}{folds}"


def _is_wrong_call(error: Exception) -> bool:
    """Whether a layer was called with the wrong input: by this package, so it is a bug."""
    return isinstance(error, InputError)


def _is_out_of_memory(error: Exception) -> bool:
    """numpy raises MemoryError, torch an error of its own on a GPU; its allocator for the CPU has no type."""
    import torch

    return isinstance(error, (MemoryError, torch.cuda.OutOfMemoryError)) or "DefaultCPUAllocator" in str(error)


def _start(name: str, args: argparse.Namespace) -> int:
    from jbpool.engine.config import load_config
    from jbpool.engine.run_folder import kept_config
    from jbpool.processes import choose_device

    task = _load_task(name)
    if args.list:
        return _show_list(task)
    device = choose_device(args.device)
    if args.predict is not None:
        return _predict(task, args, device)
    cfg = args.cfg or (kept_config(name, args.out) if args.resume else None)
    config = load_config(task, cfg, args.changes)
    more: dict[str, Any] = {}
    if getattr(args, "folds", None) is not None:
        more["folds"] = _whole_numbers("--folds", args.folds)
    if getattr(args, "baselines", False):
        more["baselines"] = True
    if "WORLD_SIZE" in os.environ:
        signal.signal(signal.SIGTERM, _stop_with_the_others)
    with ExitStack() as stack:
        return _run(task, args, config, device, more, stack)


def _run(task: Any, args: argparse.Namespace, config: Any, device: Any, more: dict[str, Any], stack: ExitStack) -> int:
    """Run a task; ``stack`` holds the run folder until the report is written."""
    from jbpool.engine.run_folder import by_method, choose_folder, refuse_other_files
    from jbpool.processes import gather, process_group, rank, world_size
    from jbpool.report.published import CLUSTERING

    with process_group(device):
        folder = choose_folder(task.name, args.cfg, args.out, args.resume, changed=bool(args.changes))
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
        try:
            out = task.run(config, data, folder, device, resume=args.resume, **more)
        except KeyboardInterrupt:
            if rank() == 0 and (folder / "finished.pt").exists():
                with suppress(JBPoolError):                                 # a second error must not hide the first
                    task.write_report(folder, data)                         # of the finished part
            raise
        if rank() > 0:
            return 0
    print()
    for method, scores in by_method(out.result).items():
        _print_scores(method, scores, CLUSTERING.get(method, {}).get(data.name))
    print()
    if (folder / "assign.csv").exists():
        print(f"the cluster of every node: {folder / 'assign.csv'}")
    print(f"open {task.write_report(folder, data)}")
    return 0


def _load_task(name: str) -> Any:
    if name == "node_cluster":
        from jbpool.clustering.task import NODE_CLUSTER

        return NODE_CLUSTER
    from jbpool.classification.task import GRAPH_CLASSIFY

    return GRAPH_CLASSIFY


def _stop_with_the_others(*_: Any) -> None:
    """torchrun sends SIGTERM when another process has died."""
    # Python drops an exception raised in a destructor or a callback of a weak reference: then it is raised again.
    sys.unraisablehook = lambda _: None
    signal.signal(signal.SIGALRM, _stop_with_the_others)
    signal.setitimer(signal.ITIMER_REAL, 1.0)
    sys.exit("another process of this run has died, so this one stops; --resume continues from the checkpoint.")


def _predict(task: Any, args: argparse.Namespace, device: Any) -> int:
    from jbpool.engine.config import load_config

    if args.cfg is not None:
        raise ConfigError("--cfg has no effect with --predict: name the new graph with --set dataset...=...")
    if getattr(args, "folds", None) is not None:
        raise ConfigError("--folds has no effect with --predict: the model of the best fold is applied.")
    if args.resume:
        raise ConfigError("--resume has no effect with --predict: a prediction has no unfinished part.")
    run_dir = Path(args.predict)
    if (run_dir / "config.yaml").is_file():
        load_config(task, str(run_dir / "config.yaml"))         # a run of the other task is refused as such
    out = Path(args.out or run_dir / "predicted")
    print(task.predict(task, run_dir, args.changes, out, device))
    return 0


def _whole_numbers(option: str, text: str) -> list[int]:
    """Parse ``0,1,2``."""
    try:
        return [int(word) for word in text.split(",")]
    except ValueError:
        raise ConfigError(f"{option} {text}: give whole numbers separated by commas, such as 0,1,2.") from None


def _show_list(task: Any) -> int:
    from jbpool.data.__main__ import main as list_datasets
    from jbpool.engine.config import config_names

    print(f"configurations: {', '.join(config_names(task.name))}\nmethods: {', '.join(task.methods)}\n")
    list_datasets()
    return 0


def _print_scores(method: str, scores: dict[str, Any], paper: tuple[float | None, ...] | None) -> None:
    """Print the mean scores; beside them the paper's ``(ACC, its deviation, NMI, its deviation)``, if it has any."""
    print(method)
    published = {} if paper is None else {"acc": paper[0], "nmi": paper[2]}
    for key, value in scores["mean"].items():
        line = f"{key:>18} {value:8.3f}" + (f" +- {scores['std'][key]:.3f}" if len(scores["runs"]) > 1 else "")
        print(line + (f"   (the paper's {method}: {published[key]:.3f})" if key in published else ""))
