"""Pages without a browser: user-defined names are escaped, and unusual runs have a report too."""

import json
import re
import runpy
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from commands import CASES, CLASSIFY, CLUSTER, ROOT, run_task
from drawings import unpack

from jbpool.report import charts
from jbpool.report.page import ASSETS, asset, number, pack, render_page, score, section, settings, spread, table

HOSTILE = "<script>alert(\"x\")</script> & 'y' <img src=x onerror=alert(1)>"
VOID = {"meta", "br", "img", "hr", "input", "link"}


class Page(HTMLParser):
    """Tags and text of a page; fails if tags do not match."""

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.tags, self.words, self.shown_words, self.open = [], [], [], []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        assert not any(name.startswith("on") for name, _ in attributes)
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)
        if self.open and self.open[-1] not in ("script", "style"):
            self.shown_words.append(data)

    @property
    def text(self):
        return "".join(self.words)

    @property
    def shown(self):
        """The text without scripts and styles."""
        return "".join(self.shown_words)


def test_every_part_of_a_page_is_escaped():
    result = {"config": {"dataset": {"name": HOSTILE, HOSTILE: 1}}, "versions": {}}
    parts = [section(HOSTILE, table([HOSTILE], [[HOSTILE]]), HOSTILE), settings(result)]
    page = Page(render_page(HOSTILE, HOSTILE, {HOSTILE: HOSTILE}, [HOSTILE], parts))
    assert page.tags.count("script") == 2                       # of every page
    assert "img" not in page.tags
    assert page.text.count(HOSTILE) == 2 + 1 + 2 + 1 + 4        # title twice, lead, headline, note, section


def test_an_empty_page():
    page = Page(render_page("title", "lead", {}, [], [section("empty", table(["a", "b"], []))]))
    assert page.tags.count("section") == 1


@pytest.mark.parametrize(
    ("value", "shown"), [(None, "-"), (0.12345, "0.123"), (3, "3"), (-0.0004, "-0.0004"), (float("nan"), "-")]
)
def test_numbers(value, shown):
    assert number(value) == shown


def test_scores_show_a_deviation_only_of_several_runs():
    scores = {"mean": {"acc": 0.5}, "std": {"acc": 0.25}}
    assert score({**scores, "runs": [{"acc": 0.25}, {"acc": 0.75}]}, "acc") == "0.500 ± 0.250"
    assert score({**scores, "runs": [{"acc": 0.5}]}, "acc") == "0.500"
    counts = {"mean": {"used": 3.0}, "std": {"used": 0.0}}
    assert score({**counts, "runs": [{"used": 3}, {"used": 3}]}, "used") == "3"
    assert score({**counts, "runs": [{"used": 2}, {"used": 4}]}, "used") == "3.000 ± 0.000"
    assert spread(None, None) == "-"
    assert spread(0.5, 0.0002) == "0.500 ± 0.000"
    assert spread(0.0005, 0.0002) == "0.0005 ± 0.0002"


def test_a_chart_has_a_table_of_its_values():
    page = Page(section("sizes", charts.bars({"clusters": [2, 1]}, "", {"clusters": ["a", "b"]}), "note"))
    assert page.tags.count("details") == page.tags.count("table") == page.tags.count("svg") == 1
    assert page.tags.count("tr") == 3
    assert "note" in page.text


def test_wide_tables_scroll_and_show_that_they_do():
    """In an element of their own, with a shadow at the edge behind which there is more."""
    assert table(["a"], [["b"]]).startswith('<div class="scroll"><table>')
    style = asset("page.css")
    assert re.search(r"\.scroll,figure{overflow-x:auto}", style)
    assert re.search(r"\.scroll,\.values,figure{background:.*background-attachment:local,local,scroll,scroll}", style)


@pytest.mark.parametrize("name", [path.name for path in ASSETS.iterdir()])
def test_assets_can_be_part_of_a_page(name):
    """They end no element early and load nothing."""
    text = asset(name)
    assert "</script" not in text.lower()
    assert "</style" not in text.lower()
    assert "@import" not in text
    assert "-->" not in text
    assert not {"fetch(", "XMLHttpRequest", "WebSocket", "importScripts"} & set(re.findall(r"\w+\(?", text))


