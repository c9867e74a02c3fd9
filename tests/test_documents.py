"""The code in the documentation runs, or says why it does not and is checked as far as possible."""

import contextlib
import dataclasses
import inspect
import json
import os
import re
import runpy
import sys
import warnings
from pathlib import Path

import documents
import networkx
import pytest
import torch
from commands import ROOT, SHARED, call
from zoo import random_graph

import jbpool
from jbpool import JBPool, cli
from jbpool.classification.graph_classify import GRAPH_CLASSIFY
from jbpool.clustering.node_cluster import NODE_CLUSTER
from jbpool.engine.config import read_yaml

PAGES = documents.pages()
WITH_CODE = [page for page in PAGES if documents.blocks(page)]
RUN = [page for page in WITH_CODE if any(block.how == "run" for block in documents.blocks(page))]
SLOW = [page for page in WITH_CODE if any(block.how == "slow" for block in documents.blocks(page))]


# ---------------------------------------------------------------- what a page takes for granted


def prepare_layer(folder, space):
    """A pool, and a graph to apply it to."""
    graph = random_graph(20, 40)
    space |= {"jbpool": jbpool, "pool": JBPool(4, 3), "graph": graph, "feat": torch.randn(20, 4)}
    space["edge_weight"] = torch.ones(graph.num_edges)


