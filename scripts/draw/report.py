"""The picture of a report in the documentation, as Chromium shows it.

    jbpool cluster --cfg auto.yaml --set dataset.name=cora --seeds 0,1,2 --out runs/cora
    python scripts/draw/report.py runs/cora                 # writes docs/pictures/report.webp
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PICTURE = Path(__file__).resolve().parents[2] / "docs" / "pictures" / "report.webp"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--headless", "--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--hide-scrollbars",
    "--window-size=1280,1010", "--virtual-time-budget=6000",
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="a run folder")
    parser.add_argument("--out", type=Path, default=PICTURE, help="the picture to write, .webp or .png")
    args = parser.parse_args()
    report = (args.run / "report.html").resolve()
    if not report.is_file():
        parser.error(f"{report} does not exist: give a finished run folder")
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        sys.exit("no Chromium found: install it, for example with apt-get install chromium.")
    with tempfile.TemporaryDirectory() as profile:
        command = [browser, *FLAGS, f"--user-data-dir={profile}", f"--screenshot={args.out.resolve()}"]
        subprocess.run([*command, report.as_uri()], check=True, capture_output=True)
    print(f"wrote {args.out}")


if __name__ == "__main__":
    main()
