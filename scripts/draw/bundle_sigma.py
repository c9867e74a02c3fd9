"""Rebuild ``jbpool/report/assets/sigma.js``, the libraries of the graph view in one file, and their licences.

    python scripts/draw/bundle_sigma.py            # needs node, npm and a network; changes nothing else

The versions are pinned here and written into the first line of the bundle. Reports work without this script: the bundle
is part of the package.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ASSETS = Path(__file__).parents[2] / "jbpool" / "report" / "assets"
BUNDLED = {"sigma": "3.0.3", "graphology": "0.26.0", "graphology-utils": "2.5.2", "events": "3.3.0"}
BUNDLER = {"esbuild": "0.28.2"}
ENTRY = """
import Graph from "graphology";
import Sigma from "sigma";
globalThis.jbpoolSigma = {Graph, Sigma};
"""


def header() -> str:
    """Return the first line of the bundle."""
    return "/* " + ", ".join(f"{name} {version}" for name, version in BUNDLED.items()) + "; see LICENSES.txt */\n"


def main() -> int:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        packages = {**BUNDLED, **BUNDLER}
        (work / "package.json").write_text(json.dumps({"private": True, "dependencies": packages}))
        (work / "entry.js").write_text(ENTRY)
        subprocess.run(["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=work, check=True)
        modules = work / "node_modules"
        found = {name: json.loads((modules / name / "package.json").read_text())["version"] for name in packages}
        if found != packages:
            print(f"installed {found}, not {packages}", file=sys.stderr)
            return 1
        flags = ["--bundle", "--minify", "--format=iife", "--target=es2020", "--legal-comments=none", "--charset=ascii"]
        command = [str(modules / ".bin" / "esbuild"), "entry.js", *flags, "--outfile=bundle.js"]
        subprocess.run(command, cwd=work, check=True)
        licences = []
        for name, version in BUNDLED.items():
            (text,) = [path for path in (modules / name).iterdir() if path.stem.upper() == "LICENSE"]
            licences.append(f"{name} {version}\n\n{text.read_text().strip()}\n")
        bundle = (work / "bundle.js").read_text().strip()
    (ASSETS / "sigma.js").write_text(f"{header()}{bundle}\n")
    (ASSETS / "LICENSES.txt").write_text(f"\n{'-' * 79}\n\n".join(licences))
    return 0


if __name__ == "__main__":
    sys.exit(main())
