"""Edge lists in text that are read in several blocks."""

import gzip

import pytest

from jbpool.data import DataError, load_nodes, text


def edges_of(data):
    """Edges in the user's ids, each direction, with their weights."""
    weight = [None] * data.graph.num_edges if data.edge_weight is None else data.edge_weight.tolist()
    source, target = (data.ids[end.numpy()].tolist() for end in data.graph.edge_index)
    return dict(zip(zip(source, target, strict=True), weight, strict=True))


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of a few lines, so that a small file has several."""
    monkeypatch.setattr(text, "BLOCK", 40)


LINES = [f"{i},{(3 * i) % 40}" for i in range(40)]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize(
    "rows",
    [
        LINES,
        ["source,target", *LINES],
        ["# c", "", *LINES[:20], "% c", "", *LINES[20:]],
        [f"{line},{i / 4}" for i, line in enumerate(LINES)],
        [f"node {line.replace(',', ',node ')}" for line in LINES],
        [*LINES, "last,0"],                                             # text after blocks of numbers
        [*LINES, "007,7"],
        [",paper,cites", *(f"{i},{line}" for i, line in enumerate(LINES))],
        [f"{line.replace(',', ' ')} {{'weight': {i}}}" for i, line in enumerate(LINES)],
    ],
)
@pytest.mark.parametrize("name", ["e.csv", "e.csv.gz", "without a suffix gz"])
def test_blocks_change_nothing(tmp_path, monkeypatch, end, rows, name):
    content = b"\xef\xbb\xbf" + end.join(rows).encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    whole = load_nodes("file", edges=tmp_path / name)
    monkeypatch.setattr(text, "BLOCK", 47)
    in_blocks = load_nodes("file", edges=tmp_path / name)
    assert edges_of(whole) == edges_of(in_blocks)
    assert whole.ids.tolist() == in_blocks.ids.tolist()
    assert whole.summary == in_blocks.summary


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("5", r"line 33: 1 fields instead of 2"),
        ("5,", "line 33: field 2 is empty"),
        ("5,\x00", "line 33: contains a zero byte"),
        (b"5,\xff", "line 33: not UTF-8"),
    ],
)
def test_errors_name_the_line_of_the_file(tmp_path, small_blocks, row, words):
    row = row if isinstance(row, bytes) else row.encode()
    text = [line.encode() for line in LINES]
    (tmp_path / "e.csv").write_bytes(b"\n".join([*text[:32], row, *text[32:]]))
    with pytest.raises(DataError, match=words):
        load_nodes("file", edges=tmp_path / "e.csv")


def test_a_negative_weight_further_down(tmp_path, small_blocks):
    (tmp_path / "e.csv").write_text("\n".join([*(f"{line},1" for line in LINES), "0,1,-2"]))
    with pytest.raises(DataError, match="line 41: weight -2 is negative"):
        load_nodes("file", edges=tmp_path / "e.csv")


def test_an_index_that_stops_counting(tmp_path, small_blocks):
    rows = [",paper,cites", *(f"{i},{line}" for i, line in enumerate(LINES)), "99,0,1"]
    (tmp_path / "e.csv").write_text("\n".join(rows))
    with pytest.raises(DataError, match="not a row number"):
        load_nodes("file", edges=tmp_path / "e.csv")


def test_an_endless_line(tmp_path, monkeypatch):
    monkeypatch.setattr(text, "MAX_LINE", 1000)
    monkeypatch.setattr(text, "BLOCK", 100)
    (tmp_path / "e.csv").write_text("0,1\n" + "9" * 2000)
    with pytest.raises(DataError, match="a line of more than 1,000 bytes"):
        load_nodes("file", edges=tmp_path / "e.csv")
