"""The reports in a real browser, if one is installed."""

import shutil
import subprocess

import pytest
from commands import CASES, call

from jbpool.classification.job import PICTURED

SHOWN = {
    "node_cluster": (5, ("Losses and NMI", "Cluster sizes", "coarsened graph", "in the plane")),
    "graph_classify": (2 + 2 * PICTURED, ("Learning curves", "clusters and pooled graph", "predictions (columns)")),
}


@pytest.mark.parametrize("name", CASES)
def test_the_report_in_a_browser(name, tmp_path):
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no Chromium on this machine")
    case, (pictures, titles) = CASES[name], SHOWN[name]
    call(case.command, *case.arguments(), "--out", "r", cwd=tmp_path)
    page = (tmp_path / "r" / "report.html").as_uri()
    flags = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/profile", "--dump-dom"]
    dom = subprocess.run([browser, *flags, page], capture_output=True, text=True, timeout=120, check=True).stdout
    assert dom.count("<svg") == pictures
    for words in titles:
        assert words in dom
