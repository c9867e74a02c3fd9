"""Configurations as dataclasses: one class per section, one field per key, with its type and range."""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any

from jbpool.names import hint

REST = "options"        # a field of this name collects the keys that its section does not declare
MAX_WIDTH = 2**16       # of a layer
MAX_SEED = 2**32 - 1    # the largest that scikit-learn accepts
MAX_EPOCHS = 10**9


@dataclass(frozen=True)
class Range:
    """The valid range of a setting; ``above`` and ``below`` are exclusive bounds."""

    low: float | None = None
    high: float | None = None
    above: float | None = None
    below: float | None = None

    def __contains__(self, value: float) -> bool:
        return (
            -math.inf < value < math.inf
            and (self.low is None or value >= self.low)
            and (self.high is None or value <= self.high)
            and (self.above is None or value > self.above)
            and (self.below is None or value < self.below)
        )

    def __str__(self) -> str:
        bounds = (("at least", self.low), ("above", self.above), ("at most", self.high), ("below", self.below))
        # Whole numbers in full: 4294967295, not 4.29497e+09.
        shown = ((word, f"{bound:g}" if isinstance(bound, float) else bound) for word, bound in bounds)
        return " and ".join(f"{word} {bound}" for word, bound in shown if bound is not None)


def number(default: Any, low: float | None = None, high: float | None = None, **exclusive: float) -> Any:
    """Return a dataclass field for a number, or a list of numbers, within a range; see ``Range``."""
    metadata = {"range": Range(low, high, **exclusive)}
    if isinstance(default, list):
        return field(default_factory=lambda: list(default), metadata=metadata)
    return field(default=default, metadata=metadata)


def convert(value: Any, kind: Any) -> Any:
    """Return ``value`` as the annotated type, or a ``TypeError``; a single number is accepted for a list."""
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
    try:
        return float(value) if kind is float else value
    except OverflowError:                   # a whole number beyond the range of floating-point numbers
        raise TypeError from None


def readable(kind: Any) -> str:
    """Return what a value of the annotated type looks like, for messages."""
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        options = ("nothing" if option is type(None) else readable(option) for option in typing.get_args(kind))
        return " or ".join(dict.fromkeys(options))
    if typing.get_origin(kind) in (list, Sequence):
        return f"a list of {readable(typing.get_args(kind)[0]).removeprefix('a ')}s"
    if typing.get_origin(kind) is dict:
        return "a mapping of names to " + ("mappings" if typing.get_args(kind)[1] is dict else "numbers")
    return {int: "a whole number", float: "a number", bool: "true or false"}.get(kind, "text")


@dataclass
class DatasetConfig:
    """The dataset. Further keys are its options, see ``docs/reference/formats.md``."""

    name: str = ""
    root: str | None = None                         # folder searched before the other data roots
    options: dict[str, Any] = field(default_factory=dict)

    def option_defaults(self) -> dict[str, Any]:
        """Return the options of this dataset, with their defaults."""
        raise NotImplementedError

    def file_options(self, name: str) -> list[str]:
        """Return the options of the dataset ``name`` that describe files of the user."""
        raise NotImplementedError


@dataclass
class TrainConfig:
    """Settings of the training loop."""

    epochs: int = number(2000, 1, MAX_EPOCHS)
    lr: float = number(1e-4, above=0, high=1e3)
    seeds: list[int] = number([0], 0, MAX_SEED)
    eval_every: int = number(50, 1, MAX_EPOCHS)                 # epochs between evaluations
    patience: int | None = number(None, 1, MAX_EPOCHS)          # stop after this many epochs without improvement


def build(schema: type, values: dict, prefix: str, where: Callable[[str], str], problems: list[str]) -> Any:
    """Build a dataclass from values by key.

    ``prefix``: path of the section, such as ``"train."``. ``where``: key -> where it was given, for messages.
    ``problems`` receives what does not fit.
    """
    hints, keys = typing.get_type_hints(schema), {item.name for item in dataclasses.fields(schema)}
    accepted: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        if REST in keys and key not in keys - {REST}:
            accepted.setdefault(REST, {})[str(key)] = value
        elif key not in keys:
            choices = f"{hint(key, keys, prefix)} Choose one of: {', '.join(sorted(keys))}."
            problems.append(f"{where(name)}: {name!r} is unknown.{choices}")
        elif dataclasses.is_dataclass(hints[key]):
            if isinstance(value, dict):
                accepted[key] = build(hints[key], value, f"{name}.", where, problems)
            else:
                problems.append(f"{where(name)}: {name!r} is a section, not {value!r}")
        else:
            try:
                accepted[key] = convert(value, hints[key])
            except TypeError:
                problems.append(f"{where(name)}: {name}={value!r} should be {readable(hints[key])}")
    return schema(**accepted)


def out_of_range(config: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield key and problem of every number outside the range of its field."""
    for item in dataclasses.fields(config):
        value, key = getattr(config, item.name), f"{prefix}{item.name}"
        if dataclasses.is_dataclass(value):
            yield from out_of_range(value, f"{key}.")
        elif "range" in item.metadata and value is not None:
            allowed = item.metadata["range"]
            if not all(entry in allowed for entry in (value if isinstance(value, list) else [value])):
                yield key, f"{key}={value} should be {allowed}"


def changed(config: Any) -> list[str]:
    """Return ``section.key`` of every setting that differs from its default."""
    given, default = as_dict(config), as_dict(type(config)())
    parts = {name: part for name, part in given.items() if isinstance(part, dict)}
    return [
        f"{name}.{key}" for name, part in parts.items() for key in part if part[key] != default[name].get(key)
    ]


def as_dict(config: Any) -> dict[str, Any]:
    """Return a configuration as plain dicts and lists, as in a file."""
    plain = dataclasses.asdict(config)
    plain["dataset"].update(plain["dataset"].pop(REST))
    return plain
