"""The wheel is complete, and both tasks run from it without a checkout."""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
ASSETS = ROOT / "jbpool" / "report" / "assets"
SOURCES = [*(ROOT / "jbpool").rglob("*.py"), *(ROOT / "configs").rglob("*.yaml"), *ASSETS.iterdir()]
SOURCES.append(ROOT / "jbpool" / "py.typed")
COMMANDS = (["jbpool", "cluster"], ["jbpool", "classify"])
# In the source that is built, so that the defaults are quick and cannot be those of the checkout.
CHANGED = {
    "node_cluster/sbm.yaml": "epochs: 7",
    "graph_classify/motifs.yaml": "epochs: 2",
}

# Runs commands beside the package, given as JSON.
ONE_AFTER_ANOTHER = """
import json, pathlib, runpy, sys
import jbpool
bin = pathlib.Path(jbpool.__file__).parent.parent / "bin"
for sys.argv in json.loads(sys.argv[1]):
    try:
        runpy.run_path(str(bin / sys.argv[0]), run_name="__main__")
    except SystemExit as end:
        assert not end.code, (sys.argv, end.code)
"""


def pip(*args, **options):
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *map(str, args)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built from a copy: building leaves files in the source folder."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    skip = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in ("jbpool", "configs"):
        shutil.copytree(ROOT / name, source / name, ignore=skip)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for name, new in CHANGED.items():
        path = source / "configs" / name
        text, count = re.subn(r"\bepochs: \d+", new, path.read_text())
        assert count == 1
        path.write_text(text)
    pip("wheel", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", out, source)
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """A function that runs a command in a folder where only the wheel is on the path."""
    target, cwd = tmp_path_factory.mktemp("site"), tmp_path_factory.mktemp("elsewhere")
    pip("install", "--no-deps", "--no-index", "--no-compile", "--target", target, wheel)
    env = {**os.environ, "PYTHONPATH": str(target), "XDG_CACHE_HOME": str(cwd / "cache"), "OMP_NUM_THREADS": "1"}

    def run(command, *args):
        start = [sys.executable] if command == "python" else [str(target / "bin" / command)]
        result = subprocess.run([*start, *args], cwd=cwd, env=env, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout

    place = Path(run("python", "-c", "import jbpool; print(jbpool.__file__)").strip())
    assert place.is_relative_to(target)                 # not an editable install of the checkout
    return run, cwd


def test_every_file_is_in_the_wheel(wheel):
    with zipfile.ZipFile(wheel) as archive:
        inside = {name for name in archive.namelist() if ".dist-info/" not in name}
    expected = {path.relative_to(ROOT).as_posix() for path in SOURCES}
    assert inside == {name if name.startswith("jbpool/") else f"jbpool/{name}" for name in expected}


def test_the_version_is_the_cited_one(wheel):
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"]
    assert wheel.name.startswith(f"jbpool-{cited}-")
    assert f"## {cited} (" in (ROOT / "CHANGELOG.md").read_text()


def test_the_same_pythons_everywhere():
    """Classifiers, Makefile and workflow name the same versions of Python."""
    named = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', (ROOT / "pyproject.toml").read_text())
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "check.yml").read_text())
    assert workflow["jobs"]["check"]["strategy"]["matrix"]["python"] == named
    lowest, highest = (version.replace(".", ", ") for version in (named[0], named[-1]))
    assert f"({lowest}) <= sys.version_info[:2] <= ({highest})" in (ROOT / "Makefile").read_text()


def test_conda_has_the_same_requirements():
    tomllib = pytest.importorskip("tomllib")
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    recipe = (ROOT / "scripts" / "conda" / "meta.yaml").read_text().partition("  run:\n")[2].partition("test:")[0]
    listed = re.findall(r"- (\S+) >=(\S+)", recipe.replace("pytorch", "torch"))
    assert [f"{name}>={lowest}" for name, lowest in listed if name != "python"] == [
        need for need in declared if ";" not in need                # not DGL
    ]


def test_the_list_of_packages_is_complete():
    tomllib = pytest.importorskip("tomllib")
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    on_disk = [".".join(path.parent.relative_to(ROOT).parts) for path in (ROOT / "jbpool").rglob("__init__.py")]
    assert sorted(listed) == sorted([*on_disk, "jbpool.configs"])


def test_both_defaults_and_the_list(installed):
    """The installed commands, in one process: each would import torch and DGL."""
    run, cwd = installed
    smaller = (["--seeds", "0", "--set", "dataset.num_nodes=300"], ["--set", "dataset.num_graphs=60", "--folds", "0"])
    tasks = [config.split("/")[0] for config in CHANGED]
    calls = [[*command, *more, "--out", task] for command, more, task in zip(COMMANDS, smaller, tasks, strict=True)]
    printed = run("python", "-c", ONE_AFTER_ANOTHER, json.dumps([*calls, ["jbpool", "cluster", "--list"]]))
    for task, changed in zip(tasks, CHANGED.values(), strict=True):
        assert f"{task}/report.html" in printed
        ran = yaml.safe_load((cwd / task / "config.yaml").read_text())
        assert ran["task"] == task
        assert f"epochs: {ran['train']['epochs']}" == changed
    assert "paper/cora.yaml" in printed


def test_mypy_on_code_of_users(installed):
    """Results and options have their types outside the checkout; an unused ``type: ignore`` there is an error."""
    pytest.importorskip("mypy")
    run, _ = installed
    page = Path(__file__).parent / "user_code.py"
    printed = run("python", "-m", "mypy", "--strict", "--cache-dir", ROOT / ".mypy_cache" / "users", page)
    assert printed.startswith("Success")


def test_help(installed):
    run, _ = installed
    for command in COMMANDS:
        printed = run(*command, "--cfg", "paper/cora", "--help")
        assert f"  {' '.join(command)} --cfg " in printed
        assert "--resume" in printed


def test_import_beside_a_folder_of_the_same_name(tmp_path):
    """As in the parent of a checkout, with what ``make env`` leaves: the package is found, not the folder."""
    (tmp_path / "jbpool").mkdir()
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "env"], check=True)
    make = ["make", "--dry-run", "env", f"BIN={tmp_path}/env/bin", f"READY={tmp_path}/ready"]
    steps = subprocess.run(make, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    (step,) = [step for step in steps if "checkout.pth" in step]
    subprocess.run(step, shell=True, cwd=ROOT, check=True)
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [tmp_path / "env" / "bin" / "python", "-c", "import jbpool; print(jbpool.__file__)"]
    found = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == str(ROOT / "jbpool" / "__init__.py")
