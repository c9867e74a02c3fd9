"""The pictures of docs/explanation.

    python scripts/draw/explanation.py          # writes docs/pictures/*.svg, in about a minute

Every number that is drawn is computed here by the functions of the package. The pictures follow the light or dark
preference of the system.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch
from torch import Tensor

from jbpool import JBPool
from jbpool.clustering.auto.views import FixedFeatures
from jbpool.data import load_nodes
from jbpool.graph import Graph
from jbpool.nn.heads import unit_rows
from jbpool.objectives import balance_loss
from jbpool.ops.adjacency import smooth

ROOT = Path(__file__).resolve().parents[2]
COLOURS = ("blue", "orange", "green", "grey")
STYLE = """<style>
svg{--ink:#222;--blue:#2f66c9;--orange:#c2570c;--green:#1f8a5f;--grey:#777}
@media (prefers-color-scheme:dark){svg{--ink:#e4e4e4;--blue:#7ba7f7;--orange:#f0a35a;--green:#58c79a;--grey:#999}}
text{font:13px system-ui,sans-serif;fill:var(--ink)}.small{font-size:11.5px}.grid{stroke:var(--ink);stroke-opacity:.16}
.blue{stroke:var(--blue)}.orange{stroke:var(--orange)}.green{stroke:var(--green)}.grey{stroke:var(--grey)}
circle.blue,rect.blue,text.blue{fill:var(--blue);stroke:none}circle.orange,text.orange{fill:var(--orange);stroke:none}
circle.green,text.green{fill:var(--green);stroke:none}circle.grey,text.grey{fill:var(--grey);stroke:none}
path{fill:none;stroke-width:2.4}.dashed{stroke-dasharray:6 5}.frame{fill:none;stroke:var(--ink);stroke-opacity:.3}
</style>"""


def save(name: str, width: int, height: int, label: str, parts: Sequence[str]) -> None:
    path = ROOT / "docs" / "pictures" / name
    start = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    path.write_text(f'{start} role="img" aria-label="{label}">{STYLE}{"".join(parts)}</svg>\n')
    print(path.relative_to(ROOT))


def text(x: float, y: float, words: str, kind: str = "", anchor: str = "middle") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{kind}">{words}</text>'


def dot(x: float, y: float, group: int) -> str:
    return f'<circle class="{COLOURS[group]}" fill-opacity=".65" cx="{x:.1f}" cy="{y:.1f}" r="2.8"/>'


class Axes:
    """A panel with numbers on both axes; ``logarithmic`` is the scale of both."""

    def __init__(self, left: float, x_range: tuple[float, float], y_range: tuple[float, float], *, width: float = 280,
                 logarithmic: bool = False):
        self.left, self.top, self.width, self.height = left, 34.0, width, 210.0
        self.scale: Callable[[float], float] = math.log10 if logarithmic else float
        self.x_range, self.y_range = x_range, y_range

    def place(self, x: float, y: float) -> tuple[float, float]:
        def share(value: float, low: float, high: float) -> float:
            return (self.scale(value) - self.scale(low)) / (self.scale(high) - self.scale(low))

        return self.left + self.width * share(x, *self.x_range), self.top + self.height * (1 - share(y, *self.y_range))

    def frame(self, x_marks: dict[float, str], y_marks: dict[float, str], x_title: str, title: str) -> str:
        parts = [text(self.left + self.width / 2, 20, title)]
        right, bottom = self.left + self.width, self.top + self.height
        for value, mark in y_marks.items():
            y = self.place(self.x_range[0], value)[1]
            parts.append(f'<line class="grid" x1="{self.left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>')
            parts.append(text(self.left - 6, y + 4, mark, "small", "end"))
        for value, mark in x_marks.items():
            parts.append(text(self.place(value, self.y_range[0])[0], bottom + 17, mark, "small"))
        parts.append(text(self.left + self.width / 2, bottom + 37, x_title, "small"))
        return "".join(parts)

    def curve(self, x: Sequence[float], y: Sequence[float], kind: str) -> str:
        points = (self.place(a, min(max(b, self.y_range[0]), self.y_range[1])) for a, b in zip(x, y, strict=True))
        return f'<path class="{kind}" d="M{"L".join(f"{a:.1f} {b:.1f}" for a, b in points)}"/>'

    def note(self, x: float, y: float, words: str, kind: str, anchor: str = "start") -> str:
        return text(*self.place(x, y), words, f"small {kind}", anchor)


def loss(assign: Tensor, **options) -> float:
    return balance_loss(assign.double(), **options).item()


def hard(sizes: Sequence[int]) -> Tensor:
    """Return one-hot rows, ``sizes[k]`` of them in cluster k."""
    return torch.eye(len(sizes)).repeat_interleave(torch.tensor(sizes), dim=0)


def draw_assignments() -> None:
    """Draw five assignment matrices and their loss."""
    soft = 0.7 * hard([4, 4, 4]) + 0.1
    shown = {
        "uniform": torch.full((12, 3), 1 / 3), "all in one": hard([12, 0, 0]), "hard, unequal": hard([8, 2, 2]),
        "equal, less confident": soft, "hard and equal": hard([4, 4, 4]),
    }  # fmt: skip
    parts = []
    for i, (name, assign) in enumerate(shown.items()):
        left = 22 + 142 * i
        for row, values in enumerate(assign.tolist()):
            for column, value in enumerate(values):
                place = f'x="{left + 28 * column + 14}" y="{34 + 14 * row}" width="26" height="12" rx="2"'
                parts.append(f'<rect class="frame" {place}/><rect class="blue" {place} fill-opacity="{value:.2f}"/>')
        parts.append(text(left + 55, 20, name))
        parts.append(text(left + 55, 226, f"{loss(assign):.3f}"))
    save("assignments.svg", 730, 240, "five assignment matrices and their balance loss", parts)


def draw_sizes() -> None:
    """Draw the loss of two hard clusters, against the size of the first."""
    shares = [i / 200 for i in range(201)]
    splits = [hard([i, 200 - i]) for i in range(201)]
    equal = [loss(split) for split in splits]
    known = [loss(split, cluster_sizes=[0.8, 0.2]) for split in splits]
    axes = Axes(52, (0, 1), (-1.0, -0.4), width=420)
    marks = {-1.0: "-1", -0.8: "-0.8", -0.6: "-0.6", -0.4: "-0.4"}
    parts = [
        axes.frame({0: "0", 0.2: "0.2", 0.5: "0.5", 0.8: "0.8", 1: "1"}, marks,
                   "share of the nodes in the first of two clusters", "balance loss of hard clusters"),
        axes.curve(shares, equal, "blue"), axes.curve(shares, known, "orange"),
        axes.note(0.01, -0.98, "equal sizes", "blue"), axes.note(0.2, -0.62, "cluster_sizes = [0.8, 0.2]", "orange"),
    ]  # fmt: skip
    save("sizes.svg", 500, 292, "balance loss against the size of the first of two clusters", parts)


NAMES = {0: "features as given", 1: "one smoothing step", 3: "three smoothing steps"}


def draw_smoothing() -> None:
    """Draw two principal components of features, before and after smoothing."""
    data = load_nodes("sbm", num_nodes=300, num_clusters=3, feature_noise=0.8, mixing=0.15)
    assert data.feat is not None
    assert data.label is not None
    parts = []
    for i, (steps, name) in enumerate(NAMES.items()):
        smoothed = FixedFeatures(data.feat.shape[1], steps, weighting="none").fit(data.graph, data.feat)
        rows = unit_rows(smoothed @ torch.pca_lowrank(smoothed, 2, niter=8)[2])
        left = 10 + 245 * i
        parts.append(text(left + 115, 20, name))
        parts.append(f'<rect class="frame" x="{left}" y="32" width="230" height="230" rx="4"/>')
        generator = torch.Generator().manual_seed(0)
        spread = rows * (1 + 0.09 * torch.randn(len(rows), 1, generator=generator))     # unit rows lie on a circle
        for (x, y), label in zip((115 + 78 * spread).tolist(), data.label.tolist(), strict=True):
            parts.append(dot(left + x, 32 + y, label))
    save("smoothing.svg", 735, 272, "features before and after smoothing over the edges, coloured by class", parts)


def draw_root() -> None:
    """Draw both forms of the loss on two paths from uniform assignments."""
    num_clusters, steps = 4, [i / 60 for i in range(61)]
    uniform = torch.full((100, num_clusters), 1 / num_clusters)
    ends = {"from uniform to all in one": hard([100, 0, 0, 0]), "from uniform to equal clusters": hard([25] * 4)}
    parts = []
    for i, (title, end) in enumerate(ends.items()):
        axes = Axes(52 + 350 * i, (0, 1), (-1.0, -0.2))
        marks = {-1: "-1", -0.5: "-0.5", -0.25: "-0.25"}
        parts.append(axes.frame({0: "0", 0.5: "0.5", 1: "1"}, marks, "way along the path", title))
        for form, colour in (("matrix", "blue"), ("diagonal", "orange")):
            values = [loss((1 - t) * uniform + t * end, sqrt=form) for t in steps]
            parts.append(axes.curve(steps, values, colour))
        parts.append(axes.note(0.03, -0.22, "matrix root", "blue"))
        parts.append(axes.note(0.03, -0.66, "element-wise root", "orange"))
    save("root.svg", 700, 292, "both forms of the loss on two paths", parts)


def draw_precision() -> None:
    """Draw the error of the loss near uniform assignments, in float32 and float64."""
    generator = torch.Generator().manual_seed(0)
    direction = torch.randn(1000, 4, generator=generator, dtype=torch.float64)
    direction -= direction.mean(1, keepdim=True)
    distances = [10 ** (-8 + i / 8) for i in range(57)]
    errors: dict[str, list[float]] = {"float32": [], "float64": []}
    for distance in distances:
        assign = 0.25 + distance * direction
        exact = torch.linalg.svdvals(assign)[1:].sum().item()               # what distinguishes the clusters
        for kind, dtype in (("float32", torch.float32), ("float64", torch.float64)):
            gram = (assign.to(dtype).T @ assign.to(dtype)).double()
            found = torch.linalg.eigvalsh(gram).clamp_min(0).sqrt()[:-1].sum().item()
            errors[kind].append(max(abs(found - exact) / exact, 1e-10))
    axes = Axes(60, (1e-8, 1e-1), (1e-10, 1e4), width=420, logarithmic=True)
    marks = {1e-8: "1e-8", 1e-6: "1e-6", 1e-4: "1e-4", 1e-2: "1e-2"}
    parts = [
        axes.frame(marks, {1e-8: "1e-8", 1e-4: "1e-4", 1: "1", 1e4: "1e4"}, "distance of S from uniform",
                   "relative error of what tells clusters apart"),
        axes.curve(distances, errors["float32"], "orange"), axes.curve(distances, errors["float64"], "blue"),
        axes.note(2e-4, 3, "S&#7488;S in float32", "orange"),
        axes.note(2e-7, 1e-7, "S&#7488;S in float64", "blue", "end"),
    ]  # fmt: skip
    save("precision.svg", 510, 292, "error of the loss near uniform assignments", parts)


def draw_margin() -> None:
    """Draw a good and a bad equal partition of the same points, and their loss under a bound on the logits."""
    generator = torch.Generator().manual_seed(0)
    blob = torch.arange(3).repeat_interleave(40)
    angle = blob * 2 * math.pi / 3 + 0.28 * torch.randn(120, generator=generator)
    points = torch.stack([angle.cos(), angle.sin()], dim=1)                 # (N, 2) of unit length
    order = (angle - angle.min()).remainder(2 * math.pi).argsort()
    shifted = torch.empty_like(blob)
    shifted[order.roll(20)] = torch.arange(3).repeat_interleave(40)         # parts that cut through every blob
    parts, bounds = [], [0.05 + i / 6 for i in range(91)]
    axes = Axes(470, (0, 15), (-1.0, -0.3), width=250)
    marks = {-1: "-1", -2 / 3: "-0.67", -1 / 3: "-0.33"}
    x_title = "largest possible logit, 1 / temperature"
    parts.append(axes.frame({0: "0", 5: "5", 10: "10", 15: "15"}, marks, x_title, "balance loss"))
    shown = (("separated groups", blob, "blue"), ("cut through groups", shifted, "orange"))
    for i, (name, part, colour) in enumerate(shown):
        left = 10 + 205 * i
        parts.append(text(left + 95, 20, name))
        parts.append(f'<rect class="frame" x="{left}" y="34" width="190" height="210" rx="4"/>')
        spread = points * (1 + 0.06 * torch.randn(120, 1, generator=generator))
        for (x, y), k in zip((95 + 76 * spread).tolist(), part.tolist(), strict=True):
            parts.append(dot(left + x, 44 + y, k))
        centres = torch.stack([points[part == k].mean(0) for k in range(3)])
        cosines = points @ torch.nn.functional.normalize(centres).T         # (N, 3)
        parts.append(axes.curve(bounds, [loss((bound * cosines).softmax(1)) for bound in bounds], colour))
        if i == 0:
            own = torch.nn.functional.one_hot(part).double()
            parts.append(axes.curve(bounds, [loss((bound * own).softmax(1)) for bound in bounds], "grey dashed"))
    parts.append(axes.note(4.2, -0.955, "separated", "blue"))
    parts.append(axes.note(6, -0.78, "cut through", "orange"))
    parts.append(axes.note(3, -0.45, "dashed: either, free logits", "grey"))
    save("margin.svg", 740, 292, "a good and a bad partition, and their loss under bounded logits", parts)


def train(feat: Tensor, graph: Graph, zero_start: bool = False) -> list[float]:
    """Train an MLP with four clusters on fixed features with rate 1e-3; return its losses."""
    torch.manual_seed(0)
    pool = JBPool(feat.shape[1], 4, (64,))
    if zero_start:
        for parameter in pool.mlp[-1].parameters():
            torch.nn.init.zeros_(parameter)
    optimiser = torch.optim.Adam(pool.parameters(), lr=1e-3)
    values = []
    for _ in range(300):
        value = pool.cluster(graph, feat)[1]["balance"].sum()
        optimiser.zero_grad()
        value.backward()
        optimiser.step()
        values.append(value.item())
    return values


def draw_collapse() -> None:
    """Draw training curves that end with four clusters, three, one, and no decision."""
    data = load_nodes("sbm", num_nodes=400, num_clusters=4)
    assert data.feat is not None
    centred = FixedFeatures(data.feat.shape[1], 3, weighting="none").fit(data.graph, data.feat)
    smoothed = data.feat.to_dense()
    for _ in range(3):
        smoothed = smooth(data.graph, smoothed, 0.5)
    runs = {
        ("green", "centred, unit length", 170, -0.925): (centred, False),
        ("blue", "unit length", 200, -0.79): (torch.nn.functional.normalize(smoothed), False),
        ("orange", "as given", 200, -0.45): (smoothed, False),
        ("grey", "last layer starts at zero", 150, -0.32): (centred, True),
    }
    axes = Axes(140, (0, 300), (-1.0, -0.2), width=430)
    ends = {4: -1.0, 3: -math.sqrt(3 / 4), 2: -math.sqrt(2 / 4), 1: -math.sqrt(1 / 4)}
    marks = {value: f"{used} of 4 clusters {value:.2f}" for used, value in ends.items()} | {-0.25: "uniform -0.25"}
    title = "balance loss while training, K = 4"
    parts = [axes.frame({0: "0", 100: "100", 200: "200", 300: "300"}, marks, "epoch", title)]
    for (colour, name, x, y), (feat, zero_start) in runs.items():
        parts += [axes.curve(range(300), train(feat, data.graph, zero_start), colour), axes.note(x, y, name, colour)]
    save("collapse.svg", 600, 292, "training curves with and without collapse", parts)


def main() -> None:
    for draw in (draw_assignments, draw_sizes, draw_smoothing, draw_root, draw_precision, draw_margin, draw_collapse):
        draw()


if __name__ == "__main__":
    main()
