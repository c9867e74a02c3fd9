"""Docstrings list every parameter on a line of its own, with its type and default, and have no Sphinx roles."""

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "jbpool"
HEADING = "Parameters\n----------\n"


def documented(doc: str) -> dict[str, tuple[str, str]]:
    """Name -> type and description of the entries of a section of parameters."""
    section = re.split(r"\n\w+\n-{3,}\n", doc.split(HEADING)[1])[0]
    found = {}
    for entry in re.split(r"\n(?=\S)", section):
        line, _, text = entry.partition("\n")
        name, _, kind = line.partition(" : ")
        found[name.replace("*", "")] = kind, " ".join(text.split())
    return found


def value(text: str) -> object:
    """The value of a literal; ``None`` for other expressions."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return None


def problems(source: str) -> list[str]:
    """What is missing or wrong in the docstrings of a module."""
    found = []
    for node in ast.walk(ast.parse(source)):
        doc = ast.get_docstring(node) if isinstance(node, (ast.FunctionDef, ast.ClassDef)) else None
        if doc is None or HEADING not in doc:
            continue
        inits = [part for part in node.body if isinstance(part, ast.FunctionDef) and part.name == "__init__"]
        if isinstance(node, ast.ClassDef) and not inits:
            continue                                        # a dataclass: its fields have types and defaults
        args = (inits[0] if isinstance(node, ast.ClassDef) else node).args
        ordinary = [*args.posonlyargs, *args.args]
        last = ordinary[len(ordinary) - len(args.defaults) :]
        defaults = {arg.arg: node for arg, node in zip(last, args.defaults, strict=True)}
        defaults |= {arg.arg: node for arg, node in zip(args.kwonlyargs, args.kw_defaults, strict=True) if node}
        names = [arg.arg for arg in (*ordinary, *args.kwonlyargs) if arg.arg not in ("self", "cls")]
        entries = documented(doc)
        more = [arg.arg for arg in (args.vararg, args.kwarg) if arg]
        unknown = entries.keys() - {*names, *more, ", ".join(more)}
        found += [f"{node.name}: {name} is not a parameter" for name in unknown]
        for name in names:
            kind, text = entries.get(name, ("", ""))
            printed = re.search(r", default (.+)$", kind)
            words = re.search(r"Default: ([\w`\".-]+)", text)
            described = value(words[1].strip("`.")) if words else None
            if not kind or kind.endswith("."):
                found.append(f"{node.name}: {name} has no line with its type")
            elif (name in defaults) != bool(printed or kind.endswith(", optional")):
                found.append(f"{node.name}: whether {name} has a default")
            elif printed and value(ast.unparse(defaults[name])) not in (None, value(printed[1])):
                found.append(f"{node.name}: {name} is {ast.unparse(defaults[name])} by default, not {printed[1]}")
            elif described is not None and name in defaults and described != value(ast.unparse(defaults[name])):
                found.append(f"{node.name}: {name} is {ast.unparse(defaults[name])} by default, not {described}")
    return found


def test_every_parameter_has_its_line():
    found = {path.relative_to(PACKAGE): problems(path.read_text()) for path in PACKAGE.rglob("*.py")}
    assert {path: wrong for path, wrong in found.items() if wrong} == {}


def test_no_sphinx_roles():
    """The site shows ``:func:`` and its kin as they are written."""
    roles = re.compile(r":(?:py:)?(?:attr|class|data|exc|func|meth|mod|obj|ref):`")
    assert [str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py") if roles.search(path.read_text())] == []


WRONG = '''
def f(one, two=3, *, three="x"):
    """Something.

    Parameters
    ----------
    {}
    """
'''


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ("one : int\n    two : int, default 3\n    three : str, optional", None),
        ("one, two : int\n    three : str, optional", "one, two is not a parameter"),
        ("one : the first.\n    two : int, default 3\n    three : str, optional", "one has no line with its type"),
        ("one : int\n    two : int\n    three : str, optional", "whether two has a default"),
        ("one : int, optional\n    two : int, default 3\n    three : str, optional", "whether one has a default"),
        ("one : int\n    two : int, default 4\n    three : str, optional", "two is 3 by default, not 4"),
        ("one : int\n    two : int, optional\n        Default: 4.\n    three : str, optional", "two is 3 by default"),
    ],
)
def test_what_is_wrong_is_found(entries, words):
    found = problems(WRONG.format(entries))
    assert found == [] if words is None else any(problem.startswith(f"f: {words}") for problem in found)
