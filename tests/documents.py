"""The fenced blocks of the documentation, and how they are run or checked.

Blocks of one page run in order, in one folder and with one namespace. A comment before a block changes this:

    <!-- test: slow -->                         run by ``make test-slow`` only
    <!-- test: parsed, takes minutes -->        only checked; the reason is one of REASONS
    <!-- test: signature -->                    shows the signature of a public class or function

``<!-- test the page: parsed, takes hours -->`` holds for all blocks of a page that have no comment of their own. A
``text`` block after a block that runs is its output, with ``...`` for what differs between runs.
"""

import argparse
import ast
import contextlib
import doctest
import inspect
import io
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from unittest import mock

from commands import ROOT, call, launch_ranks
from torch.distributed.run import get_args_parser

import jbpool
from jbpool import cli
from jbpool.classification.graph_classify import GRAPH_CLASSIFY
from jbpool.clustering.node_cluster import NODE_CLUSTER
from jbpool.data.__main__ import main as list_datasets
from jbpool.engine.config import load_config

FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
COMMENT = re.compile(r"<!-- test: (\w+)(?:, (.+?))? -->\n$")
SYNOPSIS = re.compile(r"[^\n]* \[--[^\n]*\n")
PAGE_COMMENT = re.compile(r"^<!-- test the page: (\w+), (.+?) -->$", flags=re.MULTILINE)
REASONS = {                                     # why a block does not run -> what must be true of its code
    "takes minutes": r"",
    "takes hours": r"",
    "needs anndata": r"h5ad|adata",
    "needs a GPU": r"cu\d|cuda|gpu",
    "changes the environment": r"^(pip|make|python -m pip)\b",
    "needs several machines": r"--nnodes",
    "needs another checkout": r"^git worktree add\b",
    "needs lightning": r"^import lightning$",   # which is not installed: not imported either
}
SHOWN = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
TASKS = {"cluster": NODE_CLUSTER, "classify": GRAPH_CLASSIFY}
SCRIPTS = {"tasks/node_cluster.py": "cluster", "tasks/graph_classify.py": "classify"}     # script -> command
PLAIN = {"cat", "head", "ls", "mkdir", "cp"}    # commands of the shell that are run as they are


class Block(NamedTuple):
    """A fenced block."""

    line: int
    language: str
    code: str
    how: str                    # run, slow, parsed, signature or synopsis
    reason: str                 # of parsed
    shown: str | None           # the output that the page shows


def pages() -> list[str]:
    """All pages with documentation, as paths from the root."""
    files = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md")))
    return [path.relative_to(ROOT).as_posix() for path in files]


def blocks(page: str) -> list[Block]:
    """The ``sh`` and ``python`` blocks of a page."""
    text = (ROOT / page).read_text()
    default = PAGE_COMMENT.search(text)
    how_by_default, reason_by_default = default.groups() if default else ("run", "")
    found: list[Block] = []
    end = 0
    for fence in FENCE.finditer(text):
        language, code = fence.groups()
        between = text[end:fence.start()]
        end = fence.end()
        if language == "text" and found and not between.strip():
            found[-1] = found[-1]._replace(shown=code)
        if language not in ("sh", "python"):
            continue
        comment = COMMENT.search(between)
        how, reason = (comment.group(1), comment.group(2) or "") if comment else (how_by_default, reason_by_default)
        if SYNOPSIS.fullmatch(code):
            how = "synopsis"
        found.append(Block(text.count("\n", 0, fence.start()) + 1, language, code, how, reason, None))
    return found


def commands_of(code: str) -> Iterator[list[str]]:
    """The words of every command of a ``sh`` block."""
    for line in code.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        while words:
            rest = words.index("&&") if "&&" in words else len(words)
            yield [word for i, word in enumerate(words[:rest]) if i or "=" not in word]     # OMP_NUM_THREADS=1 ...
            words = words[rest + 1:]


# ---------------------------------------------------------------- running


def run(block: Block, cwd: Path, space: dict) -> None:
    """Run a block in the folder ``cwd``, and compare what it prints with what the page shows."""
    out = ""
    if block.language == "python":
        code = compile(block.code, f"line {block.line}", "exec")
        out = call(lambda _: exec(code, space) or 0, cwd=cwd).out
    else:
        for words in commands_of(block.code):
            out += _run_command(words, cwd)
    if block.shown is not None:
        same = doctest.OutputChecker().check_output(block.shown, out, SHOWN)
        assert same, f"shown:\n{block.shown}\nprinted:\n{out}"


def _run_command(words: list[str], cwd: Path) -> str:
    if words[0] in PLAIN:
        return subprocess.run(words, cwd=cwd, check=True, capture_output=True, text=True).stdout
    if words[0] == "torchrun":
        place = next(i for i, word in enumerate(words) if word in SCRIPTS)
        options = get_args_parser().parse_args(words[1:])
        count = int(options.nproc_per_node)
        started = launch_ranks(ROOT / words[place], *words[place + 1 :], cwd=cwd, processes=count)
        printed = [process.communicate(timeout=300) for process in started]
        assert [process.returncode for process in started] == [0] * count, printed
        return printed[0][0]
    name, arguments = _program(words)
    if name == "jbpool":
        return call(cli.main, *arguments, cwd=cwd).out
    if name == "jbpool.data":
        return call(lambda _: list_datasets() or 0, cwd=cwd).out
    assert name.startswith("scripts/"), f"no way to run {' '.join(words)}: say why in a comment before the block"
    return call(lambda argv: _start_script(name, argv), *arguments, cwd=cwd).out


