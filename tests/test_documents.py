"""The code in the documents runs as it stands there."""

import re
from pathlib import Path

import dgl
import pytest
import torch
from zoo import random_graph

from jbpool.clustering.run import load_data, run
from jbpool.clustering.task import NODE_CLUSTER
from jbpool.engine.config import load_config

ROOT = Path(__file__).parent.parent


def python_blocks(document):
    return re.findall(r"```python\n(.*?)```", (ROOT / document).read_text(), flags=re.DOTALL)


def test_readme_example_trains():
    (code,) = python_blocks("README.md")
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


def test_the_five_lines_for_a_graph_of_one_s_own(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (lines,) = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / "data.md").read_text(), flags=re.DOTALL)
    assert len(lines.strip().splitlines()) == 5
    (tmp_path / "mine.yaml").write_text(lines)
    graph = random_graph(60, 200)
    edges = zip(*(end.tolist() for end in graph.edges()), strict=True)
    (tmp_path / "edges.csv").write_text("\n".join(f"n{a},n{b}" for a, b in edges))
    config = load_config(NODE_CLUSTER, "mine.yaml", ["train.epochs=20"])
    out = run(config, load_data(config), tmp_path / "run", torch.device("cpu"))
    assert out.runs[0]["used_clusters"] > 1
    features = "\n".join(f"n{i},{i},1" for i in range(60))
    (tmp_path / "features.csv").write_text(features)
    (tmp_path / "labels.csv").write_text("\n".join(f"n{i},{i % 2}" for i in range(60)))
    exec(python_blocks("docs/data.md")[0], {})


DOCUMENTS = sorted(p.relative_to(ROOT).as_posix() for p in (*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")))


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document):
    for target in re.findall(r"\]\((?!https?://)([^)#]+)", (ROOT / document).read_text()):
        assert (ROOT / document).parent.joinpath(target).exists(), target
