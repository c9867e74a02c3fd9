"""Mutate valid inputs of every kind, read them, and check every outcome.

    python scripts/qa/fuzz.py                                   # 10,000 mutants, about ten minutes on two cores
    python scripts/qa/fuzz.py --mutants 1000 --seed 7           # fewer, others
    python scripts/qa/fuzz.py --kind csv --only 123             # one mutant again, with its traceback

A mutant may be accepted, if what was read is consistent, or refused by a ``JBPoolError`` that names the file or
setting. Anything else is a failure: another exception, a warning, a crash, more than 10 s of processor time or 1 GB.
The mutants of a seed are the same on every machine with the same versions. Exits with 1 if there was a failure.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import os
import re
import resource
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, cast

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))         # scripts/compare.py
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
os.environ.setdefault("OMP_NUM_THREADS", "1")

import fuzz_files
import fuzz_pickles
import fuzz_runs
from fuzz_files import Kind
from tqdm import tqdm

from jbpool.errors import JBPoolError

KINDS: dict[str, Kind] = {**fuzz_runs.KINDS, **fuzz_files.KINDS, **fuzz_pickles.KINDS}
SECONDS = 10.0                  # of processor time per mutant
PATIENCE = 120.0                # seconds until a process that has not answered is ended
MEGABYTES = 1024                # of memory of the process, with all imports
CHUNK = 100                     # mutants per process
PLACE = re.compile(r"\bline \d+|--set |\b(?:dataset|model|method|train|search)\.\w+")


class Outcome(NamedTuple):
    """What became of a mutant."""

    kind: str
    number: int
    result: str                 # accepted, refused, or failed
    message: str
    seconds: float
    megabytes: float


# ---------------------------------------------------------------- one mutant


def try_mutant(name: str, number: int, seed: int, valid: Path, work: Path) -> Outcome:
    """Damage a copy of a valid input and read it."""
    kind, rng = KINDS[name], Random(f"{name} {seed} {number}")
    example = rng.choice(sorted(path.name for path in valid.iterdir()))
    folder = work / str(number) / example
    shutil.copytree(valid / example, folder)
    _forget_peak()
    began = _used()
    try:
        change = kind.mutate(folder, rng)
        began = _used()
        kind.read(folder, change)
        result, message = "accepted", ""
    except JBPoolError as error:
        result, message = "refused", str(error)
        if not message.strip() or not all(line.isprintable() for line in message.split("\n")):
            result, message = "failed", f"a message that is not plain text: {message!r}"
        elif not kind.names(message, folder, change):
            result, message = "failed", f"a message that does not name the input: {message}"
        elif "llocate" in message:
            result, message = "failed", f"memory was requested without a check: {message}"
    except Exception:
        result, message = "failed", traceback.format_exc()
    seconds, megabytes = _used() - began, _peak()
    if seconds > SECONDS or megabytes > MEGABYTES:
        result, message = "failed", f"{seconds:.1f} s, {megabytes:.0f} MB. {message}"
    shutil.rmtree(work / str(number), ignore_errors=True)
    return Outcome(name, number, result, message, seconds, megabytes)


def _used() -> float:
    """Processor time of this process and its children."""
    return sum(os.times()[:4])


def _forget_peak() -> None:
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")


def _peak() -> float:
    """Peak memory of this process since :func:`_forget_peak`, and of its children, in MB."""
    found = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return max(int(found[1]) if found else 0, children) / 1024


def work_through(name: str, numbers: list[int], seed: int, valid: Path, work: Path, results: Connection) -> None:
    """A worker process: mutants one after the other, with limited memory; sends an outcome for each."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + (MEGABYTES << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    be_strict()
    gc.freeze()                                         # what was imported is not searched for garbage every time
    for number in numbers:
        results.send(try_mutant(name, number, seed, valid, work))


def be_strict() -> None:
    """Warnings of this package are errors, as in its tests; the cache of parsed files is a separate one."""
    warnings.simplefilter("error")
    for category in (DeprecationWarning, FutureWarning, UserWarning):
        warnings.filterwarnings("ignore", category=category, module="dgl.*")


# ---------------------------------------------------------------- all mutants


@dataclass
class Worker:
    process: Any
    kind: str
    left: deque[int]
    deadline: float


