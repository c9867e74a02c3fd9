"""Strict YAML: YAML 1.2 scalars, unique keys, and errors that name file and line.

PyYAML by itself reads ``1e-4`` as text, ``off`` as False and ``010`` as 8, and silently keeps the last of two equal
keys. The loader here does none of these.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Any

import yaml

from jbpool.errors import ConfigError


class _Loader(yaml.SafeLoader):
    """YAML 1.2: only true and false are booleans, 1e-4 is a number, 010 is 10, keys are unique."""

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
