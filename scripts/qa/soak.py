"""Kill runs at random moments, fill their disk, start them twice, train for long: every run ends as an unbroken one.

    python scripts/qa/soak.py                          # about ten minutes on two cores
    python scripts/qa/soak.py --kills 100 --seed 1

Kills come after a random amount of processor time inside training, inside the writing of a file, or inside the report,
never before the first training step. Full and read-only disks are real ones (tmpfs), which needs root. After each, the
run is continued by ``--resume`` and its scores, history, weights and predictions are compared with those of an unbroken
run, bit by bit. Prints a table and exits with 1 if there was a failure.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import numpy as np  # noqa: E402
from commands import CASES, Case, assert_same_weights, numbers  # noqa: E402
from soak_process import PHASES, STEPS, die_after, measure, spoil_at, watch_memory  # noqa: E402

GROWTH = 8                      # MB that the memory of a process may grow over STEPS, after the first fifth
SETTINGS = {
    "node_cluster": ("train.seeds=[0, 1]", "train.restarts=2", "train.epochs=60", "train.eval_every=5"),
    "graph_classify": ("train.epochs=4",),
}
FORK = multiprocessing.get_context("fork")      # the imports are not paid again


# ---------------------------------------------------------------- runs


class Run:
    """A command in a process of its own."""

    def __init__(
        self, case: Case, folder: Path, *more: str, changes: tuple[str, ...] = (), prepare: Any = None
    ) -> None:
        self.errors = Path(tempfile.mkstemp(suffix=".txt", dir=Path.cwd())[1])
        settings = case.arguments(*SETTINGS[case.task.name], *changes)
        arguments = [*settings, "--device", "cpu", "--out", str(folder), *more]
        self.process = FORK.Process(target=self._main, args=(case, arguments, prepare))
        self.process.start()

    def _main(self, case: Case, arguments: list[str], prepare: Any) -> None:
        with open(self.errors, "w") as out, contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(out):
            if prepare is not None:
                prepare()
            code = case.command(arguments)
        sys.exit(code)

    def wait(self) -> tuple[int, list[str]]:
        """Return the exit code, and what was printed to standard error without progress bars."""
        self.process.join()
        lines = self.errors.read_text().replace("\x1b[A", "\n").replace("\r", "\n").splitlines()
        return self.process.exitcode or 0, [line for line in lines if line.strip() and "|" not in line]


def finished(run: Run) -> None:
    code, messages = run.wait()
    assert code == 0, f"exit code {code}: {messages}"


def assert_same(case: Case, one: Path, other: Path) -> None:
    """Check that scores, history, weights and predictions are equal."""
    assert numbers(one) == numbers(other), "scores differ"
    assert_same_weights(one, other)
    rows = [(folder / "history.csv").read_text() for folder in (one, other)]
    assert rows[0] == rows[1], "history.csv differs"
    with np.load(one / case.predictions) as first, np.load(other / case.predictions) as second:
        assert set(first) == set(second), "other arrays"
        assert all(np.array_equal(first[key], second[key]) for key in first), f"{case.predictions} differs"
    assert (other / "report.html").is_file(), "no report"


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """Yield a file system of its own; needs root."""
    disk = folder / "disk"
    disk.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", disk], check=True)
    try:
        yield disk
    finally:
        subprocess.run(["umount", disk], check=True)


# ---------------------------------------------------------------- campaigns: each yields (what, problem or "")


def attempt(check: Callable[[], None]) -> str:
    """Return the problem of a check; empty if there is none."""
    try:
        check()
    except AssertionError as error:
        return str(error) or "differs from the unbroken run"
    return ""


def kills(case: Case, whole: Path, folder: Path, count: int, rng: Random, used: Any) -> Iterator[tuple[str, str]]:
    for number in range(count):
        phase = PHASES[number % len(PHASES)]
        seconds = rng.random() * used[PHASES.index(phase)]
        broken = folder / f"killed-{number}"

        def check(broken: Path = broken, phase: str = phase, seconds: float = seconds) -> None:
            code, messages = 0, [""]
            for _ in range(5):                          # a run that is quicker than the unbroken one escapes
                code, messages = Run(case, broken, prepare=partial(die_after, phase, seconds)).wait()
                if code:
                    break
                shutil.rmtree(broken)
                seconds /= 2
            assert code in (-signal.SIGPROF, -signal.SIGKILL), f"exit code {code}: {messages}"
            finished(Run(case, broken, "--resume"))
            assert_same(case, whole, broken)

        yield f"killed while {phase}", attempt(check)
        shutil.rmtree(broken, ignore_errors=True)


def spoiled(case: Case, whole: Path, folder: Path, names: list[str], rng: Random) -> Iterator[tuple[str, str]]:
    if os.geteuid() != 0:
        yield "full and read-only disks: SKIPPED, needs root", ""
        return
    last = {"starting": [0], "training": [], "finishing": [], "reporting": [len(names) - 1]}
    for number, name in enumerate(names[1:-1], start=1):
        last["training" if name == "checkpoint.pt" else "finishing"].append(number)
    for how in ("full", "read-only"):
        for phase, places in last.items():
            number = rng.choice(places)

            def check(number: int = number, how: str = how) -> None:
                with small_disk(folder) as disk:
                    code, messages = Run(case, disk / "run", prepare=lambda: spoil_at(number, disk, how)).wait()
                    subprocess.run(["mount", "-o", "remount,rw", disk], check=True)
                    (disk / "filler").unlink(missing_ok=True)
                    assert code == (1 if number else 2), f"exit code {code}: {messages}"
                    assert len(messages) == 1, messages
                    assert "cannot be written" in messages[0], messages
                    assert not list(disk.rglob("*.part")), "a partial file is left"
                    finished(Run(case, disk / "run", *(["--resume"] if (disk / "run").exists() else [])))
                    assert_same(case, whole, disk / "run")

            yield f"disk {how} while {phase}", attempt(check)


def twice(case: Case, whole: Path, folder: Path) -> Iterator[tuple[str, str]]:
    """Start two runs with different settings into one folder at the same moment; yield what is wrong."""
    for number, more in enumerate(((), ("--resume",))):
        shared = folder / f"shared-{number}"

        def check(shared: Path = shared, more: tuple[str, ...] = more) -> None:
            if more:
                shutil.copytree(whole, shared)
                (shared / "finished.pt").unlink()
            runs = [Run(case, shared, *more), Run(case, shared, *more, changes=() if more else ("train.lr=1e-5",))]
            ends = [run.wait() for run in runs]
            codes = sorted(code for code, _ in ends)
            assert codes[0] == 0, f"exit codes {ends}"
            assert codes[1] == 2, f"both ended with {codes}"
            assert all(len(messages) == 1 for code, messages in ends if code), ends
            if ends[0][0] == 0:
                assert_same(case, whole, shared)

        yield f"two runs at once{' with --resume' if more else ''}", attempt(check)


def long_run(case: Case, folder: Path) -> Iterator[tuple[str, str]]:
    sizes = FORK.Array("d", 100)
    epochs = STEPS if case.task.name == "node_cluster" else STEPS // 2
    changes = ("train.seeds=[0]", f"train.epochs={epochs}", f"train.eval_every={epochs // 20}")
    more = ("train.restarts=1",) if case.task.name == "node_cluster" else ("model.compare=[]",)
    grown = [0.0]

    def check() -> None:
        finished(Run(case, folder / "long", changes=(*changes, *more), prepare=lambda: watch_memory(sizes)))
        assert min(sizes[:]) > 0, f"fewer than {STEPS} steps"
        grown[0] = max(sizes[80:]) - max(sizes[15:25])
        assert grown[0] < GROWTH, f"memory grew by {grown[0]:.0f} MB"

    problem = attempt(check)
    yield f"{STEPS:,} steps: memory grew by {grown[0]:.1f} MB", problem


def unbroken(case: Case, folder: Path) -> tuple[Any, list[str]]:
    """Run without a stop; return processor time by phase, and the files in the order they were written."""
    used = FORK.Array("d", len(PHASES))
    listing = folder.with_name("written.txt")

    def prepare() -> None:
        measure(used)
        replace = os.replace

        def logged(part: Path, target: Path) -> None:
            replace(part, target)
            with open(listing, "a") as file:
                print(target.name, file=file)

        os.replace = logged                             # type: ignore[assignment]

    finished(Run(case, folder, prepare=prepare))
    return used, listing.read_text().split()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20, help="per task")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--task", action="append", choices=CASES, help="only this task")
    parser.add_argument("--part", action="append", choices=("kills", "disks", "two runs", "long run"), help="only this")
    args = parser.parse_args()
    rows: Counter[tuple[str, str]] = Counter()
    failures = 0
    for name in args.task or CASES:
        case, rng = CASES[name], Random(f"{name} {args.seed}")
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
            os.chdir(folder)
            whole = folder / "whole"
            used, names = unbroken(case, whole)
            campaigns = {
                "kills": kills(case, whole, folder, args.kills, rng, used),
                "disks": spoiled(case, whole, folder, names, rng),
                "two runs": twice(case, whole, folder),
                "long run": long_run(case, folder),
            }
            for what, problem in chain(*(campaigns[part] for part in args.part or campaigns)):
                rows[name, what] += 1
                failures += bool(problem)
                print(f"{name}, {what}: {f'FAILED: {problem}' if problem else 'passed'}", flush=True)
            os.chdir(ROOT)
    print("| task | what | times |\n|---|---|---|")
    for (name, what), count in rows.items():
        print(f"| {name} | {what} | {count} |")
    print(f"{sum(rows.values())} runs, {failures} failures")
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
