"""The code in the documents runs as it stands there."""

import re
from pathlib import Path

import dgl
import pytest
import torch
from zoo import random_graph

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


@pytest.mark.parametrize("document", sorted(p.relative_to(ROOT).as_posix() for p in ROOT.glob("*.md")))
def test_links_lead_somewhere(document):
    for target in re.findall(r"\]\((?!https?://)([^)#]+)", (ROOT / document).read_text()):
        assert (ROOT / document).parent.joinpath(target).exists(), target
