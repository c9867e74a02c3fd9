"""Test jbpool in every environment that it supports, each made from nothing, and print a table (docs/development).

    python scripts/qa/matrix.py                    # all: about an hour, and up to 10 GB of disk at a time
    python scripts/qa/matrix.py oldest trixie      # some of them

oldest, newest  the tests of the core with every dependency at its lower bound, and with the newest torch (Python 3.11)
dgl2            the same with DGL 2.1.0, which needs a stand-in for its module graphbolt
bookworm, trixie, sid, jammy, noble
                make run and make test in a fresh Debian (Python 3.11, 3.13, 3.14) or Ubuntu (3.10, 3.12) with git,
                make, python3 and python3-venv. This needs root and debootstrap. $DEBIAN_MIRROR is the mirror of Debian;
                wheels in the folder $PIP_FIND_LINKS and datasets in ../shared/data are used.

What cannot be tried here is skipped with a reason. Exits with 1 if anything failed.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from importlib.metadata import requires
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OLDEST_TORCH, TORCH, NEWEST_TORCH = "2.4.1", "2.13.0", "2.15.0"        # the lower bound, the lock, the newest
TESTS = ("tests/test_graph.py", "tests/ops", "tests/nn", "tests/test_objectives.py", "tests/test_theorems.py")
CHOSEN_BY_TORCH = {"torch", "sympy", "setuptools"}      # each torch has its own idea of their versions
# Options, mirror and script of debootstrap, which may be older than the system it sets up.
UBUNTU = ("--components=main,universe", "http://archive.ubuntu.com/ubuntu", "/usr/share/debootstrap/scripts/gutsy")
SHARED = ROOT.parent / "shared" / "data"
WITHOUT_GRAPHBOLT = "import sys, types; sys.modules['dgl.graphbolt'] = types.ModuleType('dgl.graphbolt')\n"
VERSIONS = """
import importlib.metadata, platform
installed = {found.name: found.version for found in importlib.metadata.distributions()}
system = platform.freedesktop_os_release()
print(system["NAME"].split()[0], system.get("VERSION_ID", system.get("VERSION_CODENAME")), end=" | ")
print(platform.python_version(), installed["torch"], installed.get("dgl", "none"), sep=" | ")
"""


class SkippedError(Exception):
    """Why an environment cannot be made here."""


class FailedError(Exception):
    """The last line of a command that failed."""


def run(*command: str | Path, **options) -> str:
    """Return what a command prints; show its end and raise if it fails."""
    done = subprocess.run(
        [*map(str, command)], text=True, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options
    )
    if done.returncode:
        noise = ("WARNING: ", "make")
        lines = [line for line in done.stdout.splitlines() if line.strip() and not line.startswith(noise)]
        print("\n".join(lines[-60:]), file=sys.stderr)
        raise FailedError(lines[-1].strip("= ") if lines else f"{command[0]} ended with {done.returncode}")
    return done.stdout


def row(versions: str, tested: str) -> str:
    """Put the versions and the counts of pytest into a row of the table."""
    summary = next(line for line in reversed(tested.splitlines()) if " passed" in line)
    counts = re.findall(r"\d+ (?:passed|skipped)", summary)
    return f"{versions.strip()} | {', '.join(counts)}"


def in_environment(folder: Path, pins: list[str], lowest: bool = False, site: str = "") -> str:
    """Run the tests of the core with other versions than the locked ones; `site` is run when Python starts."""
    if sys.version_info[:2] != (3, 11):
        raise SkippedError("needs Python 3.11, the last with wheels of DGL")
    replaced = {pin.split("==")[0] for pin in pins}
    wanted = [need for need in requires("jbpool") or () if "extra ==" not in need or 'extra == "pyg"' in need]
    wanted = [need.partition("; extra ==")[0] for need in wanted]
    wanted = [need for need in wanted if re.split(r"[^\w-]", need)[0] not in replaced]
    limits = folder / "constraints.txt"
    locked = (ROOT / "requirements.lock").read_text().splitlines()
    free = CHOSEN_BY_TORCH | replaced
    limits.write_text("\n".join(line for line in locked if not lowest and line.split("==")[0] not in free))
    if lowest:
        wanted = [need.replace(">=", "==") for need in wanted]
    run(sys.executable, "-m", "venv", folder / "env")
    python = folder / "env" / "bin" / "python"
    quiet = ("--quiet", "--disable-pip-version-check", "--no-cache-dir")
    run(python, "-m", "pip", "install", *quiet, "--constraint", limits, *pins, *wanted, "pytest", "hypothesis")
    (packages,) = (folder / "env" / "lib").glob("python*/site-packages")
    (packages / "sitecustomize.py").write_text(site)
    env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    tested = run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS, cwd=ROOT, env=env)
    return row(run(python, "-c", VERSIONS), tested)


def in_system(folder: Path, suite: str, ubuntu: bool = False) -> str:
    """Run both commands of the README in a fresh Debian or Ubuntu."""
    if os.getuid() != 0 or not shutil.which("debootstrap"):
        raise SkippedError("needs root and debootstrap")
    # Mounts of a namespace of their own end with it: nothing of this machine is left inside the folder.
    alone = ("unshare", "--mount", "--pid", "--fork", "--kill-child")
    packages = "git,make,python3,python3-venv,ca-certificates"
    options, *source = UBUNTU if ubuntu else ("--components=main", *filter(None, [os.environ.get("DEBIAN_MIRROR")]))
    try:
        run(*alone, "debootstrap", "--variant=minbase", f"--include={packages}", options, suite, folder, *source)
    except FailedError as error:
        raise SkippedError(f"debootstrap {suite}: {error}") from None
    files = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT)
    for name in filter(None, files.split("\0")):
        copy = folder / "jbpool" / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, copy)
    # The network of this machine: names, certificates, and what pip takes from its environment.
    for name in ("resolv.conf", "hosts"):
        shutil.copy(Path("/etc", name), folder / "etc")
    if certificates := ssl.get_default_verify_paths().cafile:
        shutil.copy(certificates, folder / "etc/ssl/certs/ca-certificates.crt")
    env = {name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")}
    env |= {"HOME": "/root", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "PIP_NO_CACHE_DIR": "1"}
    passed_on = ("PIP_INDEX_URL", "PIP_DEFAULT_TIMEOUT", "OMP_NUM_THREADS")
    env |= {name: value for name in passed_on if (value := os.environ.get(name))}
    if wheels := os.environ.get("PIP_FIND_LINKS"):
        shutil.copytree(wheels, folder / "wheels")
        env["PIP_FIND_LINKS"] = "/wheels"

    data = folder / "shared" / "data"
    data.mkdir(parents=True)

    def inside(command: str) -> str:
        mounts = 'mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev"'
        if SHARED.is_dir():
            mounts += f" && mount -o bind,ro {shlex.quote(str(SHARED))} {shlex.quote(str(data))}"
        return run(*alone, "sh", "-c", f'{mounts} && exec chroot "$0" sh -c "$1"', folder, command, env=env)

    inside("cd /jbpool && make run")
    tested = inside("cd /jbpool && make test")
    (folder / "versions.py").write_text(VERSIONS)
    return row(inside("/jbpool/.venv/bin/python /versions.py"), tested)


CASES: dict[str, Callable[[Path], str]] = {
    "oldest": partial(in_environment, pins=[f"torch=={OLDEST_TORCH}"], lowest=True),
    "newest": partial(in_environment, pins=[f"torch=={NEWEST_TORCH}"]),
    "dgl2": partial(in_environment, pins=[f"torch=={TORCH}", "dgl==2.1.0"], site=WITHOUT_GRAPHBOLT),
    **{suite: partial(in_system, suite=suite) for suite in ("bookworm", "trixie", "sid")},
    **{suite: partial(in_system, suite=suite, ubuntu=True) for suite in ("jammy", "noble")},
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES))
    names = parser.parse_args().cases or list(CASES)
    if unknown := [name for name in names if name not in CASES]:
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(CASES)}")
    failed = False
    print("| | system | Python | torch | DGL | tests |\n|---|---|---|---|---|---|")
    for name in names:
        with tempfile.TemporaryDirectory(prefix=f"jbpool-{name}-") as folder:
            try:
                result = CASES[name](Path(folder))
            except SkippedError as error:
                result = f"| | | | skipped: {error}"
            except FailedError as error:
                failed, result = True, f"| | | | FAILED: {error}"
        print(f"| {name} | {result} |", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
