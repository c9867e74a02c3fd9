"""Drawings as XML, and packed values, read as the browser reads them."""

import base64
import json
import math
import re
import struct
import zlib
from xml.etree import ElementTree

import numpy as np

HOSTILE = "<script>alert(\"x\")</script> & 'y' ]]> <!--"
NUMBERS = ("x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "r", "width", "height", "stroke-width", "fill-opacity")
TYPES = {"Uint8Array": "<u1", "Uint16Array": "<u2", "Uint32Array": "<u4", "Int32Array": "<i4", "Float32Array": "<f4"}


def parse(drawing):
    """The drawing as a tree; fails if it is not well-formed or contains NaN or infinity."""
    root = ElementTree.fromstring(getattr(drawing, "svg", drawing))
    assert root.tag == "svg"
    for node in root.iter():
        for key in NUMBERS:
            if key in node.attrib:
                assert math.isfinite(float(node.attrib[key])), ElementTree.tostring(node)
        for key in ("d", "points"):
            for number in re.findall(r"[^\sMLQhHvV,]+", node.attrib.get(key, "")):
                assert math.isfinite(float(number)), node.attrib[key]
    return root


def texts(root):
    return [node.text for node in root.iter() if node.tag in ("text", "title")]


def boxes(root):
    """(left, right, top, bottom) of discs, rectangles and the places of words."""
    for node in root.iter():
        if node.tag == "circle":
            x, y, r = (float(node.attrib[key]) for key in ("cx", "cy", "r"))
            yield x - r, x + r, y - r, y + r
        elif node.tag == "rect":
            x, y, wide, tall = (float(node.attrib[key]) for key in ("x", "y", "width", "height"))
            assert min(wide, tall) >= 0
            yield x, x + wide, y, y + tall
        elif node.tag == "text":
            x, y = (float(node.attrib[key]) for key in ("x", "y"))
            yield x, x, y, y


def assert_inside(drawing):
    """Discs, rectangles and words are inside the picture."""
    root = parse(drawing)
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    for left, right, top, bottom in boxes(root):
        assert -0.1 <= left <= right <= width + 0.1
        assert -0.1 <= top <= bottom <= height + 0.1
    return root


def unpack(packed):
    """Read what a page contains of a graph as the browser reads it."""
    data = zlib.decompress(base64.b64decode(packed))
    (length,) = struct.unpack_from("<I", data)
    head = json.loads(data[4 : 4 + length])
    arrays = {
        entry["name"]: np.frombuffer(data, TYPES[entry["type"]], entry["length"], 4 + length + entry["start"])
        for entry in head["arrays"]
    }
    assert all((4 + length + entry["start"]) % 4 == 0 for entry in head["arrays"])      # as typed arrays require
    return head["text"], arrays