def campaign(kinds: dict[str, int], seed: int, jobs: int, folder: Path) -> Iterator[Outcome]:
    """The outcomes of all mutants; ``kinds``: number of mutants by kind."""
    fork = multiprocessing.get_context("fork")                  # the imports are not paid again
    chunks: deque[tuple[str, list[int]]] = deque()
    for name, count in kinds.items():
        (folder / name).mkdir()
        KINDS[name].prepare(folder / name)
        chunks += [(name, list(range(start, min(start + CHUNK, count)))) for start in range(0, count, CHUNK)]
    workers: dict[Connection, Worker] = {}
    while chunks or workers:
        while chunks and len(workers) < jobs:
            name, numbers = chunks.popleft()
            reading, send = fork.Pipe(duplex=False)
            places = folder / name, folder / "work"
            process = fork.Process(target=work_through, args=(name, numbers, seed, *places, send))
            process.start()
            send.close()
            workers[reading] = Worker(process, name, deque(numbers), time.monotonic() + PATIENCE)
        for ready in wait(list(workers), timeout=0.5):
            receive = cast(Connection, ready)
            worker = workers[receive]
            try:
                yield receive.recv()
                worker.left.popleft()
                worker.deadline = time.monotonic() + PATIENCE
            except EOFError:                                    # the process has ended
                worker.process.join()
                if worker.left:
                    problem = f"the process crashed (exit code {worker.process.exitcode})"
                    yield Outcome(worker.kind, worker.left[0], "failed", problem, 0, 0)
                _stop(workers, receive, chunks)
        for receive, worker in list(workers.items()):
            if time.monotonic() > worker.deadline and not receive.poll():
                yield Outcome(worker.kind, worker.left[0], "failed", f"no end within {PATIENCE:.0f} s", PATIENCE, 0)
                _stop(workers, receive, chunks)


def _stop(workers: dict[Connection, Worker], receive: Connection, chunks: deque[tuple[str, list[int]]]) -> None:
    """End a worker; a new one goes on behind its last mutant."""
    worker = workers.pop(receive)
    worker.process.kill()
    worker.process.join()
    receive.close()
    if len(worker.left) > 1:
        chunks.appendleft((worker.kind, list(worker.left)[1:]))


def print_table(outcomes: list[Outcome]) -> None:
    print("| input | mutants | accepted | refused | with line or key | failed | longest, s | most memory, MB |")
    print("|---|---|---|---|---|---|---|---|")
    names = list(dict.fromkeys(outcome.kind for outcome in outcomes))
    for name in (*names, "all"):
        own = [outcome for outcome in outcomes if name in ("all", outcome.kind)]
        count = Counter(outcome.result for outcome in own)
        placed = sum(outcome.result == "refused" and bool(PLACE.search(outcome.message)) for outcome in own)
        seconds, memory = max(outcome.seconds for outcome in own), max(outcome.megabytes for outcome in own)
        cells = (name, len(own), count["accepted"], count["refused"], placed, count["failed"])
        print(f"| {' | '.join(map(str, cells))} | {seconds:.1f} | {memory:.0f} |")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutants", type=int, default=10_000, help="in all, shared between the kinds")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--kind", action="append", choices=KINDS, help="only this kind of input (may be repeated)")
    parser.add_argument("--only", type=int, metavar="NUMBER", help="one mutant of --kind, in this process")
    parser.add_argument("--messages", action="store_true", help="print what every refusal says")
    args = parser.parse_args()
    shares = {name: kind.share for name, kind in KINDS.items() if args.kind is None or name in args.kind}
    total = sum(kind.share for kind in KINDS.values())
    counts = {name: max(1, round(args.mutants * share / total)) for name, share in shares.items()}
    failed = 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        os.environ.update(XDG_CACHE_HOME=str(folder / "cache"), JBPOOL_DATA=str(folder / "cache"))
        os.chdir(folder)
        if args.only is not None:
            (name,) = shares
            (folder / "valid").mkdir()
            KINDS[name].prepare(folder / "valid")
            be_strict()
            outcome = try_mutant(name, args.only, args.seed, folder / "valid", folder / "work")
            print(outcome.result, outcome.message, sep="\n")
            return int(outcome.result == "failed")
        outcomes = []
        for outcome in tqdm(campaign(counts, args.seed, args.jobs, folder), total=sum(counts.values()), leave=False):
            outcomes.append(outcome)
            if outcome.result == "failed":
                failed += 1
                again = f"python scripts/qa/fuzz.py --kind {outcome.kind!r} --seed {args.seed} --only {outcome.number}"
                print(f"FAILED: {again}\n{outcome.message}\n", flush=True)
            elif args.messages and outcome.result == "refused":
                print(f"{outcome.kind} {outcome.number}: {outcome.message}", flush=True)
    print_table(outcomes)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
