"""The reports in a real browser, if one is installed: clicks, search, hostile names, no scripts, no WebGL."""

import json

import numpy as np
import pytest
from browser import BROWSER, HOSTILE, NODES, Browser
from commands import CASES, CLUSTER, call, settings

from jbpool.clustering.picture import SCRIPTS, GraphView, graph_section
from jbpool.report.page import render_page

pytestmark = BROWSER


@pytest.fixture
def opened(browser):
    """A function that opens a page, and waits until its graphs can be explored."""

    def opened(path, part=".graph-view", **screen):
        browser.open(path, **screen)
        browser.until(f"document.querySelector('{part}').dataset.ready")
        return browser

    browser.errors.clear()
    browser.requests.clear()
    yield opened
    assert browser.errors == []
    assert all(request.startswith("file:") for request in browser.requests)     # nothing is loaded from elsewhere


@pytest.fixture
def page(opened, folders):
    """The clustering report, ready."""
    return opened(folders["node_cluster"])


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


def test_an_empty_search_clears_the_selection(page):
    page.click("[name=find]")
    page.type("node seven")
    page.press("Enter")
    page.until("document.querySelector('.chosen dl')")
    for _ in "node seven":
        page.press("Backspace")
    page.until("document.querySelector('.chosen .hint')")
    assert page.js("jbpoolView.state.picked") is None


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


def test_the_threshold_says_how_many_nodes_and_how_many_are_right(page, folders):
    """The calibration of the confidence; the best run is the one that the page shows."""
    result = json.loads((folders["node_cluster"].parent / "result.json").read_text())
    run = min(result["runs"], key=lambda run: run["loss"])
    confidence = page.js("[...Array(jbpoolView.graph.order).keys()].map((node) => jbpoolView.confidence(node))")
    whole = f"0.00: 100 % of the nodes; {round(100 * run['acc'])} % of them in the cluster of their class, "
    assert page.js("document.querySelector('[name=limit]').value") == f"{whole}{percent(np.mean(confidence))} expected"
    page.js("document.querySelector('[name=threshold]').value = 0.5")
    page.js("document.querySelector('[name=threshold]').dispatchEvent(new Event('input', {bubbles: true}))")
    words = page.js("document.querySelector('[name=limit]').value")
    assert words.startswith(f"0.50: {percent(shown(page) / NODES)} of the nodes; ")
    assert words.endswith(f", {percent(np.mean([c for c in confidence if c >= 0.5]))} expected")


def percent(share):
    return f"{int(100 * share + 0.5)} %"


def test_baselines_are_in_one_table_with_the_result(page, folders):
    result = json.loads((folders["node_cluster"].parent / "result.json").read_text())
    page.js("[...document.querySelectorAll('h2')].find((h) => h.innerText === 'Beside other methods').id = 'beside'")
    cells = "[...document.querySelectorAll('#beside + .scroll tr')].map((r) => [...r.cells].map((c) => c.innerText))"
    rows = page.js(cells)
    assert [row[0] for row in rows] == ["", "jb, the result", *result["baselines"]]
    assert rows[0][1:] == ["used clusters", "ACC", "NMI", "ARI", "modularity", "agreement", "seconds"]
    for row, scores in zip(rows[2:], result["baselines"].values(), strict=True):
        assert row[1:7] == [str(scores["used_clusters"]), *(f"{scores[key]:.3f}" for key in
                            ("acc", "nmi", "ari", "modularity", "agreement"))]  # fmt: skip


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


def test_tables_are_sorted_by_a_click(page):
    page.js(
        "(table => { table.id = 'sorted'; table.closest('details').open = true; })"
        "([...document.querySelectorAll('figure table')].find((table) => table.rows.length > 4))"
    )
    rows = "[...document.querySelector('#sorted').tBodies[0].rows].map((row) => row.cells[2].innerText)"
    before = page.js(rows)
    page.click("#sorted th:last-child button")
    assert page.js(rows) == sorted(before, key=float)
    page.click("#sorted th:last-child button")
    assert page.js(rows) == sorted(before, key=float, reverse=True)
    assert page.js("document.querySelector('#sorted th:last-child').getAttribute('aria-sort')") == "descending"


# ---------------------------------------------------------------- other screens and browsers


def made_up(count, clusters, labels, confidence, edges=True):
    """A page about a graph that was not clustered by anything."""
    nodes, rng = np.arange(count), np.random.default_rng(0)
    ring = np.column_stack([nodes, np.roll(nodes, -1)]) if edges else np.zeros((0, 2), dtype=int)
    view = GraphView(
        xy=rng.uniform(-1, 1, (count, 2)), edges=ring[ring[:, 0] < ring[:, 1]], cluster=nodes % clusters,
        cluster_names=list(range(clusters)), cluster_sizes=np.bincount(nodes % clusters).tolist(),
        degree=np.full(count, 2), ids=nodes, confidence=rng.random(count) if confidence else None,
        label=nodes % 3 - 1 if labels else None, class_names=["x", "y"] if labels else (),
        class_sizes=[1, 1] if labels else (),
    )  # fmt: skip
    return render_page("made up", "", {}, [], [graph_section(view)], SCRIPTS)


