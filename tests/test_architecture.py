"""Folders and import directions of CONTRIBUTING.md, read from the source with ``ast``."""

import ast
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "jbpool"

# Layer of each part of jbpool. A module imports parts of lower layers and its own part; parts of one layer never each
# other, but for the first, whose modules build on one another.
BASE = ("errors", "names", "schema", "checks", "files", "console", "liveness", "processes")
LAYERS = [
    BASE, ("interop", "kept", "formats"), ("graph",), ("inputs",), ("ops",), ("objectives",), ("nn",),
    ("data", "engine", "report"), ("clustering", "classification"),
    ("compare", "trained", "installation"), ("cli",), ("__main__",),
]  # fmt: skip
LAYER = {part: number for number, parts in enumerate(LAYERS) for part in parts}


class Import(NamedTuple):
    source: str             # dotted names of modules
    target: str
    line: int


def module_name(path: Path, root: Path = ROOT) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def outside(source: str) -> set[str]:
    """The first part of every absolute import: ``dgl`` of ``from dgl.nn import GraphConv``."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add((node.module or "").split(".")[0])
    return found


def read_imports(source: str, module: str, is_package: bool, modules: set[str]) -> list[Import]:
    """Every import of one of ``modules``, also inside functions and under TYPE_CHECKING."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = module.split(".") if is_package else module.split(".")[:-1]
                base = ".".join([*parents[: len(parents) - node.level + 1], *([base] if base else [])])
            # "from package import name": the module of that name, else the package itself
            names = [f"{base}.{alias.name}" if f"{base}.{alias.name}" in modules else base for alias in node.names]
        else:
            continue
        found += [Import(module, name, node.lineno) for name in names if name in modules]
    return found


def forbidden(edge: Import) -> bool:
    """Whether an import goes against the layers."""
    source, target = (name.split(".")[1] if "." in name else "" for name in edge[:2])
    if not source:
        return False                            # jbpool/__init__.py hands out names of every layer
    if not target:
        return source not in ("cli", "compare", "trained", "installation")     # nothing below needs the public names
    if source == target or (source in BASE and target in BASE):
        return False
    return LAYER[target] >= LAYER[source]


def cycles(edges: list[Import]) -> list[str]:
    """Modules with circular imports."""
    graph: dict[str, set[str]] = {}
    for edge in edges:
        if edge.source != edge.target:
            graph.setdefault(edge.source, set()).add(edge.target)
    found, done = [], set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        if module in path:
            found.append(" -> ".join((*path[path.index(module) :], module)))
        elif module not in done:
            for target in sorted(graph.get(module, ())):
                visit(target, (*path, module))
            done.add(module)

    for module in sorted(graph):
        visit(module, ())
    return found


FILES = sorted(PACKAGE.rglob("*.py"))
MODULES = {module_name(path): path for path in FILES}


def package_imports() -> list[Import]:
    names = set(MODULES)
    return [
        edge
        for module, path in MODULES.items()
        for edge in read_imports(path.read_text(), module, path.name == "__init__.py", names)
    ]


# ---------------------------------------------------------------- the package


def test_every_part_has_a_layer():
    parts = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}
    assert parts - {"__init__"} - set(LAYER) == set(), "say in CONTRIBUTING.md and here where these belong"


# Of both tasks, and of what they share.
SHARED_NAMES = {"__init__", "__main__", "config", "network", "predict", "report", "run"}


def test_a_name_of_a_module_has_one_meaning():
    names = [path.stem for path in FILES]
    assert {name for name in names if names.count(name) > 1} <= SHARED_NAMES


def test_imports_go_one_way():
    wrong = [edge for edge in package_imports() if forbidden(edge)]
    lines = [f"{MODULES[edge.source].relative_to(ROOT)}:{edge.line} imports {edge.target}" for edge in wrong]
    assert not lines, "\n".join(lines)


def test_no_cycles():
    assert not cycles(package_imports())


LAZY = ("jbpool", "jbpool.clustering.embed", "jbpool.data.catalogue")


