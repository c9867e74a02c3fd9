"""Browsing the test graphs of a classification in a real browser, if one is installed."""

import json

import pytest
from browser import BROWSER

pytestmark = BROWSER


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