@pytest.mark.parametrize(
    ("count", "clusters", "labels", "confidence", "edges"),
    [
        (1, 1, False, False, False), (3, 1, True, False, True), (2, 2, False, True, True), (250, 200, True, True, True),
        (9, 3, True, True, False),
    ],
)  # fmt: skip
def test_unusual_graphs(count, clusters, labels, confidence, edges, opened, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(made_up(count, clusters, labels, confidence, edges))
    browser = opened(path)
    assert shown(browser) == count
    assert browser.js("document.querySelectorAll('.legend button').length") == clusters
    assert browser.seen("[value=class]") == labels
    assert browser.seen("[name=threshold]") == confidence
    if labels:
        browser.click("[value=class]")
        browser.click(".legend button")
        assert shown(browser) == sum(node % 3 == 1 for node in range(count))
    words = browser.js("document.querySelector('[name=limit]').value")
    assert not confidence or labels or words.endswith("of them expected to be right")
    browser.js("jbpoolView.pick(0)")
    assert "0" in browser.text(".chosen dd")


def test_nodes_and_legend_have_marks_where_colours_repeat(opened, tmp_path):
    """Without them, clusters 0, 10, 20 and 30 would look the same; classes and confidence have their own colours."""
    path = tmp_path / "page.html"
    path.write_text(made_up(250, 35, True, True))
    browser = opened(path)
    kinds = "[0, 10, 20, 30, 4].map((node) => jbpoolView.renderer.getNodeDisplayData(node).type)"
    assert browser.js(kinds) == ["circle", "hole", "slit", "cross", "circle"]
    marks = "Object.fromEntries([...document.querySelectorAll('.legend button')].map((b) => [b.dataset.group,"
    assert browser.js(f"{marks} b.querySelector('.swatch').dataset.mark]))")["27"] == "2"
    browser.click("[value=class]")
    assert set(browser.js(kinds)) == {"circle"}
    browser.click("[value=cluster]")
    assert browser.js(kinds)[1] == "hole"
    legend = "document.querySelector('.legend')"
    assert browser.js(f"{legend}.scrollHeight > {legend}.clientHeight")


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dark", [False, True])
def test_a_phone_shows_the_page_without_scrolling_sideways(name, dark, browser, folders):
    browser.open(folders[name], width=360, height=740, dark=dark)
    assert browser.js("document.documentElement.scrollWidth") <= 360
    parts = "[...document.querySelectorAll('section, .scroll')]"
    wide = browser.js(f"{parts}.filter((part) => part.scrollWidth > part.clientWidth).map((part) => part.className)")
    assert set(wide) == {"scroll"}                                      # tables scroll, the Runs at least
    ground = browser.js("getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(17, 19, 23)" if dark else "rgb(246, 247, 249)")


def test_print_shows_the_static_picture(opened, folders):
    browser = opened(folders["node_cluster"], media="print")
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


@pytest.mark.slow
def test_the_report_of_cora(opened, shared, tmp_path):
    """Small enough to be sent by mail, and complete."""
    changes = [f"dataset.root={shared}", "dataset.name=cora", "method.name=kmeans", "train.seeds=[0]"]
    call(CLUSTER.command, *settings(*changes), "--cfg", "cora.yaml", "--out", "r", cwd=tmp_path)
    page = tmp_path / "r" / "report.html"
    assert page.stat().st_size < 1.5e6
    assert opened(page).js("[jbpoolView.graph.order, jbpoolView.graph.size]") == [2708, 5278]


def test_the_report_of_a_command(opened, tmp_path):
    """Without labels or ids of its own, as a user starts it."""
    call(CLUSTER.command, *CLUSTER.arguments("train.epochs=20"), "--out", "r", cwd=tmp_path)
    opened(tmp_path / "r" / "report.html")


# ---------------------------------------------------------------- the browser of test graphs


@pytest.fixture
def graphs(opened, folders):
    """The classification report, ready."""
    return opened(folders["graph_classify"], ".browser")


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
    cell, printed = graphs.js(
        "(c => [c.dataset.cell, c.dataset.tip])([...document.querySelectorAll('[data-cell]')]"
        ".find((cell) => !cell.dataset.tip.endsWith(': 0')))"
    )
    graphs.click(f"[data-cell='{cell}']")
    assert pictured(graphs)[1] == int(printed.rsplit(": ")[-1])                    # one fold, all graphs are pictured
    assert graphs.js("document.querySelectorAll('.cell.chosen').length") == 1
    label, predicted = cell.split(",")
    assert graphs.js("document.querySelector('.browser [name=label]').value") == label
    assert graphs.js("document.querySelector('.browser [name=predicted]').value") == predicted
    graphs.click(f"[data-cell='{cell}']")
    assert pictured(graphs)[1] == 30
    assert graphs.js("document.querySelectorAll('.cell.chosen').length") == 0
