"""The scripts that make tables, on folders made up here."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def script(name, *args, cwd):
    command = [sys.executable, str(ROOT / "scripts" / name), *map(str, args)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


def write_run(folder, dataset, method, acc, nmi, sqrt="matrix"):
    folder.mkdir(parents=True)
    result = {
        "dataset": dataset, "method": method, "runs": [{}, {}], "mean": {"acc": acc, "nmi": nmi},
        "std": {"acc": 0.01, "nmi": 0.02}, "config": {"method": {"sqrt": sqrt}},
    }  # fmt: skip
    (folder / "result.json").write_text(json.dumps(result))


def test_table_2_has_our_figures_beside_the_paper_s(tmp_path):
    write_run(tmp_path / "r" / "a", "cora", "jb", 0.5, 0.4)
    write_run(tmp_path / "r" / "b", "cora", "jb", 0.45, 0.35, sqrt="diagonal")
    write_run(tmp_path / "r" / "c", "dblp", "mincut", 0.55, 0.3)
    lines = script("table.py", "r", cwd=tmp_path).stdout.splitlines()
    rows = {line.split("|")[1].strip(): [cell.strip() for cell in line.split("|")[2:-1]] for line in lines}
    assert rows["jb"][:5] == ["2/-/-/-", "0.500 ± 0.010", "0.457", "0.400 ± 0.020", "0.351"]
    assert rows["jb, diagonal"][1:3] == ["0.450 ± 0.010", "0.457"]
    assert rows["mincut"][-4:] == ["0.550 ± 0.010", "0.538", "0.300 ± 0.020", "0.297"]
    assert rows["mincut"][1] == "-"
    assert len({line.count("|") for line in lines}) == 1


def test_a_folder_without_runs(tmp_path):
    result = script("table.py", "nothing", cwd=tmp_path)
    assert result.returncode != 0
    assert "scripts/reproduce.py" in result.stderr


@pytest.mark.parametrize("name", ["table.py", "reproduce.py", "bench_load.py", "check_env.py"])
def test_every_script_opens_with_its_command(name):
    assert f"    python scripts/{name}" in (ROOT / "scripts" / name).read_text().split('"""')[1]


def test_load_benchmark(tmp_path):
    result = script("bench_load.py", "--edges", 2000, "--nodes", 300, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "| numbers |" in result.stdout
    assert "| text |" in result.stdout
