"""Loading configurations: a YAML file with ``--set a.b=v`` overrides, checked completely before anything runs."""

from __future__ import annotations

import os
from collections.abc import Container, Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

from jbpool.checks import hint
from jbpool.engine.schema import build, out_of_range
from jbpool.engine.strict import read_yaml, read_yaml_lines
from jbpool.engine.task import Task
from jbpool.errors import ConfigError, one_line
from jbpool.memory import memory_problem
from jbpool.nn.pools import option_problems

PACKAGE = Path(__file__).resolve().parent.parent
# A wheel has the configurations inside the package, a checkout beside it.
CONFIGS = next(path for path in (PACKAGE / "configs", PACKAGE.parent / "configs") if path.is_dir())


def config_names(task: str) -> list[str]:
    """The files under ``configs/<task>/``, those in its folders last."""
    found = (path.relative_to(CONFIGS / task) for path in (CONFIGS / task).rglob("*.yaml"))
    return [path.as_posix() for path in sorted(found, key=lambda path: (len(path.parts), path))]


def find_config(name: str, task: str) -> Path:
    """``name`` as a path, then under ``configs/<task>/``."""
    for path in (Path(name), CONFIGS / task / name, CONFIGS / task / f"{name}.yaml"):
        if os.path.isfile(path):                                # unlike Path.is_file, False for impossible names
            return path
    known = config_names(task)
    near = hint(Path(name).stem, [Path(other).stem for other in known], suffix=".yaml")
    raise ConfigError(f"--cfg {name}: no such file.{near} Under configs/{task}: {', '.join(known)}.")


def load_config(task: Task, name: str | None = None, changes: Sequence[str] = ()) -> Any:
    """Load a configuration file and apply ``--set`` overrides. All errors are reported together.

    Parameters
    ----------
    task : Task
        The task to run; the result is an instance of its schema.
    name : str, optional
        A path, or the name of a file under ``configs/<task>/``. Default: the default of the task.
    changes : sequence of str, optional
        Overrides, each ``section.key=value``. Default: none.
    """
    path = find_config(name or task.default, task.name)
    values, lines = read_file(path)
    problems: list[str] = []
    if "task" not in values:
        problems.append(f"{path}: 'task: {task.name}' is missing")
    given: dict[str, str] = {}                                  # key -> the --set option that sets it
    for change in sorted(changes, key=lambda change: not change.startswith("dataset.name=")):
        given[change.partition("=")[0]] = f"--set {change}"
        try:
            _apply(change, values, task, given)
        except ConfigError as error:
            problems.append(f"--set {change}: {error}")

    def where(key: str) -> str:
        parts = key.split(".")
        for end in range(len(parts), 0, -1):                    # --set may set a whole section
            if ".".join(parts[:end]) in given:
                return given[".".join(parts[:end])]
        if key in lines:
            return f"{path}, line {lines[key]}"
        inside = (change for name, change in given.items() if name.startswith(f"{key}."))
        return next(inside, str(path))                          # a section that only --set has

    if values.get("task", task.name) != task.name:              # its other keys are not those of this task
        raise ConfigError(f"{where('task')}: task is {values['task']!r}, but this is the task {task.name!r}")
    config = build(task.schema, values, "", where, problems)
    wrong = [*out_of_range(config), *_general_problems(config), *task.problems(config)]
    problems += [f"{where(key)}: {problem}" for key, problem in wrong]
    if not problems:                                            # numbers out of range could overflow
        # float32: the weights, their gradients, Adam's two moments
        too_large = memory_problem(4 * 4 * task.num_weights(config), "training the weights of the network")
        if too_large is not None:
            problems.append(f"{path}: {too_large}; lower {task.sized_by}")
    if problems:
        raise ConfigError("\n".join(map(one_line, problems)))
    return config


def read_file(path: Path) -> tuple[dict[str, Any], dict[str, int]]:
    """The sections of a YAML file, and the lines of its keys."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        byte = content[error.start]
        raise ConfigError(f"{path}, line {line}: the byte 0x{byte:02x} is not UTF-8; save the file as UTF-8") from None
    values, lines = read_yaml_lines(text, str(path))
    if values is None:
        return {}, {}
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: a mapping of sections is expected, not {type(values).__name__}")
    return values, lines


def _apply(change: str, values: dict[str, Any], task: Task, given: Container[str]) -> None:
    """Apply ``section.key=value`` to ``values``; ``given`` are the keys that ``--set`` has set so far."""
    key, equals, text = change.partition("=")
    if not equals or not key:
        raise ConfigError("write it as section.key=value")
    *sections, last = key.split(".")
    inner: Any = values
    for section in sections:
        inner = inner.setdefault(section, {})
        if not isinstance(inner, dict):
            raise ConfigError(f"{section!r} is a value, not a section")
    is_separator = len(text) == 1 and not text.isalnum() and text != "~"    # ~ is null in YAML
    value = text if is_separator else read_yaml(text, "not YAML")
    if isinstance(value, str) and " #" in text and not text.lstrip().startswith(("'", '"')):
        value = text                                            # a value of --set has no comment
    if key == "dataset.name" and value != inner.get("name"):
        declared = {item.name for item in fields(get_type_hints(task.schema)["dataset"])}
        for option in inner.keys() - declared:
            del inner[option]                                   # options of the previous dataset
    inner[last] = value
    other = task.exclusive.get(key)
    if other is not None and other not in given and value is not None:      # two --set options stay a contradiction
        inner.pop(other.rpartition(".")[2], None)


def _general_problems(config: Any) -> Iterator[tuple[str, str]]:
    """Key and problem of settings that both tasks have."""
    seeds = config.train.seeds
    if not seeds:
        yield "train.seeds", "train.seeds is empty: give at least one"
    if len(set(seeds)) != len(seeds):
        yield "train.seeds", f"train.seeds={seeds} contains a seed twice"
    for option, problem in option_problems(config.method):
        yield f"method.{option}", f"method.{problem}"