def write_node_files(folder, edges, features, labels=None, num_nodes=60):
    """A graph in two groups, as CSV files."""
    graph = networkx.planted_partition_graph(2, num_nodes // 2, 0.3, 0.02, seed=0)
    (folder / edges).write_text("".join(f"n{a},n{b}\n" for a, b in graph.edges))
    rows = [f"n{i},{1 + i % 3},{2 * i // num_nodes},{(i * i) % 5}\n" for i in range(num_nodes)]
    (folder / features).write_text("".join(rows))
    if labels is not None:
        (folder / labels).write_text("".join(f"n{i},{2 * i // num_nodes}\n" for i in range(num_nodes)))


def prepare_data(folder, space):
    write_node_files(folder, "edges.csv", "features.csv", "labels.csv")
    graph = networkx.planted_partition_graph(2, 20, 0.4, 0.05, seed=0)
    for node, attributes in graph.nodes(data=True):
        attributes |= {"age": node % 7, "income": 100 * (node // 20), "city": "AB"[node // 20]}
    del graph.graph["partition"]                    # sets, which GraphML has not
    networkx.write_graphml(graph, folder / "people.graphml")


def prepare_runs(folder, space):
    """Two finished runs, and another graph."""
    write_node_files(folder, "edges.csv", "features.csv")
    write_node_files(folder, "new.csv", "new_features.csv", num_nodes=40)
    files = ["--set", "dataset.edges=edges.csv", "--set", "dataset.features=features.csv"]
    for name, clusters in (("RUN_DIR", 2), ("OTHER_RUN_DIR", 3)):
        change = ["--set", f"method.num_clusters={clusters}", "--set", "train.restarts=1"]
        call(cli.cluster, "--cfg", "file.yaml", *files, *change, "--out", name, cwd=folder)


def write_graph_folder(folder, name, number):
    """Small rings to classify, with three features, as CSV files."""
    (folder / name).mkdir()
    tables = {"graphs": ["graph,label\n"], "nodes": ["graph,node,a,b,c\n"], "edges": ["graph,source,target\n"]}
    for g in range(number):
        tables["graphs"].append(f"g{g},{'even' if g % 2 == 0 else 'odd'}\n")
        for node in range(size := 5 + g % 4):
            tables["nodes"].append(f"g{g},{node},{g % 2},{node % 3},1\n")
            tables["edges"].append(f"g{g},{node},{(node + 1) % size}\n")
    for table, lines in tables.items():
        (folder / name / f"{table}.csv").write_text("".join(lines))


def prepare_cells(folder, space):
    """The cells of the tutorial, where they are at hand."""
    for name in ("starmap_BY3_1k.h5ad", "Starmap_BY3_1k_meta_annotated_18oct22.csv"):
        if not (SHARED / "h5ad" / name).is_file():
            pytest.skip(f"no {name} in {SHARED}")
        (folder / name).symlink_to(SHARED / "h5ad" / name)


def prepare_use_trained(folder, space):
    """A finished run of each task, other graphs, and a batch of them."""
    prepare_runs(folder, space)
    (folder / "RUN_DIR").rename(folder / "CLUSTERING")
    for name in ("known", "new_graphs"):
        write_graph_folder(folder, name, 30)
    files = ["--set", "dataset.folder=known"]
    short = ["--set", "train.epochs=1", "--set", "train.folds=3", "--folds", "0"]
    call(cli.classify, "--cfg", "file.yaml", *files, *short, "--out", "CLASSIFIER", cwd=folder)
    space |= {"graph": random_graph(20, 40), "feat": torch.rand(20, 3)}


PREPARE = {
    "docs/reference/formats.md": prepare_data,
    "docs/howto/use_trained.md": prepare_use_trained,
    "docs/reference/layers.md": prepare_layer,
    "docs/reference/run_folder.md": prepare_runs,
    "docs/tutorials/cells.md": prepare_cells,
}


# ---------------------------------------------------------------- the blocks


OPTIONAL = {"dgl": "DGL", "anndata": "anndata"}


@contextlib.contextmanager
def named(page, block):
    """Errors name the page and the line. A page is skipped from the first import of an optional package on."""
    try:
        yield
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name in OPTIONAL:
            pytest.skip(f"{OPTIONAL[error.name]} is not installed")
        raise AssertionError(f"{page}, line {block.line}") from error


def run_page(page, kinds, folder, monkeypatch):
    monkeypatch.setenv("JBPOOL_DATA", str(SHARED))
    space = {"__name__": "__main__"}
    PREPARE.get(page, lambda *_: None)(folder, space)
    for block in documents.blocks(page):
        if block.how in kinds:
            with named(page, block):
                documents.run(block, folder, space)


@pytest.mark.parametrize("page", RUN)
def test_code_of_a_page_runs(page, tmp_path, monkeypatch):
    run_page(page, {"run"}, tmp_path, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("page", SLOW)
def test_slow_code_of_a_page_runs(page, tmp_path, monkeypatch):
    if not SHARED.is_dir():
        pytest.skip(f"no datasets in {SHARED}")
    run_page(page, {"run", "slow"}, tmp_path, monkeypatch)


@pytest.mark.parametrize("page", WITH_CODE)
def test_code_that_does_not_run_is_checked(page):
    for block in documents.blocks(page):
        if block.how not in ("run", "slow"):
            with named(page, block):
                documents.check(block)


def test_the_three_lines_for_a_graph_of_one_s_own(tmp_path):
    page = (ROOT / "docs" / "reference" / "formats.md").read_text()
    (lines,) = re.findall(r"```yaml\n(.*?)```", page, flags=re.DOTALL)
    assert len(lines.strip().splitlines()) == 3
    (tmp_path / "mine.yaml").write_text(lines)
    write_node_files(tmp_path, "edges.csv", "features.csv")
    call(cli.cluster, "--cfg", "mine.yaml", "--out", "run", cwd=tmp_path)
    assert len((tmp_path / "run" / "assign.csv").read_text().splitlines()) == 61


# ---------------------------------------------------------------- the notebook


def test_the_notebook_is_that_of_the_tutorial():
    script = runpy.run_path(str(ROOT / "scripts" / "draw" / "make_notebook.py"))
    expected = script["notebook"](script["PAGE"].read_text())
    assert json.loads(script["NOTEBOOK"].read_text()) == expected, "run python scripts/draw/make_notebook.py"


@pytest.mark.slow
def test_the_notebook_runs(tmp_path, monkeypatch):
    nbclient = pytest.importorskip("nbclient", reason="needs nbclient and ipykernel: make notebook-env")
    pytest.importorskip("ipykernel", reason="needs nbclient and ipykernel: make notebook-env")
    import nbformat  # of nbclient

    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    folder = tmp_path / "docs" / "tutorials"
    folder.mkdir(parents=True)
    (tmp_path / "scripts").symlink_to(ROOT / "scripts")
    notebook = nbformat.read(ROOT / "docs" / "tutorials" / "cluster_my_csv.ipynb", as_version=4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")                         # of Jupyter's own libraries
        nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folder)}}).execute()
    assert (tmp_path / "runs" / "mine" / "report.html").is_file()
    assert (tmp_path / "compare.html").is_file()                # commands after an exclamation mark may fail silently


# ---------------------------------------------------------------- links, settings


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?://)([^)#]+)", (ROOT / page).read_text()):
        assert (ROOT / page).parent.joinpath(target).exists(), target


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) < 100


