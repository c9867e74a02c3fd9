"""Readouts against a loop over graphs."""

from dataclasses import replace

import pytest
import torch
from torch.autograd import gradcheck

from jbpool.ops.segment import READOUTS, graph_max, make_segments

NAIVE = {"mean": lambda rows: rows.mean(0), "sum": lambda rows: rows.sum(0), "max": lambda rows: rows.amax(0)}


@pytest.mark.parametrize("kind", READOUTS)
def test_against_a_loop_over_graphs(kind, device):
    sizes = [3, 0, 40, 1, 0]
    rows = torch.randn(44, 5, dtype=torch.float64, device=device, requires_grad=True)
    segments = make_segments(sizes, rows)
    out = READOUTS[kind](rows, segments)
    expected = [NAIVE[kind](part) if len(part) else part.new_zeros(5) for part in rows.split(sizes)]
    torch.testing.assert_close(out, torch.stack(expected))
    assert gradcheck(lambda x: READOUTS[kind](x, segments), (rows,))


@pytest.mark.parametrize("kind", READOUTS)
def test_graphs_of_equal_size_need_no_index(kind, device):
    rows = torch.randn(12, 5, dtype=torch.float64, device=device)
    segments = make_segments([4, 4, 4], rows)
    packed, equal = (READOUTS[kind](rows, of) for of in (segments, replace(segments, equal=4)))
    torch.testing.assert_close(packed, equal)


def test_rows_that_share_a_maximum_share_its_gradient(device):
    rows = torch.tensor([[2.0, 1.0], [2.0, 5.0], [0.0, 4.0], [7.0, 7.0]], device=device, requires_grad=True)
    (grad,) = torch.autograd.grad(graph_max(rows, make_segments([3, 1], rows)).sum(), rows)
    assert grad.tolist() == [[0.5, 0], [0.5, 1], [0, 0], [1, 1]]


@pytest.mark.parametrize("kind", READOUTS)
def test_a_nan_stays_in_its_graph(kind, device):
    rows = torch.ones(4, 1, device=device)
    rows[0] = float("nan")
    out = READOUTS[kind](rows, make_segments([2, 2], rows))
    assert out[0].isnan().all()
    assert out[1].isfinite().all()


@pytest.mark.parametrize("kind", ["mean", "sum"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_sums_in_half_precision_are_rounded_once(kind, dtype):
    """A sum of many halves stops growing, and that of a mean is beyond the largest number."""
    rows = torch.full((9000, 1), 10.0, dtype=dtype) if kind == "mean" else torch.ones(5000, 1, dtype=dtype)
    segments = make_segments([len(rows) - 1, 1], rows)
    expected = READOUTS[kind](rows.double(), segments)
    torch.testing.assert_close(READOUTS[kind](rows, segments), expected.to(dtype), rtol=0, atol=0)
