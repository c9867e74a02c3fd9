"""Strict YAML: every problem of a file reported at once, with the near miss and the choices.

PyYAML alone reads ``1e-4`` as text, ``off`` as False, ``010`` as 8, and keeps the last of two equal keys in silence;
the loader here does none of these.
"""

from __future__ import annotations

import dataclasses
import re
import types
import typing
from collections.abc import Callable, Hashable, Iterable, Sequence
from difflib import get_close_matches
from numbers import Integral, Real
from typing import Any

import yaml

REST = "options"        # a field of this name takes the keys a section does not know


class ConfigError(ValueError):
    """All problems of a configuration, one a line."""


class _Loader(yaml.SafeLoader):
    """YAML as version 1.2 has it: only true and false are booleans, 1e-4 is a number, 010 is 10, keys are unique."""

    def construct_mapping(self, node, deep=False):
        seen: dict[Any, int] = {}
        for key_node, _ in node.value:
            key, line = self.construct_object(key_node, deep=True), key_node.start_mark.line + 1
            if not isinstance(key, Hashable):
                raise yaml.MarkedYAMLError(problem=f"key {key!r} on line {line} should be a name")
            if key in seen:
                raise yaml.MarkedYAMLError(problem=f"key {key!r} on line {line} was given on line {seen[key]} already")
            seen[key] = line
        return super().construct_mapping(node, deep)


_REPLACED = tuple(f"tag:yaml.org,2002:{kind}" for kind in ("bool", "float", "int"))
_Loader.yaml_implicit_resolvers = {
    first: [resolver for resolver in resolvers if resolver[0] not in _REPLACED]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(?:true|false)$", re.IGNORECASE), list("tTfF"))
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][-+]?\d+)?$|^[-+]?\.(?:inf|nan)$", re.IGNORECASE),
    list("-+.0123456789"),
)
_Loader.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(r"^[-+]?\d[\d_]*$"), list("-+0123456789"))
_Loader.add_constructor("tag:yaml.org,2002:int", lambda loader, node: int(node.value.replace("_", "")))


def read_yaml(text: str, where: str) -> Any:
    """The plain Python value of a YAML text."""
    try:
        return yaml.load(text, Loader=_Loader)      # a subclass of SafeLoader: builds no objects
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        raise ConfigError(f"{where}{line}: {getattr(error, 'problem', None) or error}") from None


def build(kind: type, values: dict, prefix: str, where: Callable[[str], str], problems: list[str]) -> Any:
    """A dataclass from a mapping; what does not fit is added to ``problems``, with ``where`` its key was given."""
    hints, known = typing.get_type_hints(kind), {item.name for item in dataclasses.fields(kind)}
    fitting: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        if REST in known and key not in known - {REST}:
            fitting.setdefault(REST, {})[str(key)] = value
        elif key not in known:
            near = get_close_matches(str(key), known, n=1)
            hint = f" Did you mean {prefix + near[0]!r}?" if near else ""
            problems.append(f"{where(name)}: {name!r} is unknown.{hint} Choose one of: {', '.join(sorted(known))}.")
        elif dataclasses.is_dataclass(hints[key]):
            if isinstance(value, dict):
                fitting[key] = build(hints[key], value, f"{name}.", where, problems)
            else:
                problems.append(f"{where(name)}: {name!r} is a section, not {value!r}")
        else:
            try:
                fitting[key] = convert(value, hints[key])
            except TypeError:
                problems.append(f"{where(name)}: {name}={value!r} should be {readable(hints[key])}")
    return kind(**fitting)


def convert(value: Any, kind: Any) -> Any:
    """``value`` as the annotated type, or a ``TypeError``; a single number will do for a list of them."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        for option in inner:
            try:
                return convert(value, option)
            except TypeError:
                continue
        raise TypeError
    if origin in (list, Sequence):
        items = value if isinstance(value, Iterable) and not isinstance(value, (str, dict)) else [value]
        return [convert(item, inner[0]) for item in items]
    if origin is dict:
        if not isinstance(value, dict):
            raise TypeError
        return {convert(key, inner[0]): convert(item, inner[1]) for key, item in value.items()}
    if not isinstance(value, {int: Integral, float: Real}.get(kind, kind)) or isinstance(value, bool) != (kind is bool):
        raise TypeError
    return float(value) if kind is float else value


def readable(kind: Any) -> str:
    """What a value of the annotated type looks like, for messages."""
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        options = ("nothing" if option is type(None) else readable(option) for option in typing.get_args(kind))
        return " or ".join(dict.fromkeys(options))
    if typing.get_origin(kind) in (list, Sequence):
        return f"a list of {readable(typing.get_args(kind)[0]).removeprefix('a ')}s"
    if typing.get_origin(kind) is dict:
        return "a mapping of names to numbers"
    return {int: "a whole number", float: "a number", bool: "true or false"}.get(kind, "text")
