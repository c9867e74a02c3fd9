"""What a page contains of a graph, read as the browser reads it."""

import base64
import json
import re
import struct
import zlib

import numpy as np
import pytest

from jbpool.report.graph_view import GraphView, graph_section, pack, smallest

TYPES = {"Uint8Array": "<u1", "Uint16Array": "<u2", "Uint32Array": "<u4", "Int32Array": "<i4", "Float32Array": "<f4"}


def unpack(packed):
    data = zlib.decompress(base64.b64decode(packed))
    (length,) = struct.unpack_from("<I", data)
    head = json.loads(data[4 : 4 + length])
    arrays = {
        entry["name"]: np.frombuffer(data, TYPES[entry["type"]], entry["length"], 4 + length + entry["start"])
        for entry in head["arrays"]
    }
    assert all((4 + length + entry["start"]) % 4 == 0 for entry in head["arrays"])      # as typed arrays require
    return head["text"], arrays


@pytest.mark.parametrize("length", range(5))
def test_arrays_of_every_type(length):
    values = np.arange(length)
    given = {kind: values.astype(kind) for kind in ("u1", "u2", "u4", "i4", "f4")}
    text, found = unpack(pack({"name": "é</script>\n\"'"}, given))
    assert text == {"name": "é</script>\n\"'"}
    for kind, array in found.items():
        np.testing.assert_array_equal(array, given[kind])


@pytest.mark.parametrize(("largest", "kind"), [(0, "u1"), (255, "u1"), (256, "u2"), (65536, "u4")])
def test_the_smallest_type(largest, kind):
    assert smallest(np.array([0, largest])).dtype == np.dtype(kind)


VIEW = GraphView(
    xy=np.array([[-1.0, 1.0], [0.0, 0.0], [1.0, -1.0]]), edges=np.array([[1, 2], [0, 1]]), cluster=np.array([0, 1, 1]),
    cluster_names=[3, 7], cluster_sizes=[10, 20], degree=np.array([1, 2, 300]), ids=np.array([5, 6, 70000]),
)  # fmt: skip


def packed_part(section):
    return unpack(re.search(r'class="packed">([^<]*)<', section)[1])


def test_what_a_view_needs():
    text, arrays = packed_part(graph_section(VIEW))
    assert text["clusters"] == [{"name": "3", "size": 10}, {"name": "7", "size": 20}]
    assert arrays["id"].tolist() == [5, 6, 70000]
    assert arrays["x"].tolist() == [0, 32768, 65535]
    assert arrays["y"].tolist() == [65535, 32768, 0]
    assert arrays["degree"].tolist() == [1, 2, 300]
    assert list(zip(arrays["source"].tolist(), arrays["target"].tolist(), strict=True)) == [(0, 1), (1, 2)]
    assert set(arrays) == {"x", "y", "cluster", "degree", "source", "target", "id"}


def test_names_confidence_and_classes():
    name = "</script><b>é\u2028"
    view = VIEW._replace(
        ids=np.array([name, "b", "c"], dtype=object), confidence=np.array([0.25, 1.0, 0.0]),
        label=np.array([0, -1, 1]), class_names=[name, "y"], class_sizes=[4, 5], sampled="Some.",
    )  # fmt: skip
    section = graph_section(view)
    assert "<b>" not in section
    text, arrays = packed_part(section)
    assert text["ids"] == [name, "b", "c"]
    assert text["sampled"] is True
    assert arrays["confidence"].tolist() == [2500, 10000, 0]
    assert arrays["label"].tolist() == [0, 2, 1]                # one past the classes: unknown
    assert "Some." in section


@pytest.mark.parametrize("ids", [np.array([-1, 0, 1]), np.array([0, 1, 2**40])])
def test_numbers_that_do_not_fit_are_text(ids):
    text, _ = packed_part(graph_section(VIEW._replace(ids=ids)))
    assert text["ids"] == [str(number) for number in ids]
