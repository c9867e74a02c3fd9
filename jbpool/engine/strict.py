"""Strict YAML: YAML 1.2 scalars, unique keys, plain values only, and errors that name file, line and key.

PyYAML by itself reads ``1e-4`` as text, ``off`` as False, ``010`` as 8 and ``2024-13-45`` as an impossible date; it
silently keeps the last of two equal keys, and deep nesting or aliases can exhaust stack or memory. Here it only parses;
values are converted from its nodes by the rules below.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import yaml

from jbpool.errors import ConfigError, one_line

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
    f"{_CORE}float": (_NUMBER, lambda text: _float(text), "a number"),
    f"{_CORE}str": (_TEXT, str, "text"),
}


def _float(text: str) -> float:
    return float(text.lower().replace(".inf", "inf").replace(".nan", "nan").replace("_", ""))


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
    """The plain Python value of a YAML text; ``where`` names its origin in messages."""
    return read_yaml_lines(text, where)[0]


def read_yaml_lines(text: str, where: str) -> tuple[Any, dict[str, int]]:
    """The plain Python value of a YAML text, and the line of every key, such as ``{"train.epochs": 7}``."""
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
    """``at``: the node or event with the problem."""
    return yaml.MarkedYAMLError(problem=problem, problem_mark=at.start_mark)


def _value(node: yaml.Node, key: str, lines: dict[str, int]) -> Any:
    """The value of a node, which belongs to ``key``; the lines of the keys inside are added to ``lines``."""
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
