"""The edge weights of the pooled graph."""

import torch
from torch.autograd import gradcheck

from jbpool.ops.coarsen import normalized_off_diagonal


def naive(adj):
    adj = adj - torch.diag_embed(adj.diagonal(dim1=-2, dim2=-1))
    degree = adj.sum(-1)
    return adj / (degree.unsqueeze(-1) * degree.unsqueeze(-2)).sqrt()


def test_value_and_gradient_also_where_the_matrix_is_not_symmetric(device):
    adj = torch.rand(3, 4, 4, dtype=torch.float64, device=device, requires_grad=True)
    assert torch.allclose(normalized_off_diagonal(adj), naive(adj))
    assert gradcheck(normalized_off_diagonal, adj)
    probe = torch.rand(3, 4, 4, dtype=torch.float64, device=device)
    ours, theirs = (torch.autograd.grad((f(adj) * probe).sum(), adj)[0] for f in (normalized_off_diagonal, naive))
    assert torch.allclose(ours, theirs)


def test_a_cluster_without_edges_has_no_weights_and_finite_gradients(device):
    adj = torch.rand(1, 3, 3, device=device)
    adj[:, 1, [0, 2]] = adj[:, [0, 2], 1] = 0
    adj.requires_grad_()
    weight = normalized_off_diagonal(adj)
    assert weight[0, 1].tolist() == [0, 0, 0] == weight[0, :, 1].tolist()
    weight.sum().backward()
    assert adj.grad.isfinite().all()
