"""Configurations: strict YAML, the schema of the task, and ``--set``; all errors are reported together.

PyYAML by itself reads ``1e-4`` as text, ``off`` as False, ``010`` as 8 and ``2024-13-45`` as an impossible date; it
silently keeps the last of two equal keys, and deep nesting or aliases can exhaust stack or memory. Here it only parses;
values are converted from its nodes by the rules below.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

import yaml

from jbpool.engine.task import Task
from jbpool.errors import ConfigError, one_line
from jbpool.names import hint
from jbpool.schema import as_dict, build, out_of_range

MAX_DEPTH = 20          # of nested lists and mappings; a configuration needs three
_CORE = "tag:yaml.org,2002:"
_NULL = re.compile(r"^(?:~|null|)$", re.IGNORECASE)
_BOOL = re.compile(r"^(?:true|false)$", re.IGNORECASE)
_FLOAT = re.compile(r"^[-+]?(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][-+]?\d+)?$|^[-+]?\.inf$|^\.nan$", re.IGNORECASE)
_INT = re.compile(r"^[-+]?\d[\d_]*$")
_NUMBER = re.compile(f"{_FLOAT.pattern}|{_INT.pattern}", re.IGNORECASE)
_TEXT = re.compile(".*", re.DOTALL)

# tag -> (pattern of valid texts, conversion, name in messages); any text is a valid str
_SCALARS: dict[str, tuple[re.Pattern[str], Callable[[str], Any], str]] = {
    f"{_CORE}null": (_NULL, lambda text: None, "null"),
    f"{_CORE}bool": (_BOOL, lambda text: text.lower() == "true", "true or false"),
    f"{_CORE}int": (_INT, lambda text: int(text.replace("_", "")), "a whole number"),
    f"{_CORE}float": (_NUMBER, lambda text: float(re.sub(r"\.(?=inf|nan)|_", "", text.lower())), "a number"),
    f"{_CORE}str": (_TEXT, str, "text"),
}


class _Loader(yaml.SafeLoader):
    """Parses and resolves; rejects aliases and deep nesting, which can build huge structures."""

    depth = 0

    def compose_node(self, parent, index):
        if self.check_event(yaml.AliasEvent):
            raise _error(self.peek_event(), "aliases (*name) are not supported: write the value out")
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise _error(self.peek_event(), f"more than {MAX_DEPTH} levels of brackets or indentation")
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


_Loader.yaml_implicit_resolvers = {}        # remove those of YAML 1.1, add those of YAML 1.2
for _tag, _pattern, _first in (
    ("null", _NULL, ["~", "n", "N", ""]),
    ("bool", _BOOL, list("tTfF")),
    ("float", _FLOAT, list("-+.0123456789")),
    ("int", _INT, list("-+0123456789")),
):
    _Loader.add_implicit_resolver(f"{_CORE}{_tag}", _pattern, _first)


def read_yaml(text: str, where: str) -> Any:
    """Return the plain Python value of a YAML text; ``where`` names its origin in messages."""
    return read_yaml_lines(text, where)[0]


def read_yaml_lines(text: str, where: str) -> tuple[Any, dict[str, int]]:
    """Return the plain Python value of a YAML text, and the line of every key, such as ``{"train.epochs": 7}``."""
    lines: dict[str, int] = {}
    try:
        node = _Loader(text).get_single_node()
        return (None if node is None else _value(node, "", lines)), lines
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        message = f"the character {chr(error.character)!r} is not allowed in YAML"
    except yaml.MarkedYAMLError as error:
        line = 1 if error.problem_mark is None else error.problem_mark.line + 1
        message = str(error.problem)
    raise ConfigError(one_line(f"{where}, line {line}: {message}"))


def _error(at: Any, problem: str) -> yaml.MarkedYAMLError:
    """Return the error; ``at``: the node or event with the problem."""
    return yaml.MarkedYAMLError(problem=problem, problem_mark=at.start_mark)


def _value(node: yaml.Node, key: str, lines: dict[str, int]) -> Any:
    """Return the value of a node, which belongs to ``key``; the lines of the keys inside are added to ``lines``."""
    if isinstance(node, yaml.ScalarNode):
        return _scalar(node, key)
    if isinstance(node, yaml.SequenceNode) and node.tag == f"{_CORE}seq":
        return [_value(item, key, lines) for item in node.value]
    if isinstance(node, yaml.MappingNode) and node.tag == f"{_CORE}map":
        return _mapping(node, key, lines)
    raise _unknown_tag(node, key)


def _mapping(node: yaml.MappingNode, key: str, lines: dict[str, int]) -> dict[Any, Any]:
    seen: dict[Any, int] = {}
    values = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        if not isinstance(key_node, yaml.ScalarNode):
            raise _error(key_node, f"the key on line {line} should be a name")
        name = _scalar(key_node, key)
        if name in seen:
            raise _error(key_node, f"key {name!r} on line {line} is already given on line {seen[name]}")
        seen[name] = line
        path = f"{key}.{name}" if key else str(name)
        lines[path] = line
        values[name] = _value(value_node, path, lines)
    return values


def _scalar(node: yaml.ScalarNode, key: str) -> Any:
    if node.tag not in _SCALARS:
        raise _unknown_tag(node, key)
    pattern, convert, kind = _SCALARS[node.tag]
    try:
        if pattern.fullmatch(node.value):
            return convert(node.value)
    except ValueError:                      # too many digits for int()
        pass
    shown = node.value if len(node.value) <= 40 else f"{node.value[:20]}... ({len(node.value)} characters)"
    raise _error(node, f"{_of(key)}{shown!r} is not {kind}")


def _unknown_tag(node: yaml.Node, key: str) -> yaml.MarkedYAMLError:
    tag = node.tag.replace(_CORE, "!!")
    return _error(node, f"{_of(key)}the tag {tag!r} is not supported here: write a plain value")


def _of(key: str) -> str:
    return f"{key}: " if key else ""


PACKAGE = Path(__file__).resolve().parent.parent
# A wheel has the configurations inside the package, a checkout beside it.
CONFIGS = next(path for path in (PACKAGE / "configs", PACKAGE.parent / "configs") if path.is_dir())


def config_names(task: str) -> list[str]:
    """Return the files under ``configs/<task>/``, those in its folders last."""
    found = (path.relative_to(CONFIGS / task) for path in (CONFIGS / task).rglob("*.yaml"))
    return [path.as_posix() for path in sorted(found, key=lambda path: (len(path.parts), path))]


def find_config(name: str, task: str) -> Path:
    """Look for ``name`` as a path, then under ``configs/<task>/``."""
    for path in (Path(name).expanduser(), CONFIGS / task / name, CONFIGS / task / f"{name}.yaml"):
        if os.path.isfile(path):                                # unlike Path.is_file, False for impossible names
            return path
    known = config_names(task)
    near = hint(Path(name).stem, [Path(other).stem for other in known], suffix=".yaml")
    raise ConfigError(f"--cfg {name}: no such file.{near} Under configs/{task}: {', '.join(known)}.")


def load_config(
    task: Task, name: str | None = None, changes: Sequence[str] = (), origins: Mapping[str, str] | None = None
) -> Any:
    """Load a configuration file and apply ``--set`` overrides. All errors are reported together.

    The result is an instance of the schema of the task. ``name`` is a path, or the name of a file under
    ``configs/<task>/``, by default the default of the task. ``changes`` are overrides, each ``section.key=value``;
    ``origins``: key -> the argument that changes it, for messages, by default ``--set section.key=value``.
    """
    return _load(task, name, changes, origins or {})[0]


def settings(
    task: Task, name: str | None, changes: Sequence[str], origins: Mapping[str, str]
) -> Iterator[tuple[str, Any, Any, str]]:
    """Yield key, value, default and origin of every setting; the parameters are those of ``load_config``."""
    config, origin = _load(task, name, changes, origins)
    values, defaults = as_dict(config), as_dict(task.schema())
    defaults["dataset"] |= task.dataset_options(config)
    for section, part in values.items():
        if not isinstance(part, dict):
            yield section, part, defaults[section], origin(section) or "default"
            continue
        for key in {**defaults[section], **part}:
            default = defaults[section].get(key)
            yield f"{section}.{key}", part.get(key, default), default, origin(f"{section}.{key}") or "default"


def _load(
    task: Task, name: str | None, changes: Sequence[str], origins: Mapping[str, str]
) -> tuple[Any, Callable[[str], str | None]]:
    """Return the configuration, and a function: key -> where it was given, ``None`` if nowhere."""
    path = find_config(name or task.default, task.name)
    values, lines = read_file(path)
    problems: list[str] = []
    if "task" not in values:
        problems.append(f"{path}: 'task: {task.name}' is missing")
    given: dict[str, str] = {}                                  # key -> the argument that sets it
    for change in sorted(changes, key=lambda change: not change.startswith("dataset.name=")):
        key = change.partition("=")[0]
        given[key] = origins.get(key, f"--set {change}")
        try:
            _apply(change, values, task, given)
        except ConfigError as error:
            problems.append(f"{given[key]}: {error}")

    def origin(key: str) -> str | None:
        parts = key.split(".")
        for end in range(len(parts), 0, -1):                    # --set may set a whole section
            if ".".join(parts[:end]) in given:
                return given[".".join(parts[:end])]
        return f"{path}, line {lines[key]}" if key in lines else None

    def where(key: str) -> str:
        inside = (change for name, change in given.items() if name.startswith(f"{key}."))
        return origin(key) or next(inside, str(path))           # a section that only --set has

    if values.get("task", task.name) != task.name:              # its other keys are not those of this task
        problem = f"{where('task')}: task is {values['task']!r}, but this is the task {task.name!r}"
        raise ConfigError(one_line(problem))
    config = build(task.schema, values, "", where, problems)
    wrong = [*out_of_range(config), *_general_problems(config), *task.problems(config)]
    problems += [f"{where(key)}: {problem}" for key, problem in wrong]
    if problems:
        raise ConfigError("\n".join(map(one_line, problems)))
    return config, origin


def read_file(path: Path) -> tuple[dict[str, Any], dict[str, int]]:
    """Return the sections of a YAML file, and the lines of its keys."""
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
    """Yield key and problem of settings that both tasks have."""
    from jbpool.nn.pools import option_problems

    seeds = config.train.seeds
    if not seeds:
        yield "train.seeds", "train.seeds is empty: give at least one"
    if len(set(seeds)) != len(seeds):
        yield "train.seeds", f"train.seeds={seeds} contains a seed twice"
    for option, problem in option_problems(config.method):
        yield f"method.{option}", f"method.{problem}"