FOR_USERS = [page for page in PAGES if page.startswith("docs/") and "/development/" not in page]


@pytest.mark.parametrize("page", FOR_USERS)
def test_pages_for_users_are_two_screens_long(page):
    """Tables of what was tried, bounds and machines belong to docs/development."""
    prose = documents.FENCE.sub("", (ROOT / page).read_text())
    assert len(prose) <= 7500                                   # some 100 lines of 75 characters
    assert [line for line in prose.splitlines() if line.startswith("|") and len(line) > 160] == []


def test_one_scheme():
    places = {Path(page).parent.name for page in PAGES if page.startswith("docs/")}
    assert places == {"docs", "tutorials", "howto", "reference", "explanation", "development"}
    assert sorted(path.name for path in (ROOT / "docs").glob("*.md")) == ["index.md", "install.md"]


def test_the_site_has_every_page():
    listed = set(re.findall(r"[\w/]+\.md", (ROOT / "mkdocs.yml").read_text()))
    assert listed == {page.removeprefix("docs/") for page in PAGES if page.startswith("docs/")}


def documented_defaults(place):
    """Key -> default, from a table of settings. The section is named once in a row: `model.layers`, `hidden`."""
    text = (ROOT / "docs/reference/configuration.md").read_text()
    rows = text.split("| key | default | meaning |\n|---|---|---|\n")[place].split("\n\n")[0].splitlines()
    for row in rows:
        keys, defaults = row.split(" | ")[:2]
        names, values = re.findall(r"`([\w.]+)`", keys), re.split(r", (?![^\[]*\])", defaults)
        assert len(names) == len(values), keys
        section = names[0].partition(".")[0]
        for name, value in zip(names, values, strict=True):
            yield name if "." in name else f"{section}.{name}", value


@pytest.mark.parametrize(("task", "place"), [(NODE_CLUSTER, 1), (GRAPH_CLASSIFY, 2)], ids=["cluster", "classify"])
def test_documented_defaults_are_those_of_the_dataclasses(task, place):
    defaults = task.schema()
    documented = dict(documented_defaults(place))
    for key, text in documented.items():
        section, _, name = key.partition(".")
        default = getattr(getattr(defaults, section), name)
        if default in (None, []) and text != "[]":
            assert text in ("none", "the classes"), (key, text)
        else:
            assert read_yaml(text.strip("`"), key) == default, (key, text)
    sections = [section for section in dataclasses.fields(defaults) if section.name != "task"]
    settings = {
        f"{section.name}.{item.name}"
        for section in sections
        for item in dataclasses.fields(getattr(defaults, section.name))
    }
    assert documented.keys() == settings - {"dataset.options"}


def public_names():
    """What users import or call on what they imported."""
    yield from {*jbpool.__all__, *jbpool.data.__all__} - {"select", "objectives"}
    for prefix, module in (("select.", jbpool.select), ("", jbpool.objectives)):
        for name, value in vars(module).items():
            gives = value.__annotations__.get("return") if inspect.isfunction(value) else None
            if gives == "Tensor" and value.__module__ == module.__name__ and not name.startswith("_"):
                yield prefix + name
    for owner in (jbpool.JBClustering, jbpool.Pooled):
        yield from (name for name in dir(owner) if not name.startswith("_") and not hasattr(torch.nn.Module, name))


def test_every_public_name_has_a_row_in_the_reference():
    pages = "".join(path.read_text() for path in (ROOT / "docs/reference").glob("*.md"))
    cells = [row.split(" | ")[0] for row in pages.splitlines() if row.startswith("| `")]
    listed = {name for cell in cells for name in re.findall(r"`([\w.]+)[`(]", cell)}
    assert set(public_names()) - listed == set()
