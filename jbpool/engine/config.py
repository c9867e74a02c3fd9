"""Configurations: strict YAML, the schema of the task, and ``--set``; all errors are reported together.

PyYAML by itself reads ``1e-4`` as text, ``off`` as False and ``010`` as 8, and silently keeps the last of two equal
keys. Here it reads the scalars of YAML 1.2, and equal keys are refused.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

import yaml

from jbpool.engine.task import Task
from jbpool.errors import ConfigError, one_line
from jbpool.names import hint
from jbpool.schema import as_dict, build, out_of_range

# YAML 1.2: tag -> pattern and first characters of what is read without quotes; anything else is text.
SCALARS = {
    "null": ("~|null|", ["~", "n", "N", ""]),
    "bool": ("true|false", list("tTfF")),
    "float": (r"[-+]?(\d+\.\d*|\.\d+|\d+(?=e))(e[-+]?\d+)?|[-+]?\.inf|\.nan", list("-+.0123456789")),
    "int": (r"[-+]?\d+(_\d+)*", list("-+0123456789")),
}


class _Loader(yaml.SafeLoader):
    """Reads the scalars of YAML 1.2, without aliases, which could build huge structures."""

    def compose_node(self, parent, index):
        if self.check_event(yaml.AliasEvent):
            raise _error(self.peek_event(), "aliases (*name) are not supported: write the value out")
        return super().compose_node(parent, index)


_Loader.yaml_implicit_resolvers = {}        # without those of YAML 1.1
for _name, (_pattern, _first) in SCALARS.items():
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_name}", re.compile(f"^(?:{_pattern})$", re.I), _first)
_Loader.add_constructor("tag:yaml.org,2002:int", lambda loader, node: int(node.value))          # 010 is ten


def read_yaml(text: str, where: str) -> Any:
    """Return the plain Python value of a YAML text; ``where`` names its origin in messages."""
    return read_yaml_lines(text, where)[0]


def read_yaml_lines(text: str, where: str) -> tuple[Any, dict[str, int]]:
    """Return the plain Python value of a YAML text, and the line of every key, such as ``{"train.epochs": 7}``."""
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        lines = dict(_key_lines(node))
        return (None if node is None else loader.construct_document(node)), lines
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        message = f"the character {chr(error.character)!r} is not allowed in YAML"
    except yaml.MarkedYAMLError as error:
        line = 1 if error.problem_mark is None else error.problem_mark.line + 1
        message = str(error.problem)
    except (ValueError, RecursionError) as error:               # !!int x; thousands of digits or of brackets
        line, message = 1, str(error)
    raise ConfigError(one_line(f"{where}, line {line}: {message}"))


def _key_lines(node: yaml.Node | None, path: str = "") -> Iterator[tuple[str, int]]:
    """Yield path and line of every key in a node, which belongs to the key ``path``; equal keys are refused."""
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _key_lines(item, path)
    if not isinstance(node, yaml.MappingNode):
        return
    seen: dict[str, int] = {}
    for key, value in node.value:
        line = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode):
            raise _error(key, f"the key on line {line} should be a name")
        if key.value in seen:
            raise _error(key, f"key {key.value!r} on line {line} is already given on line {seen[key.value]}")
        seen[key.value] = line
        inner = f"{path}.{key.value}" if path else key.value
        yield inner, line
        yield from _key_lines(value, inner)


def _error(at: Any, problem: str) -> yaml.MarkedYAMLError:
    """Return the error; ``at``: the node or event with the problem."""
    return yaml.MarkedYAMLError(problem=problem, problem_mark=at.start_mark)


PACKAGE = Path(__file__).resolve().parent.parent
# A wheel has the configurations inside the package, a checkout beside it.
CONFIGS = next(path for path in (PACKAGE / "configs", PACKAGE.parent / "configs") if path.is_dir())


def config_names(task: str) -> list[str]:
    """Return the files under ``configs/<task>/``, those in its folders last."""
    paths = (path.relative_to(CONFIGS / task) for path in (CONFIGS / task).rglob("*.yaml"))
    return [path.as_posix() for path in sorted(paths, key=lambda path: (len(path.parts), path))]


def find_config(name: str, task: str) -> Path:
    """Look for ``name`` as a path, then under ``configs/<task>/``."""
    for path in (Path(name).expanduser(), CONFIGS / task / name, CONFIGS / task / f"{name}.yaml"):
        if os.path.isfile(path):                                # unlike Path.is_file, False for impossible names
            return path
    names = config_names(task)
    similar = hint(Path(name).stem, [Path(name).stem for name in names], suffix=".yaml")
    raise ConfigError(f"--cfg {name}: no such file.{similar} Under configs/{task}: {', '.join(names)}.")


class Change(NamedTuple):
    """A setting that an argument changes."""

    key: str                                # section.key
    value: Any
    argument: str                           # for messages, such as "-k 7"


def parse_change(text: str) -> Change:
    """Return what ``--set section.key=value`` changes."""
    key, equals, written = text.partition("=")
    if not equals or not key:
        raise ConfigError(f"--set {text}: write it as section.key=value")
    is_separator = len(written) == 1 and not written.isalnum() and written != "~"       # ~ is null in YAML
    value = written if is_separator else read_yaml(written, f"--set {text}: not YAML")
    if isinstance(value, str) and " #" in written and not written.lstrip().startswith(("'", '"')):
        value = written                                         # a value of --set has no comment
    return Change(key, value, f"--set {text}")


def load_config(task: Task, name: str | None = None, changes: Sequence[str | Change] = ()) -> Any:
    """Load a configuration file and apply changes. All errors are reported together.

    The result is an instance of the schema of the task. ``name`` is a path, or the name of a file under
    ``configs/<task>/``, by default the default of the task. ``changes`` are applied in their order; a text is what
    ``--set`` is given, ``section.key=value``.
    """
    return _load(task, name, changes)[0]


def settings(task: Task, name: str | None, changes: Sequence[str | Change]) -> Iterator[tuple[str, Any, Any, str]]:
    """Yield key, value, default and origin of every setting; the parameters are those of ``load_config``."""
    config, origin = _load(task, name, changes)
    values, defaults = as_dict(config), as_dict(task.schema())
    defaults["dataset"] |= config.dataset.option_defaults()
    for section, part in values.items():
        if not isinstance(part, dict):
            yield section, part, defaults[section], origin(section) or "default"
            continue
        for key in {**defaults[section], **part}:
            default = defaults[section].get(key)
            yield f"{section}.{key}", part.get(key, default), default, origin(f"{section}.{key}") or "default"


def _load(
    task: Task, name: str | None, changes: Sequence[str | Change]
) -> tuple[Any, Callable[[str], str | None]]:
    """Return the configuration, and a function: key -> where it was given, ``None`` if nowhere."""
    path = find_config(name or task.default, task.name)
    values, lines = read_file(path)
    problems: list[str] = []
    if "task" not in values:
        problems.append(f"{path}: 'task: {task.name}' is missing")
    parsed: list[Change] = []
    for change in changes:
        try:
            parsed.append(parse_change(change) if isinstance(change, str) else change)
        except ConfigError as error:
            problems.append(str(error))
    given: dict[str, str] = {}                                  # key -> the argument that sets it
    for change in sorted(parsed, key=lambda change: change.key != "dataset.name"):
        given[change.key] = change.argument
        problems += _apply(change, values, task, given)

    def origin(key: str) -> str | None:
        parts = key.split(".")
        for end in range(len(parts), 0, -1):                    # --set may set a whole section
            if ".".join(parts[:end]) in given:
                return given[".".join(parts[:end])]
        return f"{path}, line {lines[key]}" if key in lines else None

    def where(key: str) -> str:
        inside = (argument for name, argument in given.items() if name.startswith(f"{key}."))
        return origin(key) or next(inside, str(path))           # a section that only --set has

    if values.get("task", task.name) != task.name:              # its other keys are not those of this task
        problem = f"{where('task')}: task is {values['task']!r}, but this is the task {task.name!r}"
        raise ConfigError(one_line(problem))
    config = build(task.schema, values, "", where, problems)
    wrong = [*out_of_range(config), *general_problems(config), *task.problems(config)]
    problems += [f"{where(key)}: {problem}" for key, problem in wrong]
    if problems:
        raise ConfigError("\n".join(map(one_line, problems)))
    return config, origin


def read_file(path: Path) -> tuple[dict[str, Any], dict[str, int]]:
    """Return the sections of a YAML file, and the lines of its keys."""
    try:
        content = path.read_bytes()
        text = content.decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        line, byte = content.count(b"\n", 0, error.start) + 1, content[error.start]
        raise ConfigError(f"{path}, line {line}: the byte 0x{byte:02x} is not UTF-8; save the file as UTF-8") from None
    values, lines = read_yaml_lines(text, str(path))
    if not isinstance(values, dict | None):
        raise ConfigError(f"{path}: a mapping of sections is expected, not {type(values).__name__}")
    return values or {}, lines


def _apply(change: Change, values: dict[str, Any], task: Task, given: dict[str, str]) -> Iterator[str]:
    """Apply a change to ``values``, and yield why it cannot be; ``given``: the keys that changes have set so far."""
    *sections, last = change.key.split(".")
    inner: Any = values
    for section in sections:
        inner = inner.setdefault(section, {})
        if not isinstance(inner, dict):
            yield f"{change.argument}: {section!r} is a value, not a section"
            return
    if change.key == "dataset.name" and change.value != inner.get("name"):
        declared = {item.name for item in fields(get_type_hints(task.schema)["dataset"])}
        for option in inner.keys() - declared:
            del inner[option]                                   # options of the previous dataset
    inner[last] = change.value
    rival = task.exclusive.get(change.key)
    if rival is not None and rival not in given and change.value is not None:   # two changes stay a contradiction
        inner.pop(rival.rpartition(".")[2], None)


def general_problems(config: Any) -> Iterator[tuple[str, str]]:
    """Yield key and problem of settings that both tasks have."""
    from jbpool.nn.pools import option_problems

    seeds = config.train.seeds
    if not seeds:
        yield "train.seeds", "train.seeds is empty: give at least one"
    if len(set(seeds)) != len(seeds):
        yield "train.seeds", f"train.seeds={seeds} contains a seed twice"
    for option, problem in option_problems(config.method):
        yield f"method.{option}", f"method.{problem}"
