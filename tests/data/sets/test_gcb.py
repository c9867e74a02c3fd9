"""The benchmark for graph pooling: published files, and the generator against them and a naive oracle."""

import io
import zipfile

import numpy as np
import pytest
import scipy.sparse
import torch

from jbpool.data import DataError, load_graphs
from jbpool.data.catalogue import GCB
from jbpool.data.sets import gcb
from jbpool.data.sets.gcb import nearest_neighbours

EASY = {"k": 5, "spread": 0.4}


def pair_counts(data):
    """Mean over graphs of the number of edges between two kinds of nodes, for each class: ``(3, 5, 5)``."""
    graph = torch.arange(len(data)).repeat_interleave(data.num_edges)
    first = (data.sizes.cumsum(0) - data.sizes)[graph]
    kind = data.feat.argmax(1)
    counts = torch.zeros(3, 5, 5)
    counts.index_put_(
        (data.label[graph], kind[data.source + first], kind[data.target + first]), torch.ones(()), accumulate=True
    )
    return counts / data.label.bincount()[:, None, None]


@pytest.mark.parametrize("name", ["gcb-easy-small", "gcb-hard-small"])
def test_the_small_files_and_the_generator_agree(shared, name):
    real = load_graphs(name, root=shared)
    counts = GCB[name].counts
    assert [len(part) for part in real.split()] == list(counts)
    assert torch.cat(list(real.split())).tolist() == list(range(300))
    assert real.label.bincount().tolist() == [100, 100, 100]
    assert (real.feat.sum(1) == 1).all()
    sim = load_graphs("gcb-sim", num_graphs=600, max_nodes=80, **(EASY if "easy" in name else {}))
    assert len(sim.feat) / 600 == pytest.approx(len(real.feat) / 300, rel=0.03)
    assert len(sim.source) / 600 == pytest.approx(len(real.source) / 300, rel=0.03)
    # Which kinds are adjacent in which class: most edges within a region, a few between regions.
    assert torch.allclose(pair_counts(sim), pair_counts(real), rtol=0.12, atol=0.4)


@pytest.mark.parametrize(("options", "nodes", "edges"), [({}, 148.3, 572.3), (EASY, 147.8, 922.7)])
def test_the_generator_has_the_published_mean_counts(options, nodes, edges):
    data = load_graphs("gcb-sim", num_graphs=300, **options)
    assert len(data.feat) / len(data) == pytest.approx(nodes, rel=0.03)
    assert len(data.source) / len(data) == pytest.approx(edges, rel=0.03)
    assert data.label.bincount().tolist() == [100, 100, 100]
    assert (int(data.sizes.min()), int(data.sizes.max())) == (99, 198)


def test_nearest_neighbours_against_a_naive_search():
    points = np.random.default_rng(0).standard_normal((40, 2))
    expected = set()
    for i, point in enumerate(points):
        others = sorted((np.sum((point - other) ** 2), j) for j, other in enumerate(points) if j != i)
        for _, j in others[:3]:
            expected |= {(i, j), (j, i)}
    source, target = nearest_neighbours(points, 3)
    assert sorted(zip(source.tolist(), target.tolist(), strict=True)) == sorted(expected)


def test_the_class_is_where_the_regions_are():
    """The three regions are the same in all classes; their places are permuted cyclically."""
    rng = np.random.default_rng(0)
    for order in gcb.ORDERS:
        points, kind = gcb._regions(rng, 400, gcb.PLACES[list(order)], 0.2)
        regions = (((0, 1), (0.5, 0.25)), ((2, 3), (0, 0)), ((4,), (0, 0)))
        for (kinds, centre), place in zip(regions, order, strict=True):
            mean = points[np.isin(kind, kinds)].mean(0)
            assert np.allclose(mean, gcb.PLACES[place] + centre, atol=0.1)
        distance = np.linalg.norm(points - gcb.PLACES[order[1]], axis=1)
        assert distance[kind == 2].max() <= distance[kind == 3].min()       # inner and outer half


def test_bad_options():
    for option, value in (("k", 0), ("max_nodes", 5), ("spread", -1.0), ("num_graphs", 0)):
        with pytest.raises(ValueError, match=option):
            load_graphs("gcb-sim", **{option: value})


def npy(array):
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


def objects(entries):
    array = np.empty(len(entries), dtype=object)
    array[:] = entries
    return array


@pytest.fixture
def write(tmp_path):
    """A file in the layout of the benchmark: two graphs in each part, with changes."""

    def write(**changes):
        members = {}
        for part in gcb.PARTS:
            matrix = scipy.sparse.csr_matrix(np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]], dtype=np.float32))
            members[f"{part}_adj"] = npy(objects([matrix, matrix[:2, :2]]))
            members[f"{part}_feat"] = npy(objects([np.eye(5, dtype=np.float32)[:3], np.eye(5, dtype=np.float32)[:2]]))
            members[f"{part}_class"] = npy(np.eye(3, dtype=np.float32)[1:])
        path = tmp_path / "gcb.npz"
        with zipfile.ZipFile(path, "w") as archive:
            for key, content in (members | changes).items():
                if content is not None:
                    archive.writestr(f"{key}.npy", content)
        return path

    return write


def test_a_file_is_read_in_the_order_of_its_parts(write):
    arrays = gcb.read_gcb(write(val_class=npy(np.eye(3, dtype=np.float32)[:2])))
    assert arrays["sizes"].tolist() == [3, 2] * 3
    assert arrays["num_edges"].tolist() == [4, 2] * 3
    assert arrays["source"].tolist() == [0, 1, 1, 2, 0, 1] * 3
    assert arrays["label"].tolist() == [1, 2, 0, 1, 1, 2]
    assert arrays["counts"].tolist() == [2, 2, 2]


class Evil:
    def __reduce__(self):
        return print, ("this must not run",)


@pytest.mark.parametrize(
    "changes",
    [
        {"tr_adj": None}, {"tr_adj": npy(objects([Evil()]))}, {"tr_adj": b"not an array"},
        {"te_feat": npy(objects([np.eye(5)[:2], np.eye(5)[:2]]))}, {"te_feat": npy(objects([np.eye(5)[:3]]))},
        {"te_feat": npy(np.full((2, 3, 5), "a"))}, {"te_feat": npy(np.array(0))}, {"te_class": npy(np.eye(3))},
        {"te_class": npy(np.zeros((2, 3), dtype="V4"))},
    ],
)  # fmt: skip
def test_a_wrong_file_is_an_error_that_names_it(write, capsys, changes):
    with pytest.raises(DataError, match=r"gcb\.npz"):
        gcb.read_gcb(write(**changes))
    assert "must not run" not in capsys.readouterr().out


def test_wrong_counts_are_noticed(write, tmp_path):
    (tmp_path / "gcb").mkdir()
    write().rename(tmp_path / "gcb" / "hard.npz")
    with pytest.raises(DataError, match=r"\(2, 2, 2\).*\(1451, 159, 190\)"):
        load_graphs("gcb-hard", root=tmp_path)