def test_modules_are_imported_by_statements():
    """import_module hides an import from readers and from this test; only lazy tables of names use it."""
    found = []
    for module, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text())):
            is_call = isinstance(node, ast.Call) and module not in LAZY
            if is_call and ast.unparse(node.func).split(".")[-1] in ("import_module", "__import__", "run_module"):
                outside = isinstance(node.args[0], ast.Constant) and not str(node.args[0].value).startswith("jbpool")
                if not outside:
                    found.append(f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)}")
    assert not found, "\n".join(found)


def test_scripts_and_tasks_are_not_imported():
    files = (path for folder in ("scripts", "tests", "tasks") for path in (ROOT / folder).rglob("*.py"))
    others = {"tasks", "scripts", "tests", *(path.stem for path in files)}
    for path in FILES:
        assert not outside(path.read_text()) & others, path


def test_auto_is_a_library():
    """It knows no configuration, run folder or report; the estimator and what it needs no configuration and engine."""
    for edge in package_imports():
        if edge.source.startswith("jbpool.clustering.auto"):
            assert not edge.target.startswith(("jbpool.engine", "jbpool.report", "jbpool.clustering.config")), edge
        if edge.source.removeprefix("jbpool.clustering.") in ("estimator", "explain", "report", "scores", "picture"):
            assert not edge.target.startswith(("jbpool.engine", "jbpool.clustering.config")), edge


GUESTS = {"dgl", "torch_geometric", "anndata"}
DOORS = ("jbpool.interop", "jbpool.data.own.")            # the only modules that may know them