def test_the_bundle_is_that_of_the_script():
    bundle = runpy.run_path(str(ROOT / "scripts" / "draw" / "bundle_sigma.py"))
    assert asset("sigma.js").startswith(bundle["header"]())
    for name, version in bundle["BUNDLED"].items():
        assert f"{name} {version}\n" in asset("LICENSES.txt")


# ---------------------------------------------------------------- the reports of both tasks


SMALLER = {CLUSTER.task.name: (), CLASSIFY.task.name: ("dataset.num_graphs=18", "model.compare=[]")}


def load(case):
    return case.task.load_data(case.config(*SMALLER[case.task.name]))


def report(case, folder, data, *changes):
    """The page about a run of one epoch."""
    more = {"folds": [0]} if case is CLASSIFY else {}
    out = run_task(case, case.config("train.epochs=1", *SMALLER[case.task.name], *changes), folder, data, **more)
    return Page(out.write_report().read_text())


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_hostile_names(case, tmp_path):
    data = load(case)
    names = [f"{HOSTILE} {i}" for i in range(data.num_classes)]
    plain = report(case, tmp_path / "plain", data)
    page = report(case, tmp_path / "r", replace(data, name=HOSTILE, class_names=names))
    assert page.tags.count("script") == plain.tags.count("script")
    assert "img" not in page.tags
    assert HOSTILE in page.text


@pytest.mark.parametrize("num_clusters", [1, 200])
def test_clusters_of_any_number(num_clusters, tmp_path):
    data = load(CLUSTER)
    page = report(CLUSTER, tmp_path / "r", data, f"method.num_clusters={num_clusters}")
    assert page.tags.count("svg") == (4 if num_clusters == 1 else 5)        # no curve of one evaluation, no tree of one
    assert "What the clusters are" in page.text
    assert ("Which clusters merge first" in page.text) == (num_clusters > 1)
    assert "needs two evaluations" in page.text


@pytest.mark.parametrize("num_clusters", [1, 200])
def test_pools_of_any_size(num_clusters, tmp_path):
    data = load(CLASSIFY)
    page = report(CLASSIFY, tmp_path / "r", data, f"model.num_clusters=[{num_clusters}]")
    assert f"of {num_clusters} clusters used" in page.text


def test_a_graph_without_labels(tmp_path):
    data = replace(load(CLUSTER), label=None, num_classes=None, class_names=None)
    page = report(CLUSTER, tmp_path / "r", data, "method.num_clusters=3")
    assert page.tags.count("svg") == 4
    assert "NMI" not in page.shown


@pytest.mark.parametrize("feat", ["words", "measurements", None])
def test_clusters_are_described(feat, tmp_path):
    data = load(CLUSTER)
    names = [f"{HOSTILE} {i}" for i in range(data.feat.shape[1])]
    dense = data.feat.to_dense() + 1
    data = {
        "words": replace(data, feat_names=names), "measurements": replace(data, feat=dense, feat_names=names),
        None: replace(data, feat=None),
    }[feat]  # fmt: skip
    page = report(CLUSTER, tmp_path / "r", data, "method.name=auto", "train.restarts=1")
    assert "img" not in page.tags
    assert ("set apart by" in page.shown) == (feat is not None)
    assert (" sd" in page.shown) == (feat == "measurements")
    assert "bits saved per node" in page.shown
    assert "nodes moved" in page.shown
    result = json.loads((tmp_path / "r" / "result.json").read_text())
    assert sum(one["size"] for one in result["clusters"]) == 300
    assert len(result["merges"]["children"]) == len(result["clusters"]) - 1
    assert any(one["features"] for one in result["clusters"]) == (feat is not None)


def test_a_flat_network_has_no_clusters_to_show(tmp_path):
    data = load(CLASSIFY)
    page = report(CLASSIFY, tmp_path / "r", data, "model.pool=none")
    assert not any(words in page.text for words in ("its clusters", "minus none"))
    assert page.tags.count("svg") == 2


# ---------------------------------------------------------------- packed values


@pytest.mark.parametrize("length", range(5))
def test_arrays_of_every_type(length):
    values = np.arange(length)
    given = {kind: values.astype(kind) for kind in ("u1", "u2", "u4", "i4", "f4")}
    text, found = unpack(pack({"name": "é</script>\n\"'"}, given))
    assert text == {"name": "é</script>\n\"'"}
    for kind, array in found.items():
        np.testing.assert_array_equal(array, given[kind])
