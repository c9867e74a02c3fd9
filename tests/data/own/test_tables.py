"""Tables: what is written is read, whatever the separator, header, line ends and packing."""

import gzip
import logging
from functools import partial

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from jbpool.data import DataError
from jbpool.data.own.headers import ID_WORDS, LABEL_WORDS, PAIRS, is_header, is_header_of_features
from jbpool.data.own.tables import read_table

is_header_of_labels = partial(is_header, keys=[ID_WORDS, LABEL_WORDS])
IDS = ["7", "007", "+7", "-3", "0", "12", "a#1", "b%2", "NA", "null", "zoë", "d e", "0.5", "10000000000", "1e5"]
LINES = [f"{i},{(3 * i) % 40}" for i in range(40)]


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@st.composite
def written(draw):
    """Rows of ids, and a file that has them."""
    rows = draw(st.lists(st.tuples(*[st.sampled_from(IDS)] * 2), min_size=2, max_size=12))
    separator = draw(st.sampled_from([",", ";", "\t", "|", ", "]))
    quote = draw(st.booleans())
    lines = [separator.join(f'"{field}"' if quote else field for field in row) for row in rows]
    header = draw(st.booleans())
    if header:
        lines.insert(0, separator.join(("source", "target")))
    for comment in draw(st.lists(st.sampled_from(["", "# note", "% note", "  # indented"]), max_size=4)):
        lines.insert(draw(st.integers(0, len(lines))), comment)
    content = draw(st.sampled_from(["\n", "\r\n", "\r"])).join(lines).encode()
    content = draw(st.sampled_from([b"", b"\xef\xbb\xbf"])) + content + draw(st.sampled_from([b"", b"\n"]))
    return rows, content, separator.strip(" ") or ",", header, draw(st.booleans())


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(written())
@example(([("007", "7"), ("7", "7")], b"007,7\n7,7", ",", False, False))
@example(([("+7", "8"), ("7", "8")], b"+7,8\n7,8", ",", False, False))
def test_what_is_written_is_read(tmp_path, table):
    rows, content, separator, header, packed = table
    path = write(tmp_path / "t.csv", gzip.compress(content) if packed else content)
    read = read_table(path, separator=separator, header=header)
    assert read.header == (["source", "target"] if header else None)
    for place in (0, 1):
        column = [row[place] for row in rows]
        plain = all(field.removeprefix("-").isdigit() and str(int(field)) == field for field in column)
        assert read.ids(place).tolist() == ([*map(int, column)] if plain else column)
        assert read.words(place).tolist() == column


def test_odd_numbers_are_found_wherever_they_are(tmp_path):
    for line in range(41):
        odd = read_table(write(tmp_path / "t.csv", "\n".join([*LINES[:line], "007,7", *LINES[line:]])), header=False)
        assert odd.ids(0)[line] == "007"
    assert read_table(write(tmp_path / "t.csv", "\n".join(LINES))).ids(0).dtype == np.int64


@pytest.mark.parametrize("separator", [",", ";", "\t", "  "])
def test_the_separator_is_detected(tmp_path, separator):
    table = read_table(write(tmp_path / "t.txt", "".join(f"{i}{separator}{i + 1}\n" for i in range(30))))
    assert table.ids(1).tolist() == [*range(1, 31)]


