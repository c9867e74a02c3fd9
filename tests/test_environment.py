"""If dgl cannot be loaded, jbpool and check_env.py print one line with the command that fixes it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from jbpool import _environment

ROOT = Path(__file__).parent.parent


def run(code_or_script, fake_dgl=None, tmp_path=None):
    """Run Python with a fake ``dgl`` that shadows the real one."""
    path = [str(ROOT)]
    if fake_dgl is not None:
        (tmp_path / "dgl").mkdir()
        (tmp_path / "dgl" / "__init__.py").write_text(fake_dgl)
        path.insert(0, str(tmp_path))
    boot = f"import sys; sys.path[:0] = {path!r}; "
    if code_or_script.endswith(".py"):
        boot += f"import runpy; runpy.run_path({str(ROOT / code_or_script)!r}, run_name='__main__')"
    else:
        boot += code_or_script
    return subprocess.run([sys.executable, "-c", boot], capture_output=True, text=True, cwd=ROOT, check=False)


BROKEN = {
    "raise FileNotFoundError('Cannot find DGL C++ graphbolt library at libgraphbolt_pytorch_2.13.0.so')": "graphbolt",
    "raise OSError('libtorch_cpu.so: undefined symbol')": "undefined symbol",
    "import packaging_that_is_missing": "pip install packaging_that_is_missing",
    "raise ModuleNotFoundError(name='yaml_')": "pip install yaml_",
    "import torch.module_of_another_version": _environment.INSTALL,
}


FIRST_USES = (
    "from jbpool import JBPool",
    "import jbpool.data",
    "jbpool.DeltaConv",
    "import jbpool.clustering.task",
    "import jbpool.classification.task",
)


@pytest.mark.parametrize(
    ("source", "words", "use"), [(*broken, use) for broken, use in zip(BROKEN.items(), FIRST_USES, strict=True)]
)
def test_first_use_with_a_broken_dgl(source, words, use, tmp_path):
    result = run(f"import jbpool; print('here'); {use}", source, tmp_path)
    assert result.stdout == "here\n"                                 # the package itself can be imported
    assert result.returncode != 0
    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: ")
    assert words in last
    assert "run `pip install" in last
    assert "During handling" not in result.stderr
    assert "libgraphbolt" not in result.stderr.replace(last, "")     # no traceback through dgl


@pytest.mark.parametrize("task", ["node_cluster", "graph_classify"])
def test_a_task_with_a_broken_dgl(task, tmp_path):
    result = run(f"tasks/{task}.py", next(iter(BROKEN)), tmp_path)
    assert result.returncode == 1
    assert len(result.stderr.splitlines()) == 1
    assert "run `pip install" in result.stderr


def test_the_script_with_a_broken_dgl(tmp_path):
    result = run("scripts/check_env.py", next(iter(BROKEN)), tmp_path)
    assert result.returncode == 1
    assert "jbpool cannot be imported" in result.stdout
    assert f'pip install "torch=={_environment.TORCH}" "dgl=={_environment.DGL}" packaging' in result.stdout
    assert "Traceback" not in result.stderr


def test_the_script_with_a_working_dgl():
    result = run("scripts/check_env.py")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "import dgl works" in result.stdout


@pytest.mark.parametrize(("missing", "words"), [("torch", "torch is not installed"), ("dgl", "dgl is not installed")])
def test_advice_for_a_missing_package(missing, words, monkeypatch):
    monkeypatch.setattr(_environment, "installed", lambda package: None if package == missing else "9.9")
    assert words in _environment.advice(ModuleNotFoundError(name=missing))


def test_advice_names_the_package_not_the_module(monkeypatch):
    monkeypatch.setattr(_environment, "installed", lambda package: None if package == "pyyaml" else "9.9")
    assert "`pip install pyyaml`" in _environment.advice(ModuleNotFoundError(name="yaml"))


def test_the_advised_pair_is_the_locked_one():
    lock = (ROOT / "requirements.lock").read_text().splitlines()
    assert f"torch=={_environment.TORCH}" in lock
    assert f"dgl=={_environment.DGL}" in lock
    assert all("==" in line for line in lock)


@pytest.fixture
def require_with(monkeypatch):
    """A function that calls ``require_dgl`` as with another version of torch."""

    def require(torch):
        monkeypatch.setattr(_environment, "installed", lambda package: torch)
        _environment.check_torch.cache_clear()
        _environment.require_dgl()

    yield require
    _environment.check_torch.cache_clear()


@pytest.mark.parametrize("torch", ["2.3.1", "1.13.1+cu117"])
def test_a_torch_that_is_too_old(torch, require_with):
    words = rf"^jbpool needs torch 2\.4 or later, not {re.escape(torch)}: run `pip install"
    with pytest.raises(ImportError, match=words):
        require_with(torch)


@pytest.mark.parametrize("torch", ["2.16.0.dev20270101+cpu", "3.0"])
def test_a_torch_that_is_too_new(torch, require_with, caplog):
    require_with(torch)
    _environment.require_dgl()                                      # one line, however often it is called
    (record,) = caplog.records
    tested = f"jbpool has been tested with torch 2.4 to 2.15, not with {torch}; if something fails, run `pip install"
    assert record.getMessage().startswith(tested)


def test_the_line_is_printed(tmp_path):
    result = run("import jbpool._environment as e; e.installed = lambda package: '2.99'; e.require_dgl()", "", tmp_path)
    assert result.returncode == 0
    (line,) = result.stderr.splitlines()
    assert line.startswith("jbpool has been tested with torch 2.4 to 2.15, not with 2.99")


@pytest.mark.parametrize("torch", ["2.4.0", _environment.OLDEST_TORCH, "2.13.0+cpu", _environment.NEWEST_TORCH])
def test_a_torch_inside_the_range_is_not_mentioned(torch, require_with, caplog):
    require_with(torch)
    assert not caplog.records


def test_the_range_is_the_declared_one():
    assert f'"torch>={_environment.OLDEST_TORCH.rpartition(".")[0]}"' in (ROOT / "pyproject.toml").read_text()
