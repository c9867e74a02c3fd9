"""Embeddings against naive versions of themselves."""

import torch
from torch.nn.functional import logsigmoid

from jbpool.embed.walks import NEGATIVES, WINDOW, skip_gram_loss


def test_skip_gram_loss_against_a_loop_over_pairs():
    torch.manual_seed(0)
    walks = torch.randint(30, (4, 20))
    walks[0, 9:] = -1                                       # a dead end
    node, context, other = torch.randn(30, 8), torch.randn(30, 8), torch.randint(30, (16,))
    values = []
    for walk in walks:
        for i, one in enumerate(walk):
            for j, two in enumerate(walk):
                if 0 < abs(i - j) <= WINDOW and one >= 0 and two >= 0:
                    far = logsigmoid(-(context[other] @ node[one])).mean()
                    values.append(logsigmoid(node[one] @ context[two]) + NEGATIVES * far)
    torch.testing.assert_close(skip_gram_loss(walks, node, context, other), -torch.stack(values).mean())
