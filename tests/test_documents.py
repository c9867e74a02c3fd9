"""The code in the documentation runs."""

import dataclasses
import re
from pathlib import Path

import dgl
import pytest
import torch
from zoo import random_graph

from jbpool.classification.task import GRAPH_CLASSIFY
from jbpool.clustering.run import load_data, run
from jbpool.clustering.task import NODE_CLUSTER
from jbpool.engine.config import load_config
from jbpool.engine.strict import read_yaml

ROOT = Path(__file__).parent.parent


def python_blocks(document):
    return re.findall(r"```python\n(.*?)```", (ROOT / document).read_text(), flags=re.DOTALL)


def test_readme_estimator_runs(capsys):
    code, _ = python_blocks("README.md")
    exec(code, {})
    found = dict(line.split() for line in capsys.readouterr().out.splitlines())
    assert found.keys() == {str(node) for node in range(34)}            # members of the karate club
    assert set(found.values()) == {"0", "1"}


def test_readme_layer_trains():
    _, code = python_blocks("README.md")
    assert len([line for line in code.splitlines() if line.strip()]) <= 12
    space = {}
    exec(code, space)
    model = space["Classifier"](6, 3)
    batch = dgl.batch([random_graph(n, 2 * n, seed=n) for n in (5, 12, 30)])
    out, loss = model(batch, torch.randn(batch.num_nodes(), 6))
    assert out.shape == (3, 3)
    (torch.nn.functional.cross_entropy(out, torch.tensor([0, 1, 2])) + loss).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


def test_the_pool_of_the_contributing_guide_works():
    (code,) = python_blocks("CONTRIBUTING.md")
    space = {}
    exec(code, space)
    pooled = space["CutCollapsePool"](4, 3)(random_graph(20, 40), torch.randn(20, 4))
    assert set(pooled.losses) == {"cut", "collapse"}
    pooled.loss.backward()


def test_the_three_lines_for_a_graph_of_one_s_own(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (lines,) = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / "data.md").read_text(), flags=re.DOTALL)
    assert len(lines.strip().splitlines()) == 3
    (tmp_path / "mine.yaml").write_text(lines)
    graph = random_graph(60, 200)
    edges = zip(*(end.tolist() for end in graph.edges()), strict=True)
    (tmp_path / "edges.csv").write_text("\n".join(f"n{a},n{b}" for a, b in edges))
    config = load_config(NODE_CLUSTER, "mine.yaml")
    out = run(config, load_data(config), tmp_path / "run", torch.device("cpu"))
    assert out.runs[0]["used_clusters"] > 1
    features = "\n".join(f"n{i},{i},1" for i in range(60))
    (tmp_path / "features.csv").write_text(features)
    (tmp_path / "labels.csv").write_text("\n".join(f"n{i},{i % 2}" for i in range(60)))
    exec(python_blocks("docs/data.md")[0], {})


def test_the_estimator_of_the_clustering_page_runs(capsys):
    (code,) = python_blocks("docs/clustering.md")
    exec(code, {})
    assert len(capsys.readouterr().out.splitlines()) == 77          # characters of Les Miserables


DOCUMENTS = sorted(p.relative_to(ROOT).as_posix() for p in (*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")))


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document):
    for target in re.findall(r"\]\((?!https?://)([^)#]+)", (ROOT / document).read_text()):
        assert (ROOT / document).parent.joinpath(target).exists(), target


def documented_defaults(task):
    """Key -> default, from the table of settings. The section is named once in a row: `model.layers`, `hidden`."""
    text = (ROOT / "docs" / f"{task}.md").read_text()
    rows = text.split("| key | default | meaning |\n|---|---|---|\n")[1].split("\n\n")[0].splitlines()
    for row in rows:
        keys, defaults = row.split(" | ")[:2]
        names, values = re.findall(r"`([\w.]+)`", keys), re.split(r", (?![^\[]*\])", defaults)
        assert len(names) == len(values), keys
        section = names[0].partition(".")[0]
        for name, value in zip(names, values, strict=True):
            yield name if "." in name else f"{section}.{name}", value


@pytest.mark.parametrize("task", [NODE_CLUSTER, GRAPH_CLASSIFY], ids=lambda task: task.name)
def test_documented_defaults_are_those_of_the_dataclasses(task):
    defaults = task.schema()
    documented = dict(documented_defaults(task.name))
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
