"""Bounded heads on fixed features: several starts trained as one product, row block by row block.

Head r assigns node i to cluster k by the cosine to its prototype, ``S = softmax(<x_i, w_k> / temperature)`` with unit
vectors x and w. The loss and its gradient need the nodes only through sums over rows, so that S is never held for all
nodes: one pass over the blocks gives the Gram matrices, a second one the gradient. A head has K x D numbers, for which
a sample of the nodes is enough: heads are trained on it and applied to all nodes.

Every process has some rows and the whole sample. The processes divide the starts, and what is summed over rows.
"""

from __future__ import annotations

import torch
from torch import Tensor

from jbpool.nn.heads import spread_rows, unit_rows
from jbpool.ops.matrix_sqrt import trace_and_inverse_sqrt
from jbpool.processes import ALONE, RowShares

BLOCK = 2**18           # entries of S per block, all starts together: a block stays in the cache
KEPT = 2**24            # entries of S kept between the two passes; beyond that they are computed twice
CANDIDATES = 20_000     # nodes that initial prototypes are chosen from
TRAIN_NODES = 2**16     # nodes that heads are trained on; they are applied to all
TEMPERATURE = 0.2       # logits lie between -5 and 5
EPOCHS = 60             # steps of the optimiser
BETAS = 0.9, 0.999      # of Adam


class Heads:
    """R bounded heads with K clusters each, from initial prototypes ``(R, K, D)``; see ``spread_nodes``."""

    def __init__(self, prototypes: Tensor):
        self.prototypes = prototypes.clone()

    def losses(self, feat: Tensor, shares: RowShares = ALONE) -> Tensor:
        """Return the balance loss of every head on unit rows, of all processes: ``(n, D)`` to ``(R,)``."""
        return self._pass(feat, with_gradient=False, shares=shares)[0]

    def gradient(self, feat: Tensor) -> tuple[Tensor, Tensor]:
        """Return the losses ``(R,)``, and the gradient of each with respect to its prototypes, ``(R, K, D)``."""
        losses, grad = self._pass(feat, with_gradient=True)
        unit = unit_rows(self.prototypes)
        along = (grad * unit).sum(-1, keepdim=True)                                 # the length has no influence
        return losses, (grad - along * unit) / self.prototypes.norm(dim=-1, keepdim=True).clamp_min(1e-12)

    def _pass(self, feat: Tensor, with_gradient: bool, shares: RowShares = ALONE) -> tuple[Tensor, Tensor]:
        """Return ``-Tr(sqrt(S^T S)) / sqrt(N K)``, and its gradient by ``dL/dS = -S (S^T S)^(-1/2) / sqrt(N K)``.

        Not by ``objectives.balance_loss``, whose autograd would hold S of all nodes; the roots are the same function.
        """
        weight = unit_rows(self.prototypes) / TEMPERATURE                      # (R, K, D)
        num_heads, num_clusters, _ = weight.shape
        keep = with_gradient and feat.shape[0] * num_heads * num_clusters <= KEPT
        gram = torch.zeros(num_heads, num_clusters, num_clusters, dtype=torch.float64, device=feat.device)
        blocks, kept = _row_blocks(feat, weight), []
        for block in blocks:
            soft = self._soft(block, weight)                                        # (R, K, n)
            wide = soft.double()
            gram += wide @ wide.mT
            if keep:
                kept.append(soft)
        trace, root = trace_and_inverse_sqrt(shares.add_up(gram))                   # (R,), (R, K, K)
        best = (shares.total(feat.shape[0]) * num_clusters) ** 0.5
        grad = torch.zeros(weight.shape, dtype=torch.float64, device=feat.device)   # a sum over many blocks
        if with_gradient:
            slope = (-root / best).to(feat.dtype)
            for number, block in enumerate(blocks):
                soft = kept[number] if keep else self._soft(block, weight)
                pull = slope @ soft                                                 # (R, K, n)  dL/dS
                pull -= (soft * pull).sum(1, keepdim=True)
                grad += (pull.mul_(soft).flatten(0, 1) @ block).view_as(grad)       # through the softmax
        return -(trace / best).to(feat.dtype), grad.to(feat.dtype) / TEMPERATURE

    def clusters(self, feat: Tensor) -> Tensor:
        """Return the cluster of every node by every head: ``(N, D)`` to ``(R, N)``."""
        weight = unit_rows(self.prototypes)                                         # (R, K, D)
        return torch.cat([self._soft(block, weight).argmax(1) for block in _row_blocks(feat, weight)], dim=1)

    def _soft(self, block: Tensor, weight: Tensor) -> Tensor:
        """Return the softmax over clusters, nodes last: ``(n, D)`` and ``(R, K, D)`` to ``(R, K, n)``."""
        soft = (weight.flatten(0, 1) @ block.T).unflatten(0, weight.shape[:2])
        soft.exp_()
        return soft.mul_(soft.sum(1, keepdim=True).reciprocal_())


