"""Strict YAML: every problem of a file reported at once, with the near miss and the choices.

PyYAML alone reads ``1e-4`` as text, ``off`` as False, and keeps the last of two equal keys in silence; the loader here
does none of the three.
"""

from __future__ import annotations

import dataclasses
import re
import types
import typing
from difflib import get_close_matches
from typing import Any

import yaml

REST = "options"        # a field of this name takes the keys a section does not know


class ConfigError(ValueError):
    """All problems of a configuration, one a line."""


class _Loader(yaml.SafeLoader):
    """YAML as its 1.2 version has it: only true and false are booleans, 1e-4 is a number, keys are unique."""

    def construct_mapping(self, node, deep=False):
        seen: dict[Any, int] = {}
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                line = key_node.start_mark.line + 1
                raise yaml.MarkedYAMLError(problem=f"key {key!r} on line {line} was given on line {seen[key]} already")
            seen[key] = key_node.start_mark.line + 1
        return super().construct_mapping(node, deep)


_REPLACED = ("tag:yaml.org,2002:bool", "tag:yaml.org,2002:float")
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


def read_yaml(text: str, where: str) -> Any:
    """The plain Python value of a YAML text."""
    try:
        return yaml.load(text, Loader=_Loader)      # a subclass of SafeLoader: builds no objects
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        raise ConfigError(f"{where}{line}: {getattr(error, 'problem', None) or error}") from None


def build(kind: type, values: dict, prefix: str, where: str, problems: list[str]) -> Any:
    """A dataclass from a mapping; what does not fit is added to ``problems``."""
    hints, known = typing.get_type_hints(kind), {item.name for item in dataclasses.fields(kind)}
    fitting: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        if REST in known and key not in known - {REST}:
            fitting.setdefault(REST, {})[str(key)] = value
        elif key not in known:
            near = get_close_matches(str(key), known, n=1)
            hint = f" Did you mean {prefix + near[0]!r}?" if near else ""
            problems.append(f"{where}: {name!r} is unknown.{hint} Choose one of: {', '.join(sorted(known))}.")
        elif dataclasses.is_dataclass(hints[key]):
            if isinstance(value, dict):
                fitting[key] = build(hints[key], value, f"{name}.", where, problems)
            else:
                problems.append(f"{where}: {name!r} is a section, not {value!r}")
        else:
            try:
                fitting[key] = _convert(value, hints[key])
            except TypeError:
                problems.append(f"{where}: {name}={value!r} should be {_readable(hints[key])}")
    return kind(**fitting)


def _convert(value: Any, kind: Any) -> Any:
    """``value`` as the annotated type, or a ``TypeError``; a single number will do for a list of them."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in inner:
            return None
        return _convert(value, next(option for option in inner if option is not type(None)))
    if origin is list:
        return [_convert(item, inner[0]) for item in (value if isinstance(value, list) else [value])]
    if origin is dict:
        if not isinstance(value, dict):
            raise TypeError
        return {_convert(key, inner[0]): _convert(item, inner[1]) for key, item in value.items()}
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise TypeError
    return value


def _readable(kind: Any) -> str:
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return " or ".join("nothing" if option is type(None) else _readable(option) for option in typing.get_args(kind))
    if typing.get_origin(kind) is list:
        return f"a list of {_readable(typing.get_args(kind)[0])}s"
    if typing.get_origin(kind) is dict:
        return "a mapping of names to numbers"
    return {int: "whole number", float: "number", str: "text", bool: "true or false"}[kind]