@pytest.mark.parametrize(
    ("text", "detect", "expected"),
    [
        ("source,target\na,b", is_header, True),
        ("a,b\n1,2\nb,1", is_header, False),
        ("paper,cites\n0,1", is_header, True),
        ("from_id,to_id\nann,bob", is_header, True),
        ("first,name\nname,last", is_header, False),
        ("u,v\nv,w", is_header, False),
        ("ann,bob,1\nbob,eve,2", is_header, False),
        ("ann,bob,NA\nbob,eve,2", is_header, False),
        ("name,a,b\nann,1,2", is_header_of_features, True),
        ("person,age\na,1", is_header_of_features, True),
        ("x,y,name\n1,2,a", is_header_of_features, True),
        ("ann,NA,NA\nbob,3,4", is_header_of_features, False),
        (",0,1\na,5,6", is_header_of_features, True),
        ("a,1\nb,3", is_header_of_features, False),
        ("label,node\n0,a", is_header_of_labels, True),
        ("a,name\nb,verb", is_header_of_labels, False),
        *((f"{one.upper()},{other}\nann,bob", is_header, True) for one, other in PAIRS),
        *((f"since,{other},{one}\nmay,ann,bob", is_header, True) for one, other in PAIRS),
        *((f"{one},{other}\nann,bob\nbob,{other}", is_header, False) for one, other in PAIRS),
    ],
)
def test_headers(text, detect, expected):
    assert detect([line.split(",") for line in text.splitlines()]) is expected


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize(
    ("row", "words"),
    [
        (b"5", "1 field instead of 2"),
        (b"5,", "field 2 is empty"),
        (b"5,\x00", "zero byte"),
        (b"5,\xff", "UTF-8"),
        (b"1,2,3", "3 fields instead of 2"),
        (b"5," + 200_000 * b"9" + b",", "cannot be read"),
        (b"\x1c", "1 field instead of 2"),
    ],
)
def test_errors_name_the_line(tmp_path, row, words, end):
    lines = [line.encode() for line in ["# a comment", "", *LINES[:30], row.decode("latin-1"), *LINES[30:]]]
    lines[32] = row
    with pytest.raises(DataError, match=f"t.csv, line 33: .*{words}"):
        read_table(write(tmp_path / "t.csv", end.encode().join(lines))).ids(1)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "empty"),
        ("# only\n% comments\n", "only comments"),
        ("source,target\n", "no rows below the header"),
        ("zoë,ann\n".encode("latin-1"), "UTF-8"),
        ("zoë,ann\n".encode("utf-16"), "UTF-8"),
        ("zoë,ann\n".encode("utf-16-le"), "UTF-8"),
        (bytes.fromhex("d0cf11e0a1b11ae1"), "spreadsheet"),
        (b"PK\3\4", "save the table as CSV"),
        (gzip.compress(b"0,1\n" * 50, mtime=0)[:-9], "cannot be read"),
        ('{"source": 1, "target": 2}\n', "JSON"),
        ('[["a", "b"], ["b", "c"]]', "JSON"),
        ("<!DOCTYPE html>\n<html><body>no such</body></html>\n", "web page"),
        ("%%MatrixMarket matrix coordinate real symmetric\n3 3 1\n2 1 5\n", "mmread"),
        ('*Vertices 2\n1 "a"\n2 "b"\n*Edges\n1 2\n', "read_pajek"),
        ("0 1 {'color': 'red'}\n", "write_weighted_edgelist"),
    ],
)
def test_what_is_no_table_is_refused_with_the_fix(tmp_path, content, words):
    with pytest.raises(DataError, match=words) as error:
        read_table(write(tmp_path / "t.csv", content), attributes=True)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("end", [" {}", ",{}", " {'weight': 2.0}", "\t{'weight': 3e-05}"])
def test_edge_lists_of_networkx(tmp_path, end):
    table = read_table(write(tmp_path / "t.txt", f"0{end[0]}1{end}\n1{end[0]}2{end}\n"), attributes=True)
    assert table.ids(0).tolist() == [0, 1]
    if "weight" in end:
        assert table.numbers(2).tolist() == [float(end.split()[-1].strip("}"))] * 2


def test_numbers(tmp_path):
    table = read_table(write(tmp_path / "t.csv", "a,b,c,d\n1,+1.5,1_000,1\n2,01,3,inf\n"))
    assert table.numbers(1).tolist() == [1.5, 1]
    with pytest.raises(DataError, match="line 2: '1_000' is not a finite number: write it plainly"):
        table.numbers(2, ": write it plainly")
    with pytest.raises(DataError, match="line 3"):
        table.numbers(3)


def test_an_unnamed_first_column_that_counts_is_skipped(tmp_path, caplog):
    frame = pd.DataFrame({"a": ["x", "y"], "b": [1, 2]})
    for form in (write(tmp_path / "t.csv", frame.to_csv()), frame.reset_index(names="Unnamed: 0")):
        table = read_table(form)
        assert table.unnamed
        table.skip_index()
        assert "counts the rows" in caplog.text
        caplog.clear()
    with pytest.raises(DataError, match="no name"):
        read_table(write(tmp_path / "t.csv", frame.set_index(pd.Index([3, 7])).to_csv())).skip_index()


@pytest.mark.parametrize("kind", ["csv", "parquet", "frame"])
def test_every_table_is_the_same(tmp_path, kind):
    frame = pd.DataFrame({"id": ["zoë", "7"], "x": [1.5, 2.0], "n": [3, 4]})
    path = tmp_path / f"t.{kind}"
    if kind == "csv":
        frame.to_csv(path, index=False)
    elif kind == "parquet":
        pytest.importorskip("pyarrow")
        frame.to_parquet(path)
    table = read_table(frame if kind == "frame" else path)
    assert table.header == ["id", "x", "n"]
    assert table.ids(0).tolist() == ["zoë", "7"]
    assert table.ids(2).tolist() == [3, 4]
    assert table.numbers(1).tolist() == [1.5, 2]
    with pytest.raises(DataError, match=r"(line|row) .*'zoë'"):
        table.numbers(0)


def test_parquet(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    path = tmp_path / "t.parquet"
    pd.DataFrame({"a": [1.0, None, 3.0], "b": [1.5, 2, 3]}).set_index("a").to_parquet(path)
    table = read_table(path)
    assert table.header == ["b", "a"]                                       # an index with a name is a column
    for place, words in ((1, "row 2: column 'a' has missing values"), (0, "column 'b' holds float64")):
        with pytest.raises(DataError, match=words):
            table.ids(place)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(DataError, match="Parquet"):
        read_table(path)
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(DataError, match="pip install pyarrow"):
        read_table(path)


def test_ordinary_tables_are_read_without_a_word(tmp_path, caplog):
    caplog.set_level(logging.WARNING)
    read_table(write(tmp_path / "t.csv", "id,label\n0,a\n1,b\n"))
    assert not caplog.text