def _row_blocks(feat: Tensor, weight: Tensor) -> tuple[Tensor, ...]:
    return feat.split(max(256, BLOCK // max(1, weight.shape[0] * weight.shape[1])))


def spread_nodes(feat: Tensor, num_clusters: int, num_heads: int, generator: torch.Generator) -> Tensor:
    """Return initial prototypes ``(R, K, D)``: for each head K nodes far from each other, as k-means++ draws them.

    ``feat``: ``(N, D)`` unit rows; rows of zeros are never chosen.
    """
    device = feat.device
    some = RowShares.alone(len(feat)).sample(CANDIDATES, generator)
    feat = feat[some.to(device)].cpu()                          # where the generator is
    return torch.stack([spread_rows(feat, num_clusters, generator) for _ in range(num_heads)]).to(device)


@torch.no_grad()
def lloyd(feat: Tensor, prototypes: Tensor, steps: int = 10) -> Tensor:
    """Take spherical k-means steps: move every prototype ``(R, K, D)`` to the mean direction of its nodes.

    ``feat``: ``(N, D)`` unit rows. Prototypes have length one afterwards; one without nodes stays.
    """
    prototypes = unit_rows(prototypes)
    for _ in range(steps):
        total = torch.zeros_like(prototypes)                                        # (R, K, D)
        for block in _row_blocks(feat, prototypes):
            cosine = (prototypes.flatten(0, 1) @ block.T).unflatten(0, prototypes.shape[:2])       # (R, K, n)
            onehot = (cosine == cosine.amax(1, keepdim=True)).to(block.dtype)      # argmax takes ten times as long
            total += onehot @ block
        prototypes = torch.where((total != 0).any(-1, keepdim=True), unit_rows(total), prototypes)
    return prototypes


def train_heads(heads: Heads, feat: Tensor, steps: int, lr: float = 1e-2) -> Tensor:
    """Minimise the loss of every head by Adam; they do not influence each other. Returns: the final losses ``(R,)``.

    Adam is written out, because constructing the class of torch imports its compiler, which takes as long as torch.
    """
    mean = torch.zeros_like(heads.prototypes)
    square = torch.zeros_like(mean)
    for step in range(1, steps + 1):
        _, grad = heads.gradient(feat)
        mean.lerp_(grad, 1 - BETAS[0])
        square.lerp_(grad.square(), 1 - BETAS[1])
        root = (square / (1 - BETAS[1] ** step)).sqrt_().add_(1e-8)
        heads.prototypes -= lr / (1 - BETAS[0] ** step) * mean / root
    return heads.losses(feat)


def trained_heads(
    rows: Tensor,
    num_clusters: int,
    starts: int,
    generator: torch.Generator,
    shares: RowShares = ALONE,
    epochs: int = EPOCHS,
) -> tuple[Heads, Tensor]:
    """Train heads from several starts: k-means++ nodes, a few k-means steps, then the balance loss.

    ``rows``: ``(n, D)`` unit rows; rows of zeros take no part, and of many rows a sample is trained on. The generator
    is in the same state in every process. Returns the heads, and their losses over the rows of all processes, ``(R,)``,
    the same in every process.
    """
    present = (rows != 0).any(1)
    if not bool(present.all()):
        rows = rows[present]
    known = shares.with_rows(len(rows))
    some = known.chosen(rows, known.sample(TRAIN_NODES, generator).to(rows.device))
    prototypes = spread_nodes(some, num_clusters, starts, generator)                # (R, K, D)
    heads = Heads(lloyd(some, prototypes[shares.place :: shares.processes]))
    losses = shares.in_turn(train_heads(heads, some, epochs), starts)
    heads = Heads(shares.in_turn(heads.prototypes, starts))
    return heads, losses if len(some) == known.num_rows else heads.losses(rows, shares)


def hard_clusters(heads: Heads, rows: Tensor, shares: RowShares = ALONE) -> Tensor:
    """Return the cluster of every node by every head, ``(R, n)``; nodes whose row is zero join the largest cluster."""
    clusters, present = heads.clusters(rows), (rows != 0).any(1)
    num_clusters = heads.prototypes.shape[1]
    sizes = torch.stack([cluster[present].bincount(minlength=num_clusters) for cluster in clusters])    # (R, K)
    return torch.where(present, clusters, shares.add_up(sizes).argmax(1, keepdim=True))
