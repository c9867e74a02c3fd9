"""The trace of the matrix square root: values, gradient, precision, for both algorithms."""

import math
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.autograd import gradcheck

from jbpool.ops.matrix_sqrt import roots_by_eigh, roots_by_products, trace_sqrt

BOTH = pytest.mark.parametrize("roots", [roots_by_eigh, roots_by_products])


def nuclear(S):
    """Nuclear norm and its gradient by an SVD of S itself."""
    U, sigma, Vh = torch.linalg.svd(S, full_matrices=False)
    return sigma.sum(), U @ Vh


def near_uniform(n, K, distance, device):
    """Rows that sum to one, at most ``distance`` from 1/K."""
    noise = torch.randn(n, K, dtype=torch.float64, device=device)
    noise = noise - noise.mean(1, keepdim=True)
    return 1 / K + distance * noise / noise.abs().max()


@BOTH
@pytest.mark.parametrize(("n", "K"), [(50, 1), (50, 2), (200, 7), (100, 32), (300, 64)])
def test_against_svd(roots, n, K, device):
    S = torch.randn(n, K, dtype=torch.float64, device=device).softmax(1)
    gram = (S.T @ S)[None]
    value, gradient = nuclear(S)
    trace, root = roots(gram)
    assert torch.allclose(trace[0], value, rtol=1e-9)
    assert torch.allclose(S @ root[0], gradient, atol=1e-8)


@BOTH
@pytest.mark.parametrize("distance", [1e-4, 1e-5, 1e-6])
@pytest.mark.parametrize(("n", "K"), [(60, 3), (100, 4), (300, 16), (2000, 7), (500, 32)])
def test_full_gradient_next_to_uniform(roots, distance, n, K, device):
    S = near_uniform(n, K, distance, device)
    _, gradient = nuclear(S)
    mine = S @ roots((S.T @ S)[None])[1][0]
    assert (mine - gradient).norm() < 0.01 * gradient.norm()


@BOTH
@pytest.mark.parametrize(("smallest", "K"), [(1e-4, 4), (1e-5, 7), (3e-6, 16)])
def test_gradient_of_a_decaying_spectrum(roots, smallest, K, device):
    """Singular values spaced evenly on a log scale, down to a fraction of the largest."""
    U, _ = torch.linalg.qr(torch.randn(400, K, dtype=torch.float64, device=device))
    V, _ = torch.linalg.qr(torch.randn(K, K, dtype=torch.float64, device=device))
    S = U * torch.logspace(0, math.log10(smallest), K, dtype=torch.float64, device=device) @ V.T
    _, gradient = nuclear(S)
    mine = S @ roots((S.T @ S)[None])[1][0]
    assert (mine - gradient).norm() < 0.01 * gradient.norm()


@BOTH
@pytest.mark.parametrize("K", [1, 2, 3, 5, 8, 40])
def test_a_nan_stays_in_its_own_matrix(roots, K, device):
    gram = torch.eye(K, dtype=torch.float64, device=device).repeat(3, 1, 1)
    gram[1, 0, 0] = float("nan")
    trace, root = roots(gram)
    assert trace.isnan().tolist() == [False, True, False]
    assert root[1].isnan().any()
    assert torch.allclose(root[::2], gram[::2])


@BOTH
@pytest.mark.parametrize(("n", "K"), [(1, 8), (5, 16), (3, 32), (10, 15)])
def test_fewer_nodes_than_clusters(roots, n, K, device):
    S = torch.randn(n, K, dtype=torch.float64, device=device).softmax(1)
    value, gradient = nuclear(S)
    trace, root = roots((S.T @ S)[None])
    assert torch.allclose(trace[0], value, rtol=1e-12 if roots is roots_by_eigh else 1e-7)
    noise = 1e-6 if roots is roots_by_eigh else 1e-3                    # in the null space
    assert (S @ root[0] - gradient).abs().max() < noise


@BOTH
def test_zero_matrices_and_empty_clusters_stay_finite(roots, device):
    diagonals = torch.tensor([[0.0, 0, 0], [4, 0, 0], [4, 4, 4], [1e-300, 0, 0]], dtype=torch.float64, device=device)
    gram = torch.diag_embed(diagonals)
    trace, root = roots(gram)
    assert root.isfinite().all()
    assert trace.tolist() == pytest.approx([0, 2, 6, 0], abs=1e-9)


def test_gradient_where_eigenvalues_are_equal(device):
    """Backward through eigh is infinite at the identity; the closed form is not."""
    gram = torch.eye(4, dtype=torch.float64, device=device)[None].requires_grad_()
    trace_sqrt(gram).sum().backward()
    assert torch.allclose(gram.grad, gram.detach() / 2)


@pytest.mark.parametrize(("n", "K"), [(9, 4), (2, 4), (3, 8), (10, 15)])
def test_gradcheck(n, K, device):
    """Also with fewer nodes than clusters, where the root of the noise in the null space used to be in the trace."""
    if n < K and device.type != "cpu":
        pytest.skip("products of matrices leave noise of 1e-10 in the trace")
    S = torch.randn(2, n, K, dtype=torch.float64, device=device, requires_grad=True)
    assert gradcheck(lambda S: trace_sqrt(S.mT @ S), (S,))


def test_eigh_shared_out_among_threads_is_eigh(monkeypatch):
    rows = torch.rand(50, 9, 5, dtype=torch.float64)
    gram = rows.mT @ rows
    alone = roots_by_eigh(gram[:10])[1]
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    shared = roots_by_eigh(gram)[1]
    assert torch.equal(shared[:10], alone)
    assert torch.allclose(shared @ shared @ gram, torch.eye(5, dtype=torch.float64).expand_as(gram))


ROOT = Path(__file__).parents[2]
FORK = """
import multiprocessing, torch
from jbpool.ops.matrix_sqrt import _eigh

torch.set_num_threads(2)
gram = torch.eye(3, dtype=torch.float64).repeat(64, 1, 1)
_eigh(gram)                                                     # the threads of this process
process = multiprocessing.get_context("fork").Process(target=_eigh, args=(gram,))
process.start()
process.join(30)
code = process.exitcode
process.kill()
assert code == 0
"""


def test_eigh_works_in_a_forked_process():
    """Forked from a new process: that of the tests has further threads, which may hold a lock of MKL at that moment."""
    printed = subprocess.run(
        [sys.executable, "-c", FORK], cwd=ROOT, capture_output=True, text=True, timeout=90, check=False
    )
    assert printed.returncode == 0, printed.stderr
