"""Sums, products and readouts of each graph against loops over graphs."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch.autograd import gradcheck, gradgradcheck

from jbpool import value_checks
from jbpool.ops import segment
from jbpool.ops.segment import (
    READOUTS,
    contingency,
    graph_max,
    make_segments,
    segment_gram,
    segment_norm,
    segment_products,
    segment_sum,
)

SIZES = st.lists(st.integers(0, 70), min_size=1, max_size=12)


def split(rows, sizes):
    return torch.split(rows, list(sizes))


@settings(deadline=None, max_examples=60)
@given(SIZES, st.integers(1, 9), st.integers(1, 5))
@example([0, 0], 2, 3)                                          # a batch without any node
def test_reductions_equal_a_loop_over_graphs(device, sizes, K, D):
    left, right = (torch.randn(sum(sizes), width, dtype=torch.float64, device=device) for width in (K, D))
    segments = make_segments(sizes, left)
    parts = list(zip(split(left, sizes), split(right, sizes), strict=True))
    assert torch.allclose(segment_sum(left, segments), torch.stack([a.sum(0) for a, _ in parts]))
    assert torch.allclose(segment_norm(left, segments), torch.stack([a.norm(dim=0) for a, _ in parts]))
    across, own = segment_products(left, (right, left), segments)
    assert torch.allclose(across, torch.stack([a.T @ b for a, b in parts]))
    assert torch.allclose(own, torch.stack([a.T @ a for a, _ in parts]))
    assert torch.allclose(segment_gram(left, segments), torch.stack([a.T @ a for a, _ in parts]))


@pytest.mark.parametrize("sizes", [[1], [300], [40, 1, 0, 33, 600], [0, 0, 5], [1] * 50])
def test_every_row_has_a_slot_of_its_own_in_a_chunk_of_its_graph(sizes, device):
    segments = make_segments(sizes, torch.empty(sum(sizes), 1, device=device))
    assert segments.slot.unique().numel() == sum(sizes)
    assert segments.slot.max() < segments.owner.numel() * segments.height
    assert torch.equal(segments.owner[segments.slot // segments.height], segments.member)


@pytest.mark.parametrize("large", [1, segment.LARGE])             # graphs one by one, or all in chunks
@pytest.mark.parametrize("sizes", [[3, 0, 40, 1], [44]])
def test_gradients(sizes, large, device, monkeypatch):
    monkeypatch.setattr(segment, "LARGE", large)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    left, right = (
        torch.randn(44, width, dtype=torch.float64, device=device, requires_grad=True) for width in (3, 2)
    )
    segments = make_segments(sizes, left)
    assert gradcheck(lambda a, b: segment_products(a, (b,), segments), (left, right))
    assert gradcheck(lambda a, b: segment_products(a, (b, a), segments), (left, right))
    assert gradcheck(lambda a: segment_gram(a, segments), (left,))
    assert gradcheck(lambda a: segment_norm(a, segments), (left,))
    assert gradcheck(lambda a: segment_sum(a, segments), (left,))
    assert gradgradcheck(lambda a: segment_sum(a.square(), segments), (left,))
    assert gradgradcheck(lambda a: segment_norm(a[:, :2] + 3, make_segments([len(a)], a)), (left,))


def test_several_threads_need_larger_graphs_to_take_them_one_by_one(monkeypatch):
    for threads, size, one_by_one in [(1, 127, False), (1, 128, True), (2, 1023, False), (2, 1024, True)]:
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        pieces = make_segments([size, size], torch.zeros(2 * size, 1)).pieces(500)
        assert (pieces is not None) == one_by_one


def test_large_graphs_equal_a_loop_over_graphs(device, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    sizes = [400, 0, 3, 700]
    left, right = (torch.randn(sum(sizes), width, dtype=torch.float64, device=device) for width in (4, 3))
    segments = make_segments(sizes, left)
    parts = list(zip(split(left, sizes), split(right, sizes), strict=True))
    assert (segments.pieces(500) is None) == (device.type != "cpu")
    assert torch.allclose(segment_sum(left, segments), torch.stack([a.sum(0) for a, _ in parts]))
    assert torch.allclose(segment_norm(left, segments), torch.stack([a.norm(dim=0) for a, _ in parts]))
    assert torch.allclose(segment_gram(left, segments), torch.stack([a.T @ a for a, _ in parts]))
    assert torch.allclose(segment_products(left, (right,), segments)[0], torch.stack([a.T @ b for a, b in parts]))


def test_a_large_graph_is_cut_into_blocks(monkeypatch, device):
    for block in ("CPU_BLOCK", "OTHER_BLOCK"):
        monkeypatch.setattr(segment, block, 0)                  # 256 rows each
    rows = torch.randn(1000, 3, dtype=torch.float64, device=device, requires_grad=True)
    gram = segment_gram(rows, make_segments(None, rows))[0]
    assert torch.allclose(gram, rows.T @ rows)
    weight = torch.randn(3, 3, dtype=torch.float64, device=device)
    (grad,) = torch.autograd.grad((gram * weight).sum(), rows)
    assert torch.allclose(grad, rows @ (weight + weight.T))


def test_what_is_not_finite_stays_in_its_graph(device):
    for value in (torch.inf, torch.nan):
        rows = torch.tensor([[1.0], [value], [2.0]], device=device)
        first, second = segment_sum(rows, make_segments([2, 1], rows)).flatten().tolist()
        assert not math.isfinite(first)
        assert second == 2


def test_the_norm_of_a_column_of_zeros_has_gradient_zero(device):
    rows = torch.tensor([[0.0, 3.0], [0.0, 4.0]], device=device, requires_grad=True)
    norm = segment_norm(rows, make_segments([2], rows))
    assert norm.tolist() == [[0, 5]]
    (grad,) = torch.autograd.grad(norm.sum(), rows, create_graph=True)
    assert torch.allclose(grad.cpu(), torch.tensor([[0.0, 0.6], [0.0, 0.8]]))
    (second,) = torch.autograd.grad(grad[0, 1], rows)
    assert torch.allclose(second.cpu(), torch.tensor([[0.0, 0.128], [0.0, -0.096]]))    # (1 - 0.36) / 5, -0.6 * 0.8 / 5


@pytest.mark.parametrize("sizes", [[2], [2, 0]])
def test_sums_and_norms_are_float64(sizes, device):
    rows = torch.tensor([[2.0**24], [1.0]], device=device)                     # the sum is not a float32 number
    segments = make_segments(sizes, rows)
    assert segment_sum(rows, segments)[0].item() == 2**24 + 1
    assert segment_sum(rows, segments).dtype == segment_norm(rows, segments).dtype == torch.float64
    rows = torch.tensor([[2.0**12], [1.0]], device=device)
    assert segment_norm(rows, segments)[0].item() == pytest.approx((2**24 + 1) ** 0.5, rel=1e-12)


def test_long_float32_sums_keep_their_digits(device):
    rows = torch.full((3_000_000, 1), 0.1, device=device)                      # summed in float32: 1 % error
    assert segment_sum(rows, make_segments(None, rows)).item() == pytest.approx(0.1 * 3e6, rel=1e-6)


@pytest.mark.parametrize("sizes", [[60, 40], [100]])
def test_gram_is_float64_and_keeps_no_float64_copy_for_backward(sizes, device):
    rows = torch.rand(100, 4, device=device, requires_grad=True)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x) or x, lambda x: x):
        gram = segment_gram(rows, make_segments(sizes, rows))
    assert gram.dtype == torch.float64
    assert [x.dtype for x in kept if x.numel() >= rows.numel()] == [torch.float32]
    gram.sum().backward()
    assert rows.grad.dtype == torch.float32


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ([3, 4], "add up to 7"),
        ([6, -1], "sizes holds -1"),
        (torch.tensor([5.0]), "whole numbers"),
        (torch.tensor([[5]]), "whole numbers"),
        ([], "whole numbers"),
        ("ab", "whole numbers"),
        ([1, None], "whole numbers"),
    ],
)
def test_wrong_sizes_are_rejected(sizes, words):
    with pytest.raises(ValueError, match=words):
        make_segments(sizes, torch.empty(5, 2))


def test_sizes_given_on_the_host_stay_known_there():
    """Also if the rows are on another device, which nothing is read from."""
    segments = make_segments([3, 1], torch.empty(4, 2, device="meta"))
    assert segments.counts == [3, 1]
    assert segments.sizes.is_meta
    with pytest.raises(ValueError, match="sizes add up to 5"):
        make_segments([3, 2], torch.empty(4, 2, device="meta"))


@pytest.mark.parametrize("some", [False, True])
def test_counts_of_pairs_are_those_of_a_loop(some):
    row, column = torch.tensor([0, 2, 2, 0, 2, 1]), torch.tensor([1, 0, 0, 3, 1, 1])
    counted = torch.tensor([True, True, False, True, True, False]) if some else None
    expected = torch.zeros(3, 4, dtype=torch.long)              # largest values + 1, also of pairs that do not count
    for number, (i, j) in enumerate(zip(row, column, strict=True)):
        expected[i, j] += counted is None or bool(counted[number])
    found = contingency(row, column, counted)
    assert found.shape == (3, 4)
    assert torch.equal(found, expected)


@pytest.mark.parametrize("sizes", [[1, 1, 1], [0, 17, 0, 1], [16, 33, 2]])
def test_sizes_that_may_not_be_read(sizes, device):
    """As on a GPU: the number of chunks is an upper bound then."""
    rows = torch.randn(sum(sizes), 3, dtype=torch.float64, device=device)
    expected = torch.stack([part.T @ part for part in split(rows, sizes)])
    with value_checks("none"):
        assert torch.allclose(segment_gram(rows, make_segments(torch.tensor(sizes), rows)), expected)


# ---------------------------------------------------------------- readouts


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
