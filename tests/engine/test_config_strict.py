"""Invalid, unusual or malicious YAML: always a one-line ConfigError with the position, never a traceback."""

import re
import sys

import pytest

from jbpool.clustering.task import NODE_CLUSTER
from jbpool.engine.config import MAX_DEPTH, load_config, read_yaml
from jbpool.errors import ConfigError


def message(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        read_yaml(text, "a.yaml")
    return str(caught.value)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("!!int x", "'x' is not a whole number"),
        ("!!float x", "'x' is not a number"),
        ("!!bool maybe", "'maybe' is not true or false"),
        ("!!null x", "'x' is not null"),
        ("!!timestamp 2024-01-01", "the tag '!!timestamp' is not supported"),
        ("!!set {a}", "the tag '!!set' is not supported"),
        ("!!map x", "the tag '!!map' is not supported"),
        ("!!python/object/apply:os.system ['true']", "is not supported"),
        pytest.param(
            "9" * 5000, "'99999999999999999999... (5000 characters)' is not a whole number",
            marks=pytest.mark.skipif(
                not hasattr(sys, "get_int_max_str_digits"), reason="this Python reads numbers of any length"
            ),
        ),
    ],
)
def test_a_value_that_cannot_be_made_names_file_line_and_key(value, words):
    text = message(f"train:\n  lr: 1\n  epochs: {value}\n")
    assert text.startswith("a.yaml, line 3: train.epochs: ")
    assert words in text


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("[" * 5000, "more than 20 levels"),
        ("{a: " * 5000, "more than 20 levels"),
        ("&x 1\nc: *x", "aliases"),
        ("\0", "character '\\x00'"),
        ("\x7f", "character '\\x7f'"),
        ("\t- x\n\ty", ""),
        ("{a: 1, a: 2}", "'a' on line 2 is already given on line 2"),
        ("{[1]: 2}", "should be a name"),
        ("'", ""),
    ],
)
def test_a_text_that_cannot_be_parsed_names_file_and_line(value, words):
    text = message(f"a: 1\nb: {value}")
    assert re.match(r"a.yaml, line [234]: ", text)
    assert words in text
    assert len(text.splitlines()) == 1


def test_a_character_that_is_not_allowed_names_its_line():
    assert message("a: 1\n\nb: x\n  c\x7f: 1\n").startswith("a.yaml, line 4: the character '\\x7f'")


def test_aliases_cannot_blow_up():
    bomb = "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 60))
    assert message(bomb).startswith("a.yaml, line 2: aliases")


def test_nesting_up_to_a_limit():
    """Brackets beside each other do not add up."""
    deepest = "[" * MAX_DEPTH + "]" * MAX_DEPTH
    assert len(read_yaml(f"{{a: {deepest[1:-1]}, b: {deepest[1:-1]}}}", "here")) == 2
    with pytest.raises(ConfigError, match=f"more than {MAX_DEPTH} levels"):
        read_yaml(f"[{deepest}]", "here")


def test_scalars_are_those_of_yaml_1_2():
    text = "{a: 2024-13-45, b: 1:30, c: =, d: 0x1F, e: !!float 3, f: !!str 5, g: -.INF, h: 1_000, i: , j: <<}"
    assert read_yaml(text, "") == {
        "a": "2024-13-45", "b": "1:30", "c": "=", "d": "0x1F", "e": 3.0, "f": "5", "g": float("-inf"), "h": 1000,
        "i": None, "j": "<<",
    }  # fmt: skip


def test_latin_1_is_refused_with_its_line(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_bytes("task: node_cluster\n# Größe\n".encode("latin-1"))
    with pytest.raises(ConfigError, match=r"a\.yaml, line 2: the byte 0xf6 is not UTF-8"):
        load_config(NODE_CLUSTER, str(path))


def test_wrong_settings_name_the_line_of_the_file_or_the_set_that_gave_them(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("task: node_cluster\nmodel:\n  backbone: gcn\n  hidden: 0\ntrain: {epochs: x}\n")
    with pytest.raises(ConfigError) as caught:
        load_config(NODE_CLUSTER, str(path), ["method={name: nothing}", "train.lr=a\nb"])
    lines = str(caught.value).splitlines()
    for start in (
        f"{path}, line 4: model.hidden=0",
        f"{path}, line 5: train.epochs='x'",
        "--set method={name: nothing}: method.name='nothing'",
        "--set train.lr=a\\nb: train.lr='a b'",
    ):
        assert any(line.startswith(start) for line in lines), (start, lines)
    assert len(lines) == 4


def test_a_task_of_control_characters_is_shown_as_plain_text():
    with pytest.raises(ConfigError, match=r"^--set task=\\u200b\\u2028: task is ") as caught:
        load_config(NODE_CLUSTER, None, ["task=\u200b\u2028"])
    assert str(caught.value).isprintable()


def test_an_impossible_name_of_a_file():
    for name in ("x" * 5000, "\0"):
        with pytest.raises(ConfigError, match="no such file"):
            load_config(NODE_CLUSTER, name)
