"""Configurations, ``--set`` values, short runs and run folders for ``scripts/qa/fuzz.py``."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import compare
import fuzz_mutations as mutations
import torch
import yaml
from fuzz_files import Kind, names_folder

import jbpool
from jbpool import cli
from jbpool.classification.task import GRAPH_CLASSIFY
from jbpool.clustering.task import NODE_CLUSTER
from jbpool.engine import fit
from jbpool.engine.config import CONFIGS, load_config
from jbpool.engine.schema import as_dict
from jbpool.errors import ConfigError, JBPoolError

TASKS = {task.name: task for task in (NODE_CLUSTER, GRAPH_CLASSIFY)}
COMMANDS = {"node_cluster": cli.cluster, "graph_classify": cli.classify}
TINY = {
    "node_cluster": ("dataset.num_nodes=160", "train.epochs=2", "train.eval_every=1", "train.seeds=[0]",
                     "train.restarts=1", "model.hidden=8", "model.layers=2", "model.mlp=[4]"),
    "graph_classify": ("dataset.num_graphs=24", "train.epochs=2", "train.folds=2", "train.seeds=[0]", "model.hidden=8",
                       "model.layers=1", "model.compare=[]"),
}  # fmt: skip
CHOICES: tuple[Any, ...] = (
    "jb", "mincut", "dmon", "diffpool", "none", "auto", "kmeans", "sc", "delta", "gcn", "gin", "sage", "gat", "sgc",
    "matrix", "diagonal", "cosine", "linear", "batch", "layer", "mean", "sum+max", "all", "last", "best", "constant",
    "idf", "relu", "elu", None, True, False, 0, 1, 2, 3, 5, 0.5, 0.999, 1e-12, 1e-3, 2.0, 1000.0, [], [1], [2, 3],
    [0.5, 0.5], [1e-9, 1.0], {"cut": 1.0, "balance": -2.0},
)  # fmt: skip


# ---------------------------------------------------------------- configurations


def write_configs(folder: Path) -> None:
    """Copies of all configurations, each in a folder of its own."""
    for path in CONFIGS.glob("*/*.yaml"):
        place = folder / f"{path.parent.name} {path.stem}"
        place.mkdir()
        (place / "config.yaml").write_text(path.read_text())


def mutate_config(folder: Path, rng: Random) -> str:
    path = folder / "config.yaml"
    if rng.random() < 0.5:
        mutations.mutate_file(path, rng, mutations.mutate_text)
    else:
        values = yaml.safe_load(path.read_text())
        for _ in range(rng.choice((1, 1, 3))):
            values = mutations.mutate_value(values, rng, mutations.plain_leaf)
        path.write_text(yaml.safe_dump(values, allow_unicode=True))
    return folder.name.split()[0]


def read_config(folder: Path, task: str) -> None:
    _check_config(task, load_config(TASKS[task], str(folder / "config.yaml")), folder)


def _check_config(task: str, config: Any, folder: Path) -> None:
    """The config.yaml of a run folder must give the same configuration again."""
    path = folder / "written.yaml"
    path.write_text(yaml.safe_dump(as_dict(config), sort_keys=False))
    try:
        again = load_config(TASKS[task], str(path))
    except ConfigError as error:
        raise AssertionError(f"config.yaml of the run folder would be refused: {error}") from None
    assert repr(again) == repr(config), "config.yaml of the run folder would be another configuration"


class Change(NamedTuple):
    task: str
    text: str                       # section.key=value


def mutate_set(folder: Path, rng: Random) -> Change:
    """A value for one of the keys, or for a mutated key."""
    task = rng.choice(sorted(TASKS))
    section = rng.choice(dataclasses.fields(TASKS[task].schema))
    default = getattr(TASKS[task].schema(), section.name)
    keys = [item.name for item in dataclasses.fields(default)] if dataclasses.is_dataclass(default) else []
    key = f"{section.name}.{rng.choice(keys)}" if keys and rng.random() < 0.95 else section.name
    if key == "dataset.options":
        key = f"dataset.{rng.choice(('num_nodes', 'seed', 'normalize', 'edges', 'num_graphs'))}"
    words, numbers = mutations.WORDS, mutations.NUMBERS
    value = rng.choice((rng.choice(words), rng.choice(words), str(rng.choice(CHOICES)), str(rng.choice(numbers))))
    change = f"{key}={value}"
    if rng.random() < 0.2:
        change = mutations.mutate_text(change.encode(), rng).decode(errors="surrogateescape")
    return Change(task, change)


def read_set(folder: Path, change: Change) -> None:
    folder.mkdir(exist_ok=True)
    _check_config(change.task, load_config(TASKS[change.task], None, [change.text]), folder)


def names_change(message: str, folder: Path, change: Change) -> bool:
    return message.startswith("--set ")


# ---------------------------------------------------------------- commands


def no_input(folder: Path) -> None:
    (folder / "nothing").mkdir()


def call(command: Callable[[list[str]], Any], arguments: Sequence[object]) -> None:
    """Run a command in this process; a refusal becomes a ``JBPoolError`` with what it has printed to standard error."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = command([str(argument) for argument in arguments])
        except SystemExit as stop:
            code = stop.code
    assert "Traceback" not in err.getvalue(), err.getvalue()
    if code:
        told = err.getvalue().replace("\x1b[A", "\n").splitlines()             # progress bars move the cursor
        lines = [line for line in told if line.strip() and "%|" not in line]
        assert code in (1, 2), f"exit code {code}"
        assert lines, "nothing says what is wrong"
        raise JBPoolError("\n".join(lines))