def _program(words: list[str]) -> tuple[str, list[str]]:
    """The program of a command, and its arguments; the scripts in tasks/ are commands of jbpool."""
    if words[0] != "python":
        return words[0], words[1:]
    if words[1] in SCRIPTS:
        return "jbpool", [SCRIPTS[words[1]], *words[2:]]
    return (words[2], words[3:]) if words[1] == "-m" else (words[1], words[2:])


def _start_script(name: str, argv: list[str]) -> int:
    path = [str((ROOT / name).parent), str(ROOT), *sys.path]
    with mock.patch.object(sys, "argv", [name, *argv]), mock.patch.object(sys, "path", path):
        runpy.run_path(str(ROOT / name), run_name="__main__")
    return 0


# ---------------------------------------------------------------- checking without running


def check(block: Block) -> None:
    """Check what can be checked of a block that does not run."""
    if block.how == "signature":
        return _check_signature(block.code)
    if block.how == "synopsis":
        return _check_synopsis(block.code)
    assert block.reason in REASONS, f"reason {block.reason!r}: give one of {', '.join(REASONS)}"
    assert re.search(REASONS[block.reason], block.code, flags=re.MULTILINE), f"{block.reason}? {block.code}"
    if block.language == "python":
        tree = ast.parse(block.code)
        imports = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
        if block.reason == "needs lightning":
            imports = [node for node in imports if ast.unparse(node) != "import lightning"]
        exec(compile(ast.Module(imports, []), f"line {block.line}", "exec"), {})
        return None
    for words in commands_of(block.code):
        _check_command(words)
    return None


def _check_signature(code: str) -> None:
    """``Name(a, *, b=1)`` is the signature of ``jbpool.Name``."""
    function = ast.parse(f"def {code.strip()}: ...").body[0]
    assert isinstance(function, ast.FunctionDef)
    expected = inspect.signature(getattr(jbpool, function.name))
    plain = expected.replace(
        parameters=[p.replace(annotation=p.empty) for p in expected.parameters.values()],
        return_annotation=expected.empty,
    )
    assert f"({ast.unparse(function.args)})".replace(" ", "") == str(plain).replace(" ", ""), function.name


def _check_command(words: list[str]) -> None:
    if words[0] == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
        named = [word for word in words[1:] if "=" not in word]
        assert set(named) <= set(targets), f"make has no target {named}"
        return None
    if words[0] in ("pip", "git") or words[:3] == ["python", "-m", "pip"]:
        return None
    if words[0] == "bash":
        assert (ROOT / words[1]).is_file(), words[1]
        return None
    if words[0] == "torchrun":
        options = get_args_parser().parse_args(words[1:])
        return _check_command(["python", options.training_script, *options.training_script_args])
    name, arguments = _program(words)
    if name == "jbpool":
        return _check_task(arguments)
    if name == "pytest":
        return None
    assert name.startswith("scripts/"), f"no way to check {' '.join(words)}"
    return _check_script(name, arguments)


def _check_task(arguments: list[str]) -> None:
    """Options, configuration and settings exist; files need not."""
    skipped = {"_check": mock.Mock(return_value=0), "_compare": mock.Mock(return_value=0)}
    with mock.patch.object(cli, "_start", return_value=0) as start, mock.patch.multiple(cli, **skipped):
        assert cli.main(arguments) == 0
    if not start.called or start.call_args.args[0].list:
        return
    (args,) = start.call_args.args
    with mock.patch.object(cli, "_own_file", lambda args: Path(args.file)):
        changes = cli._changes(args)
    if args.predict is None:
        load_config(TASKS[args.command], args.cfg or ("file" if args.file else None), changes)
    else:
        keys = [change if isinstance(change, str) else change.key for change in changes]
        assert all(key.startswith("dataset.") for key in keys), keys


def _check_synopsis(code: str) -> None:
    """A line such as ``command [--cfg NAME] ...`` names all options of the command."""
    _, (command, *_) = _program(code.split())
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        cli.main([command, "--help"])
    existing = set(re.findall(r"--[a-z-]+", out.getvalue().partition("\n\n")[0]))      # of the usage
    assert set(re.findall(r"--[a-z-]+", code)) == existing


class _ParsedError(Exception):
    pass


def _check_script(name: str, arguments: list[str]) -> None:
    """The script accepts the arguments; it is stopped after parsing them."""
    if "argparse" not in (ROOT / name).read_text():
        assert not arguments, f"{name} has no arguments"
        return
    parse = argparse.ArgumentParser.parse_args

    def stop(parser, *args, **kwargs):
        parse(parser, *args, **kwargs)
        raise _ParsedError

    stopped = False
    with mock.patch.object(argparse.ArgumentParser, "parse_args", stop):
        try:
            _start_script(name, arguments)
        except _ParsedError:
            stopped = True
    assert stopped, f"{name} does not parse its arguments first"

