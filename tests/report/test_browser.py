"""The reports in a real browser, if one is installed: clicks, search, hostile names, no scripts, no WebGL."""

import json
from dataclasses import replace

import numpy as np
import pytest
from browser import Browser, installed
from commands import CASES, CLASSIFY, CLUSTER, call, run_task

HOSTILE = "</script><script>alert('x')</script>\"'&é\u2028<img src=x onerror=alert(1)>"
NODES = 300

pytestmark = [
    pytest.mark.skipif(installed() is None, reason="no Chromium on this machine: reports are not tested in a browser"),
    pytest.mark.xdist_group("browser"),         # one browser for all of these
]


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("profile")) as started:
        yield started


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A run of each task, with names that would break a careless page."""
    made = {}
    for name, case in CASES.items():
        folder = tmp_path_factory.mktemp(name)
        if case is CLUSTER:
            config = case.config("train.epochs=30", "train.seeds=[0,1]")
            data = case.task.load_data(config)
            ids = np.array([f"{HOSTILE} {i}" for i in range(NODES)], dtype=object)
            ids[7] = "node seven"
            data = replace(data, ids=ids)
        else:
            config = case.config()
            data = case.task.load_data(config)
        data = replace(data, name=HOSTILE, class_names=[f"{HOSTILE} {i}" for i in range(data.num_classes)])
        run_task(case, config, folder, data, **({"folds": [0]} if case is CLASSIFY else {}))
        made[name] = case.task.write_report(folder, data)
    return made


@pytest.fixture
def page(browser, folders):
    """The clustering report, ready."""
    browser.errors.clear()
    browser.requests.clear()
    browser.open(folders["node_cluster"])
    browser.until("document.querySelector('.graph-view').dataset.ready")
    yield browser
    assert browser.errors == []
    assert all(request.startswith("file:") for request in browser.requests)     # nothing is loaded from elsewhere


def shown(page):
    """How many nodes the view says it shows."""
    return int(page.text(".status").split()[0].replace(",", ""))


def test_the_view_starts(page):
    assert page.seen(".explorer")
    assert not page.seen(".static")
    assert shown(page) == NODES
    assert page.js("jbpoolView.graph.order") == NODES
    assert page.js("document.images.length") == 0
    assert page.text("h1").startswith(HOSTILE.replace("\u2028", " ")[:30])


def test_search_by_id(page):
    page.click("[name=find]")
    page.type("node se")
    page.press("Enter")
    page.until("document.querySelector('.chosen dl')")
    assert "node seven" in page.text(".chosen dd")
    terms = "[...document.querySelectorAll('.chosen dt')].map((term) => [term.innerText, term.nextSibling.innerText])"
    facts = dict(page.js(terms))
    assert set(facts) == {"node", "cluster", "confidence", "class", "degree"}
    assert int(facts["degree"]) == page.js("jbpoolView.graph.degree(7)")
    assert facts["class"].startswith("</script>")
    page.click(".neighbours button")
    page.until("!document.querySelector('.chosen dd').innerText.includes('seven')")


def test_search_for_a_hostile_name(page):
    page.click("[name=find]")
    page.type(f"{HOSTILE} 42")
    page.press("Enter")
    page.until("document.querySelector('.chosen dl')")
    assert page.js("jbpoolView.state.picked") == 42
    page.js("document.querySelector('[name=find]').value = ''")
    page.click("[name=find]")
    page.type("nobody")
    page.press("Enter")
    page.until("document.querySelector('.status').innerText.startsWith('No node nobody')")


def test_hover_and_click_on_a_node(page):
    page.centre(".view")
    x, y = page.js(
        "(b => { const p = jbpoolView.renderer.graphToViewport(jbpoolView.graph.getNodeAttributes(7));"
        "return [b.x + p.x, b.y + p.y]; })(document.querySelector('.view').getBoundingClientRect())"
    )
    page.move(x, y)
    page.until("!document.querySelector('.card').hidden")
    assert "node seven" in page.text(".card")
    page.click(at=(x, y))
    page.until("document.querySelector('.chosen dl')")
    assert "node seven" in page.text(".chosen")
    page.press("Escape")
    page.until("document.querySelector('.chosen .hint')")


def test_a_click_in_the_legend_isolates_a_cluster(page):
    size = int(page.text(".legend button .size"))
    page.click(".legend button")
    page.until("document.querySelector('.legend button').getAttribute('aria-pressed') === 'true'")
    assert shown(page) == size < NODES
    page.click(".legend button")
    assert shown(page) == NODES


def test_colours_by_class_and_confidence(page):
    page.click("[value=class]")
    assert page.text(".legend-title") == "Classes"
    assert page.text(".legend button").startswith("</script>")
    page.click(".legend button")
    assert 0 < shown(page) < NODES
    page.click("[value=confidence]")
    assert shown(page) == NODES
    assert page.seen(".legend .scale")


def test_a_confidence_threshold(page):
    page.js("document.querySelector('[name=side]').value = 'most'")
    page.js("document.querySelector('[name=side]').dispatchEvent(new Event('input', {bubbles: true}))")
    assert shown(page) == NODES
    page.click(".uncertain summary")
    lowest = float(page.js("document.querySelector('.uncertain li').lastChild.textContent"))
    page.js(f"document.querySelector('[name=threshold]').value = {lowest + 0.01}")
    page.js("document.querySelector('[name=threshold]').dispatchEvent(new Event('input', {bubbles: true}))")
    assert 1 <= shown(page) < NODES


def test_edges_within_and_between_clusters(page):
    count = "jbpoolView.graph.filterEdges((e) => !jbpoolView.renderer.getEdgeDisplayData(e).hidden).length"
    total = page.js(count)
    page.click("[name=within]")
    between = page.js(count)
    page.click("[name=within]")
    page.click("[name=between]")
    assert total == page.js("jbpoolView.graph.size")
    assert 0 < between < total
    assert page.js(count) == total - between


def test_keys_move_and_zoom(page):
    page.js("document.querySelector('.view').focus()")
    before = page.js("jbpoolView.renderer.getCamera().getState()")
    page.press("ArrowRight")
    page.press("+")
    page.until(f"jbpoolView.renderer.getCamera().getState().ratio < {before['ratio']}")
    assert page.js("jbpoolView.renderer.getCamera().getState().x") > before["x"]
    page.press("0")
    page.until("jbpoolView.renderer.getCamera().getState().ratio === 1")


def test_charts_show_values(page):
    """Under the pointer, and with the arrow keys."""
    bar = "section:nth-of-type(n) figure svg rect[data-tip]"
    page.move(*page.centre(bar))
    page.until("!document.querySelector('.tip').hidden")
    assert page.text(".tip") == page.js(f"document.querySelector({json.dumps(bar)}).dataset.tip")
    page.js("document.querySelector('figure svg').focus()")
    page.press("ArrowRight")
    first = page.text(".tip")
    page.press("ArrowRight")
    assert page.text(".tip") != first
    page.press("Escape")
    assert not page.seen(".tip")
    assert page.js("document.querySelectorAll('svg title').length") == 0
    assert page.js("[...document.querySelectorAll('svg')].every((svg) => svg.getAttribute('aria-label'))")


# ---------------------------------------------------------------- test graphs of a classification


@pytest.fixture
def graphs(browser, folders):
    """The classification report, ready."""
    browser.errors.clear()
    browser.open(folders["graph_classify"])
    browser.until("document.querySelector('.browser').dataset.ready")
    yield browser
    assert browser.errors == []


def pictured(page):
    """(number, of how many) graphs that match."""
    words = page.js("document.querySelector('.browser [name=count]').value").split()
    shown = page.js("document.querySelectorAll('.live-cards article').length")
    return (shown, 0) if words[0] == "none" else (shown, int(words[-1]))


def select(page, name, value):
    box = f"document.querySelector('.browser [name={name}]')"
    page.js(f"{box}.value = {json.dumps(value)}; {box}.dispatchEvent(new Event('input', {{bubbles: true}}))")


def test_browse_test_graphs(graphs):
    shown, total = pictured(graphs)
    assert shown == 4
    assert total == 30                                                          # all small test graphs of the fold
    first = graphs.text(".live-cards h3")
    graphs.click(".browser [name=on]")
    assert graphs.text(".live-cards h3") != first
    graphs.click(".browser [name=back]")
    assert graphs.text(".live-cards h3") == first
    counts = {}
    for kind in ("correct", "wrong", "uncertain"):
        select(graphs, "kind", kind)
        counts[kind] = pictured(graphs)[1]
        if counts[kind] and kind != "uncertain":
            assert f"{kind}" in graphs.text(".live-cards strong")
    assert counts["correct"] + counts["wrong"] == total
    assert graphs.js("document.querySelectorAll('.live-cards svg title').length") == 0      # tips are prepared


def test_a_cell_of_the_confusion_matrix_filters(graphs):
    cell, told = graphs.js(
        "(c => [c.dataset.cell, c.dataset.tip])([...document.querySelectorAll('[data-cell]')]"
        ".find((cell) => !cell.dataset.tip.endsWith(': 0')))"
    )
    graphs.click(f"[data-cell='{cell}']")
    assert pictured(graphs)[1] == int(told.rsplit(": ")[-1])                    # one fold, all graphs are pictured
    assert graphs.js("document.querySelectorAll('.cell.chosen').length") == 1
    label, predicted = cell.split(",")
    assert graphs.js("document.querySelector('.browser [name=label]').value") == label
    assert graphs.js("document.querySelector('.browser [name=predicted]').value") == predicted
    graphs.click(f"[data-cell='{cell}']")
    assert pictured(graphs)[1] == 30
    assert graphs.js("document.querySelectorAll('.cell.chosen').length") == 0


# ---------------------------------------------------------------- other screens and browsers


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dark", [False, True])
def test_a_phone_shows_the_page_without_scrolling_sideways(name, dark, browser, folders):
    browser.open(folders[name], width=360, height=740, dark=dark)
    assert browser.js("document.documentElement.scrollWidth") <= 360
    ground = browser.js("getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(17, 19, 23)" if dark else "rgb(246, 247, 249)")


def test_print_shows_the_static_picture(browser, folders):
    browser.open(folders["node_cluster"], media="print")
    browser.until("document.querySelector('.graph-view').dataset.ready")
    assert browser.seen(".static svg")
    assert not browser.seen(".explorer")


def test_without_scripts_the_static_pictures_remain(browser, folders):
    browser.send("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(folders["node_cluster"])
        assert browser.seen(".static svg")
        assert not browser.seen(".explorer")
    finally:
        browser.send("Emulation.setScriptExecutionDisabled", value=False)


def test_without_webgl_a_line_says_why(folders, tmp_path):
    with Browser(tmp_path, "--disable-3d-apis") as browser:
        browser.open(folders["node_cluster"])
        browser.until("!document.querySelector('.why').hidden")
        assert "WebGL" in browser.text(".why")
        assert browser.seen(".static svg")
        assert not browser.seen(".explorer")


def test_the_report_of_a_command(browser, tmp_path):
    """Without labels or ids of its own, as a user starts it."""
    call(CLUSTER.command, *CLUSTER.arguments("train.epochs=20"), "--out", "r", cwd=tmp_path)
    browser.open(tmp_path / "r" / "report.html")
    browser.until("document.querySelector('.graph-view').dataset.ready")
    assert browser.errors == []