def arguments_of(task: str, changes: Sequence[str] = ()) -> list[str]:
    return [word for change in (*TINY[task], *changes) for word in ("--set", change)] + ["--device", "cpu"]


def mutate_settings(folder: Path, rng: Random) -> tuple[str, list[str]]:
    """Up to four settings that are valid by themselves, for a run of two epochs."""
    task = rng.choice(sorted(TASKS))
    default = TASKS[task].schema()
    changes: list[str] = []
    while len(changes) < rng.choice((1, 2, 3, 4)):
        section = rng.choice(("model", "method", "train"))
        name = rng.choice([item.name for item in dataclasses.fields(getattr(default, section))])
        change = f"{section}.{name}={json.dumps(rng.choice(CHOICES))}"         # JSON is YAML
        with contextlib.suppress(ConfigError):
            load_config(TASKS[task], None, [*TINY[task], *changes, change])
            changes.append(change)
    return task, changes


def read_settings(folder: Path, change: tuple[str, list[str]]) -> None:
    task, changes = change
    call(COMMANDS[task], [*arguments_of(task, changes), "--out", folder / "run"])
    assert (folder / "run" / "report.html").is_file(), "no report"


def names_anything(message: str, folder: Path, change: Any) -> bool:
    """A refusal of a combination names settings or data, in one line."""
    return len(message.splitlines()) == 1


# ---------------------------------------------------------------- run folders


RUNS = {
    "node_cluster jb": (), "node_cluster auto": ("method.name=auto", "method.num_clusters=3"), "graph_classify jb": (),
    "node_cluster stopped": (), "graph_classify stopped": (),
}  # fmt: skip


FILES = {
    "model.pt": 6, "finished.pt": 6, "checkpoint.pt": 8, "result.json": 6, "history.csv": 2, "config.yaml": 4,
    "assign.npz": 5, "predictions.npz": 5, "report.html": 0, "assign.csv": 0,
}  # how often they are mutated  # fmt: skip


def write_runs(folder: Path) -> None:
    """Finished runs, and some that were stopped after a checkpoint."""
    for name, changes in RUNS.items():
        task, kind = name.split()
        fit.CHECKPOINT_SECONDS, step = -1, fit.mean_gradients
        steps = iter(range(10**6))

        def stopping(parameters, steps=steps, step=step, kind=kind):
            if kind == "stopped" and next(steps) == 2:
                raise KeyboardInterrupt
            step(parameters)

        fit.mean_gradients = stopping
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            code = COMMANDS[task]([*arguments_of(task, (*changes, "train.epochs=3")), "--out", str(folder / name)])
        fit.mean_gradients = step
        assert code == (130 if kind == "stopped" else 0), (name, code)
        assert (folder / name / "checkpoint.pt").exists() == (kind == "stopped"), name


def mutate_run(folder: Path, rng: Random) -> tuple[str, int]:
    """One file of a run folder, and which of the readers is tried."""
    files = sorted(path.name for path in folder.iterdir() if FILES.get(path.name, 1))
    path = folder / rng.choices(files, [FILES.get(name, 1) for name in files])[0]
    changes = {".pt": _mutate_state, ".json": _mutate_json, ".npz": mutations.mutate_npz}
    mutations.mutate_file(path, rng, changes.get(path.suffix, mutations.mutate_text))
    return path.name, rng.randrange(20)


def _mutate_json(content: bytes, rng: Random) -> bytes:
    if rng.random() < 0.4:
        return mutations.mutate_text(content, rng)
    return json.dumps(mutations.mutate_value(json.loads(content), rng, mutations.plain_leaf)).encode()


def _mutate_state(content: bytes, rng: Random) -> bytes:
    kind = rng.randrange(4)
    if kind == 0:
        return mutations.mutate_bytes(content, rng)
    if kind == 1:
        return mutations.mutate_archive(content, rng, mutations.mutate_bytes)
    state = torch.load(io.BytesIO(content), weights_only=True)
    file = io.BytesIO()
    torch.save(mutations.mutate_value(state, rng, _mutate_leaf), file)
    return file.getvalue()


def _mutate_leaf(value: Any, rng: Random) -> Any:
    if isinstance(value, torch.Tensor) and rng.random() < 0.9:
        array = mutations.mutate_array(value.numpy(), rng)
        known = array.dtype.kind in "biuf" and array.dtype.byteorder != ">"
        return torch.from_numpy(array.copy()) if known else None
    return mutations.plain_leaf(value, rng)


def read_run(folder: Path, change: tuple[str, int]) -> None:
    task, reader = folder.name.split()[0], change[1]
    settings = arguments_of(task, (*RUNS[folder.name], "train.epochs=3"))
    if reader < 4:
        jbpool.load_run(folder)
    elif reader < 8:
        call(COMMANDS[task], ["--predict", folder, "--set", "dataset.seed=1", "--out", folder / "new"])
    elif reader < 17:
        call(COMMANDS[task], [*settings, "--out", folder, "--resume"])                  # and the report
        assert isinstance(json.loads((folder / "result.json").read_text())["runs"], list)
    else:
        call(_compare, [folder, folder, "--out", folder / "compared.html"])


def _compare(arguments: list[str]) -> Any:
    sys.argv = ["compare.py", *arguments]
    return compare.main()


KINDS = {
    "configuration": Kind(1300, write_configs, mutate_config, read_config, names_folder),
    "--set": Kind(1300, no_input, mutate_set, read_set, names_change),
    "settings": Kind(200, no_input, mutate_settings, read_settings, names_anything),
    "run folder": Kind(600, write_runs, mutate_run, read_run, names_folder),
}
