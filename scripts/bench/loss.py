"""The balance loss alone, forward and backward, on one graph of growing size.

    python scripts/bench/loss.py [--largest 7] [--rounds 9] [--device cuda]

The baseline is the minimum work of any such loss: ``S.clone()`` and ``S.T @ S``, forward and backward.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial

import torch
from timing import add_device, chosen_device, peak_bytes, take_turns, write
from torch import Tensor


def author(assign: Tensor) -> Tensor:
    return -torch.trace(torch.sqrt(assign.T @ assign)) / (len(assign) * assign.shape[1]) ** 0.5


def svd(assign: Tensor) -> Tensor:
    return -torch.linalg.svdvals(assign).sum() / (len(assign) * assign.shape[1]) ** 0.5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--largest", type=int, default=7, help="the power of ten of the largest N")
    parser.add_argument("--rounds", type=int, default=9)
    add_device(parser)
    args = parser.parse_args()
    device = chosen_device(args)
    from jbpool.objectives import balance_loss

    rows, raw = [], []
    for power in range(4, args.largest + 1):
        for width in (4, 16, 64):
            if 10**power * width > 2 * 10**8:
                continue
            torch.manual_seed(0)
            assign = (3 * torch.randn(10**power, width, device=device)).softmax(-1).requires_grad_()
            losses = {
                "matrix": lambda assign=assign: balance_loss(assign).sum(),
                "diagonal": lambda assign=assign: balance_loss(assign, sqrt="diagonal").sum(),
                "author's formula": lambda assign=assign: author(assign),
                "svdvals": lambda assign=assign: svd(assign),
            }
            values = {name: loss().item() for name, loss in losses.items()}
            assert abs(values["matrix"] - values["svdvals"]) < 1e-4, values
            assert abs(values["diagonal"] - values["author's formula"]) < 1e-4, values

            def yardstick(assign=assign, width=width):
                copy = assign.detach().clone()
                copy.T @ copy                                   # forward
                copy @ copy.new_ones(width, width)              # backward

            def step(loss, assign=assign):
                loss().backward()
                assign.grad = None                              # no memory is kept between calls

            contestants: dict[str, Callable] = {"clone + S^T S": yardstick}
            for name, loss in losses.items():
                contestants[name] = partial(step, loss)
            if 10**power * width > 2 * 10**7:
                del contestants["svdvals"]                      # takes minutes
            times = take_turns(contestants, args.rounds, warm_up=1)
            base = times["clone + S^T S"].median
            memory = peak_bytes(contestants["matrix"]) / (assign.numel() * 4)
            cells = [f"{1e3 * t.median:.2f}, {t.median / base:.1f}x" for t in times.values()]
            cells += ["-"] * (5 - len(cells))
            rows.append([f"10^{power}", str(width), *cells, f"{memory:.1f}"])
            raw.append({"nodes": 10**power, "clusters": width, "memory over S": memory,
                        **{name: timing._asdict() for name, timing in times.items()}})  # fmt: skip
    head = ["N", "K", "clone + S^T S, ms", "matrix", "diagonal", "author's formula", "svdvals", "peak / S"]
    write("loss", "Forward and backward of the loss, medians and ratios to the baseline", head, rows, raw)


if __name__ == "__main__":
    main()
