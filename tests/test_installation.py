"""``jbpool check``: what is installed, whether it loads, and how to fix it."""

from commands import call

import jbpool
from jbpool import cli, installation


def test_check(tmp_path, monkeypatch):
    only = {"jbpool": installation.PACKAGES["jbpool"]}                      # docs/install.md runs all
    monkeypatch.setattr(installation, "PACKAGES", only)
    out = call(cli.main, "check", cwd=tmp_path).out
    assert f"jbpool {jbpool.__version__}" in out
    assert "jbpool is ready on the CPU" in out or "on a GPU" in out


def test_check_of_a_package_that_does_not_load(tmp_path, monkeypatch):
    broken = tmp_path / "broken" / "dgl"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("raise ImportError('Cannot load Graphbolt C++ library')")
    monkeypatch.setenv("PYTHONPATH", str(broken.parent))
    monkeypatch.setattr("jbpool.installation.version", lambda package: "2.1.0")
    monkeypatch.setattr(installation, "PACKAGES", {"dgl": installation.PACKAGES["dgl"]})
    outcome = call(cli.main, "check", cwd=tmp_path)
    (line,) = [line for line in outcome.out.splitlines() if line.startswith("dgl")]
    assert line.startswith("dgl 2.1.0 cannot be used (ImportError: Cannot load Graphbolt C++ library): pip ")
    assert outcome.code == 0                                                # jbpool works without DGL


def test_check_without_torch(tmp_path, monkeypatch):
    monkeypatch.setattr(installation, "PACKAGES", {"torch": installation.PACKAGES["torch"]})
    broken = tmp_path / "torch.py"
    broken.write_text("raise ImportError('libcudart.so: cannot open shared object file')")
    monkeypatch.setenv("PYTHONPATH", str(broken.parent))
    outcome = call(cli.main, "check", cwd=tmp_path, check=False)
    assert outcome.code == 1
    assert "cannot open shared object file): pip install" in outcome.out
    assert "ready" not in outcome.out


def test_check_of_an_old_torch(tmp_path, monkeypatch):
    monkeypatch.setattr(installation, "PACKAGES", {"torch": installation.PACKAGES["torch"]})
    (tmp_path / "torch.py").write_text("__version__ = (2, 3)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    outcome = call(cli.main, "check", cwd=tmp_path, check=False)
    assert outcome.code == 1
    assert "cannot be used (jbpool needs torch 2.4 or later): pip install --upgrade" in outcome.out
