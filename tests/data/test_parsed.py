"""The cache of what was parsed."""

import numpy as np
import pytest

from jbpool.data import DataError
from jbpool.data.parsed import cached


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "source"
    path.write_text("one")
    return path


class Parser:
    """Counts how often it is called."""

    calls = 0

    def __call__(self):
        self.calls += 1
        return {"a": np.arange(1000), "names": np.array(["x", "y"])}


def test_parsed_once_for_the_same_files_and_parser(tmp_path):
    parse = Parser()
    for files in ({"a": "12", "b": "3"}, {"a": "1", "b": "23"}, {"a": "12", "c": "3"}, {"a": "12", "b": "3"}):
        for name, text in files.items():
            (tmp_path / name).write_text(text)
        arrays = cached("set", [tmp_path / name for name in files], 1, parse)
        assert arrays["a"].tolist() == list(range(1000))
        assert arrays["names"].tolist() == ["x", "y"]
    assert parse.calls == 3
    cached("set", [tmp_path / "a"], 1, parse)
    cached("set", [tmp_path / "a"], 2, parse)
    assert parse.calls == 5


@pytest.mark.parametrize("damage", [lambda b: b[:100], lambda b: b"", lambda b: b[:500] + b"\xff" * 9 + b[509:]])
def test_a_damaged_cache_is_rebuilt(source, cache, damage, caplog):
    parse = Parser()
    cached("set", [source], 1, parse)
    (path,) = (cache / "parsed").glob("*.npz")
    path.write_bytes(damage(path.read_bytes()))
    for _ in range(2):
        assert cached("set", [source], 1, parse)["a"].tolist() == list(range(1000))
    assert parse.calls == 2
    assert "parsing again" in caplog.text


def test_a_cache_that_cannot_be_written_is_done_without(source, cache, caplog):
    cache.parent.mkdir()
    cache.write_text("a file where the folder should be")
    assert cached("set", [source], 1, Parser())["a"].tolist() == list(range(1000))
    assert "cannot be written" in caplog.text


def test_errors_are_not_cached(source, cache):
    def fail():
        raise DataError("bad")

    with pytest.raises(DataError, match="bad"):
        cached("set", [source], 1, fail)
    assert not (cache / "parsed").exists()
    with pytest.raises(DataError, match="missing"):
        cached("set", [source.with_name("missing")], 1, dict)
