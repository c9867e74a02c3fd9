"""Run commands one after another; shared by the scripts that reproduce the tables."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def task_command(task: str, config: str, changes: list[str], out: Path, *more: str) -> list[str]:
    """Return the command that runs a task on a configuration, or resumes it."""
    command = [sys.executable, str(ROOT / "tasks" / f"{task}.py"), "--cfg", f"{config}.yaml", "--resume"]
    return [*command, *(word for change in changes for word in ("--set", change)), *more, "--out", str(out)]


def run_in_turn(commands: Mapping[str, list[str]]) -> int:
    """Run all commands, list the failed ones at the end, and return the exit code."""
    failed = []
    for name, command in commands.items():
        print(f"== {name}", flush=True)
        if subprocess.run(command, check=False).returncode:
            failed.append(name)
    if failed:
        print("failed: " + "; ".join(failed), file=sys.stderr)
    return bool(failed)
