"""Shared by the benchmarks: interleaved timing, medians and quartiles, a Markdown table and a JSON file."""

from __future__ import annotations

import argparse
import importlib.util
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))


class Timing(NamedTuple):
    """Median and quartiles in seconds."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{1e3 * self.median:.2f} ({1e3 * self.low:.2f}-{1e3 * self.high:.2f})"


def add_device(parser: argparse.ArgumentParser) -> None:
    """Add the option ``--device``."""
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"), help="cuda: times and memory of a GPU")


def chosen_device(args: argparse.Namespace) -> torch.device:
    """Return the device of ``--device``, if there is one."""
    import torch

    if args.device == "cuda" and not torch.cuda.is_available():
        print("--device cuda: torch sees no GPU here (docs/install.md).", file=sys.stderr)
        sys.exit(2)
    return torch.device(args.device)


def finish() -> None:
    """Wait for the GPU, if one is in use."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.synchronize()


def cpu_clock() -> Callable[[], float] | None:
    """Return the clock of this process, if it computes on one thread of the CPU."""
    torch = sys.modules.get("torch")
    alone = torch is not None and torch.get_num_threads() == 1 and not torch.cuda.is_initialized()
    return time.process_time if alone else None


def take_turns(
    contestants: Mapping[str, Callable[[], Any]],
    rounds: int = 15,
    warm_up: int = 3,
    clock: Callable[[], float] | None = None,
) -> dict[str, Timing]:
    """Time each contestant once per round, so that noise affects all of them equally; on a GPU until it is done.

    With one thread on the CPU (``OMP_NUM_THREADS=1``) it is the time of the processor, which is fair on a busy machine.
    """
    clock = clock or cpu_clock() or time.perf_counter
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(warm_up + rounds):
        for name, run in contestants.items():
            finish()
            began = clock()
            run()
            finish()
            if number >= warm_up:
                seconds[name].append(clock() - began)
    return {
        name: Timing(statistics.median(values), *statistics.quantiles(values, n=4)[::2])
        for name, values in seconds.items()
    }


def missing(*packages: str) -> list[str]:
    """Return the packages that are not installed; ``make bench-env`` installs them."""
    gone = [package for package in packages if importlib.util.find_spec(package) is None]
    if gone:
        print(f"without {', '.join(gone)}; make bench-env installs the other libraries.\n", file=sys.stderr)
    return gone


def peak_bytes(run: Callable[[], Any]) -> int:
    """Return the peak memory that torch allocates during a call, on the GPU if one is in use."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    run()
    if torch.cuda.is_initialized():
        finish()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        run()
        finish()
        return torch.cuda.max_memory_allocated() - before
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        run()
    held = most = 0
    for event in sorted(recorded.profiler.kineto_results.events(), key=lambda event: event.start_ns()):
        if event.name() == "[memory]" and event.device_type() == torch.autograd.DeviceType.CPU:
            held += event.nbytes()
            most = max(most, held)
    return most


DENSE = {"aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm"}
INSIDE = {"_Multiply": "sparse products", "_MultiplyBackward": "sparse products", "_TraceSqrt": "matrix root"}


class Spent(NamedTuple):
    """Share of time by kind of operation, the number of torch operations, and of all aten calls inside them."""

    shares: dict[str, float]
    operations: int
    calls: int

    def __str__(self) -> str:
        parts = [f"{kind} {share:.0%}" for kind, share in self.shares.items()]
        return ", ".join([*parts, f"{self.operations} operations ({self.calls} aten calls)"])


def profiled(run: Callable[[], Any], rounds: int = 10) -> Spent:
    """Return the time of products, the matrix root and the rest, by torch's profiler; for warmed-up calls.

    On a GPU it is the time of the kernels that an operation starts.
    """
    import torch
    from torch.profiler import ProfilerActivity, profile

    on_gpu = torch.cuda.is_initialized()
    with profile(activities=[ProfilerActivity.CPU, *[ProfilerActivity.CUDA] * on_gpu]) as recorded:
        for _ in range(rounds):
            run()
        finish()
    spent = dict.fromkeys(("dense products", *INSIDE.values(), "the rest"), 0.0)
    operations = calls = 0
    for event in recorded.events():
        if event.device_type != torch.autograd.DeviceType.CPU:          # a kernel, counted where it was started
            continue
        called = event.cpu_parent is not None and event.cpu_parent.name.startswith("aten::")      # by another operation
        calls += event.name.startswith("aten::")
        operations += event.name.startswith("aten::") and not called
        kind = "dense products" if event.name in DENSE else "the rest"
        parent = event
        while parent is not None:
            kind, parent = INSIDE.get(parent.name, kind), parent.cpu_parent
        spent[kind] += event.self_device_time_total if on_gpu else event.self_cpu_time_total
    whole = sum(spent.values())
    return Spent({kind: value / whole for kind, value in spent.items()}, operations // rounds, calls // rounds)


def write(name: str, title: str, head: list[str], rows: list[list[str]], raw: Any) -> None:
    """Print a Markdown table and write the results to runs/bench/<name>.json."""
    import torch

    gpu = torch.cuda.get_device_name() if torch.cuda.is_initialized() else None
    threads = "processor time of 1 thread" if cpu_clock() else f"{torch.get_num_threads()} threads"
    print(f"{title}; {gpu or threads}, torch {torch.__version__}\n")
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print()
    path = Path("runs", "bench", f"{name}.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    about = {"machine": platform.machine(), "gpu": gpu, "threads": torch.get_num_threads(), "torch": torch.__version__}
    path.write_text(json.dumps({**about, "rows": raw}, indent=2, default=str) + "\n")
