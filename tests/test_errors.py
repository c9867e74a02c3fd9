"""Every refusal of the package, found in its source: one line that names the place or a value, and says a fix."""

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

import jbpool
from jbpool import errors
from jbpool.errors import DataError, reported_as

PACKAGE = Path(jbpool.__file__).parent
CLASSES = [name for name, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, errors.JBPoolError)]
FIXES = (": ", "; ", "give ", " must ", " expected", "diagnosis")       # a network says itself what to change


def raised_class(call: ast.Call) -> str | None:
    """The class in ``Class(...)`` or ``Class.at(...)``."""
    name = call.func.value if isinstance(call.func, ast.Attribute) else call.func
    return name.id if isinstance(name, ast.Name) and name.id in CLASSES else None


def parts(function: ast.AST, message: list[ast.expr]) -> Iterator[ast.AST]:
    """All nodes of a message, and of what is assigned to its names in the function."""
    assigned: dict[str, list[ast.expr]] = {}
    for node in ast.walk(function):
        targets, value = (node.targets, node.value) if isinstance(node, ast.Assign) else ([], None)
        if isinstance(node, ast.For):
            targets, value = [node.target], node.iter
        for name in (name for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)):
            assigned.setdefault(name.id, []).append(value)
    while message:
        for node in ast.walk(message.pop()):
            yield node
            message += assigned.pop(node.id, []) if isinstance(node, ast.Name) else []


def refusals() -> Iterator[tuple[str, ast.FunctionDef, ast.Call]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        for function in ast.walk(ast.parse(path.read_text())):
            if isinstance(function, ast.FunctionDef):
                for node in ast.walk(function):
                    if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and raised_class(node.exc):
                        yield f"{path.relative_to(PACKAGE)}:{node.lineno}", function, node.exc


def test_every_refusal_is_one_line_with_a_value_and_a_fix():
    values, faults = [], []
    for place, function, call in refusals():
        nodes = list(parts(function, list(call.args)))
        words = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
        text = " ".join(word for word in words if word.strip())
        text += " ".join(node.attr for node in nodes if isinstance(node, ast.Attribute) and node.attr == "diagnosis")
        of_file = isinstance(call.func, ast.Attribute)              # DataError.at names the file, and often the line
        values.append(of_file or any(isinstance(node, ast.FormattedValue) for node in nodes))
        if "\n" in text and function.name != "fetch":               # which lists the mirrors
            faults.append(f"{place}: more than one line")
        if text and not of_file and not any(fix in text for fix in FIXES):
            faults.append(f"{place}: no fix in {text!r}")
    assert len(values) > 150
    assert faults == []
    assert sum(values) > 0.8 * len(values)                          # of others there is no value to name


def test_whatever_fails_while_a_file_is_read_names_the_file():
    for error, words in (
        (KeyError("x"), r"f\.csv: not a table \('x'\); fix it"), (MemoryError(), "MemoryError"),
        (FileNotFoundError(2, "No such file", "f.csv"), r"^f\.csv: no such file$"),
        (DataError("too long\x00"), r"^f\.csv: too long\\x00$"), (DataError("f.csv: bad"), r"^f\.csv: bad$"),
    ):  # fmt: skip
        with pytest.raises(DataError, match=words), reported_as("f.csv", "not a table", "; fix it"):
            raise error