def test_graph_libraries_come_in_by_the_door():
    """DGL, PyG and AnnData are imported nowhere but where their graphs come in and go out, and only when one does."""
    for module, path in MODULES.items():
        tree = ast.parse(path.read_text())
        if not module.startswith(DOORS):
            assert not outside(path.read_text()) & GUESTS, path
        top = [node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
        if module != "jbpool.data.own.dgl_bin":             # runs in a process of its own
            assert not outside("\n".join(ast.unparse(node) for node in top)) & GUESTS, path


WITHOUT_GUESTS = """
import sys
for name in ("dgl", "torch_geometric"):
    sys.modules[name] = None                            # importing it raises an ImportError
import torch
from jbpool import Graph, JBClustering, JBPool
from jbpool.cli import classify, cluster
ring = torch.tensor([[i, (i + 1) % 20] for i in range(20)]).T
graph, pool = Graph(torch.cat([ring, ring.flip(0)], dim=1)), JBPool(4, 2)
pool(graph, torch.rand(20, 4)).loss.backward()
assert pool.mlp[0].weight.grad.abs().sum() > 0
assert len(JBClustering(n_clusters=2).fit_predict([(i, (i + 1) % 20) for i in range(20)])) == 20
from jbpool.errors import INSTALL_DGL
for leave, fix in ((graph.to_dgl, INSTALL_DGL), (graph.to_pyg, "pip install 'jbpool[pyg]'")):
    try:
        leave()
    except ValueError as error:
        assert fix in str(error), error
for command, settings in (
    (cluster, ["dataset.num_nodes=120", "train.epochs=2"]),
    (classify, ["dataset.num_graphs=30", "train.epochs=1", "train.folds=2", "model.hidden=8", "model.compare=[]"]),
):
    assert command([part for setting in settings for part in ("--set", setting)]) == 0
"""


def test_everything_runs_without_graph_libraries(tmp_path):
    """Both default tasks, the estimator and a training step of the layer."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    result = subprocess.run(
        [sys.executable, "-c", WITHOUT_GUESTS], env=env, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr


OWN = sorted(path for folder in ("jbpool", "tests", "scripts", "tasks") for path in (ROOT / folder).rglob("*.py"))


def test_names_of_modules():
    """No module shadows the standard library, and none is a catch-all such as utils."""
    for path in OWN:
        name = path.parent.name if path.name == "__init__.py" else path.stem
        assert name not in {"utils", "util", "helpers", "common", "misc"}, path
        assert name not in sys.stdlib_module_names or name == "__main__", path


ABOUT_NO_MODULE = {                             # tests of the whole package, of its files, or of what runs it
    "architecture", "browser", "devices", "docstrings", "documents", "fuzz", "gpu", "new_processes", "scores",
    "scripts", "several_processes", "stops", "suite", "theorems", "wheel",
}  # fmt: skip


def test_files_of_tests_are_named_after_modules():
    """``tests/<folder>/test_<module>.py``: what is tested of a module is found at once."""
    tests = ROOT / "tests"
    for path in sorted(tests.rglob("test_*.py")):
        name = path.stem.removeprefix("test_")
        module = PACKAGE / path.relative_to(tests).with_name(name)
        assert name in ABOUT_NO_MODULE or module.is_dir() or module.with_suffix(".py").is_file(), path


# ---------------------------------------------------------------- what an import loads


def test_the_layer_loads_only_the_layer():
    """Nothing of the tasks, and no other graph library."""
    code = "import sys, torch; before = set(sys.modules)\n"
    code += "import jbpool; from jbpool import JBPool, Graph, objectives, value_checks\n"
    code += "print(*{name.split('.')[0] for name in set(sys.modules) - before})"
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    result = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    added = set(result.stdout.split())
    assert "jbpool" in added
    others = {"pandas", "sklearn", "ogb", "torchmetrics", "tqdm", "yaml", "networkx", "filelock", *GUESTS}
    assert added & others == set()


KARATE = "import networkx; JBClustering(2, random_state=0).fit_predict(networkx.karate_club_graph())"
CLUSTER = "from jbpool import cli; assert cli.cluster(['--cfg', 'file', '--set', 'dataset.edges=edges.csv']) == 0"
OTHER_METHODS = {f"jbpool.clustering.{name}" for name in ("embed.spectral", "embed.walks")}
HEAVY = {"dgl", "ogb", "torchmetrics", "sympy", "torch._dynamo", "matplotlib", "sklearn", "scipy.stats"}


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import jbpool", {"torch", "numpy", "scipy", "pandas", *HEAVY}),
        ("from jbpool import JBPool", {"scipy", "pandas", *HEAVY}),
        ("from jbpool import JBClustering", {"pandas", *HEAVY}),
        (f"from jbpool import JBClustering; {KARATE}", {"pandas", *HEAVY}),
        ("import jbpool.clustering.node_cluster", {*OTHER_METHODS, *HEAVY}),
        (CLUSTER, HEAVY),                                               # pandas reads the file
    ],
)
def test_heavy_modules_are_not_loaded(code, absent, tmp_path):
    """Each takes a good part of the time of torch: an optimiser of torch loads torch._dynamo and sympy."""
    (tmp_path / "edges.csv").write_text("a,b\nb,c\nc,a\nc,d\nd,e\ne,f\nf,d\n")
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    code = f"import sys; {code}; print(*sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True, cwd=tmp_path
    )
    loaded = set(result.stdout.split())
    assert "jbpool" in loaded
    assert loaded & absent == set()


# ---------------------------------------------------------------- this test itself


@pytest.mark.parametrize(
    ("source", "module", "is_package", "line"),
    [
        ("import os\nfrom jbpool.nn.pools import JBPool", "jbpool.ops.segment", False, 2),
        ("def f():\n    import jbpool.clustering.run", "jbpool.classification.run", False, 2),
        ("if TYPE_CHECKING:\n    from ..engine import config", "jbpool.data.datasets", False, 2),
        ("from .. import cli", "jbpool.engine", True, 1),
        ("from jbpool import JBPool", "jbpool.data.datasets", False, 1),
        ("from jbpool.report import page", "jbpool.engine.fit", False, 1),
    ],
)
def test_a_forbidden_import_is_found(source, module, is_package, line):
    (edge,) = read_imports(source, module, is_package, set(MODULES))
    assert edge.line == line
    assert forbidden(edge)


def test_outside_imports_are_found():
    source = "import os.path\nfrom scripts.compare import write\nfrom . import x\ndef f():\n    import tests.zoo"
    assert outside(source) == {"os", "scripts", "tests"}


def test_a_cycle_is_found():
    pairs = [("a", "b"), ("b", "c"), ("c", "b"), ("p", "p.x"), ("p.x", "p")]
    edges = [Import(source, target, line=1) for source, target in pairs]
    assert cycles(edges) == ["b -> c -> b", "p -> p.x -> p"]
