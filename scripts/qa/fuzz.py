"""Damage valid inputs of every kind, read them, and check every outcome.

    python scripts/qa/fuzz.py                                   # 10,000 mutants
    python scripts/qa/fuzz.py --count 1000 --seed 7 --jobs 2    # fewer, others, in two processes
    python scripts/qa/fuzz.py --kind csv --kind "npy, npz"      # some kinds of input
    python scripts/qa/fuzz.py --kind csv --seed 7 --only 123    # one mutant again

``tests/damaged_inputs.py`` has the kinds of input and says what is a failure; here also a crash, a warning, more than
10 s of processor time, or 1 GB more memory. A mutant that failed stays in its folder. The mutants of a seed are the
same on every machine with the same versions. Exits with 1 if there was a failure.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import logging
import multiprocessing
import os
import resource
import shutil
import signal
import sys
import traceback
import warnings
from collections import Counter, deque
from multiprocessing.connection import wait
from pathlib import Path
from random import Random
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import torch  # noqa: E402
from damaged_inputs import KINDS, read_mutant  # noqa: E402

SECONDS = 10                    # of processor time per mutant
PATIENCE = 120                  # seconds until a process that does not even react to that is ended
MEGABYTES = 1024                # of memory, beyond what was imported
CHUNK = 500                     # mutants per process


class TooSlow(BaseException):   # no code may catch it as an error of a file
    """A mutant that takes too long."""


def read_chunk(name: str, seed: int, numbers: range, folder: Path) -> None:
    """Read some mutants, in a process of its own; one line of ``folder/outcomes`` for each."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + (MEGABYTES << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    torch.set_num_threads(1)                                    # others did not survive the fork
    signal.signal(signal.SIGPROF, _too_slow)
    os.environ.update(XDG_CACHE_HOME=str(folder / "cache"), JBPOOL_DATA=str(folder / "cache"))
    logging.disable()
    warnings.simplefilter("error")                              # of this package, as in its tests
    for category in (DeprecationWarning, FutureWarning, UserWarning):
        warnings.filterwarnings("ignore", category=category, module="dgl.*")
    for number in numbers:
        mutant, place = KINDS[name].mutant(Random(f"{name} {seed} {number}")), folder / str(number)
        began = sum(os.times()[:4])                             # with child processes
        faulthandler.dump_traceback_later(PATIENCE, exit=True)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            message = read_mutant(KINDS[name], mutant, place)
            result = "accepted" if message is None else "refused"
        except (Exception, TooSlow):
            result, message = "failed", f"{place} {' '.join(mutant.changes)!a}\n{traceback.format_exc()}"
        signal.setitimer(signal.ITIMER_PROF, 0)
        with open(folder / "outcomes", "a") as outcomes:
            print(json.dumps([result, message, sum(os.times()[:4]) - began]), file=outcomes)
        if result != "failed":
            shutil.rmtree(place)


def _too_slow(*_: Any) -> None:
    raise TooSlow(f"more than {SECONDS} s of processor time")


def campaign(kinds: dict[str, range], seed: int, jobs: int, folder: Path) -> dict[str, list[tuple[str, str, float]]]:
    """Read the mutants with these numbers of each kind; returns result, message and seconds of each."""
    fork = multiprocessing.get_context("fork")                  # the imports are not paid again
    for name in kinds:
        KINDS[name].mutant(Random(0))                           # writes the valid inputs
    chunks = deque((name, all_[start : start + CHUNK]) for name, all_ in kinds.items()
                   for start in range(0, len(all_), CHUNK))  # fmt: skip
    outcomes: dict[str, list[tuple[str, str, float]]] = {name: [] for name in kinds}
    running: dict[int, tuple[Any, str, Path]] = {}
    while chunks or running:
        while chunks and len(running) < jobs:
            name, numbers = chunks.popleft()
            place = folder / f"{name.replace(', ', '-').replace(' ', '-')}-{numbers.start}"
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir(parents=True)
            (place / "outcomes").touch()
            process = fork.Process(target=read_chunk, args=(name, seed, numbers, place))
            process.start()
            running[process.sentinel] = process, name, place
        for sentinel in wait(list(running)):
            process, name, place = running.pop(sentinel)        # type: ignore[arg-type]
            process.join()
            found = [tuple(json.loads(line)) for line in (place / "outcomes").read_text().splitlines()]
            if process.exitcode:
                last = place / str(int(place.name.rpartition("-")[2]) + len(found))
                found.append(("failed", f"{last}\nthe process ended with {process.exitcode}", PATIENCE))
            for message in (message for result, message, _ in found if result == "failed"):
                plain = "\n".join(line.encode("unicode_escape").decode() for line in message.splitlines())
                print(f"FAILED, {name}: {plain}\n", flush=True)
            if not any(result == "failed" for result, *_ in found):
                shutil.rmtree(place)
            outcomes[name] += found
    return outcomes


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000, help="mutants of all kinds together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--kind", action="append", choices=KINDS, help="only this kind of input (may be repeated)")
    parser.add_argument("--out", type=Path, default=Path("runs/fuzz"), help="folder of the mutants that fail")
    parser.add_argument("--only", type=int, metavar="NUMBER", help="one mutant of --kind")
    args = parser.parse_args()
    total = sum(kind.share for kind in KINDS.values())
    kinds = {name: range(max(1, round(args.count * KINDS[name].share / total))) for name in args.kind or KINDS}
    if args.only is not None:
        kinds = {name: range(args.only, args.only + 1) for name in kinds}
    outcomes = campaign(kinds, args.seed, args.jobs, args.out.resolve())
    print("| input | mutants | accepted | refused | failed | longest, s |\n|---|---|---|---|---|---|")
    outcomes["all"] = [outcome for found in outcomes.values() for outcome in found]
    for name, found in outcomes.items():
        results = Counter(result for result, *_ in found)
        cells = len(found), results["accepted"], results["refused"], results["failed"]
        print(f"| {name} | {' | '.join(map(str, cells))} | {max(seconds for *_, seconds in found):.1f} |")
    return int(any(result == "failed" for result, *_ in outcomes["all"]))


if __name__ == "__main__":
    sys.exit(main())
