"""Data inside a page: numbers and text, compressed, as base64."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

KINDS = {"u": "Uint", "i": "Int", "f": "Float"}         # of numpy, and in the browser


def pack(text: Any, arrays: Mapping[str, np.ndarray]) -> str:
    """Compressed text and arrays, read in the browser by ``unpack`` of ``assets/unpack.js``.

    Layout before compression: the length of the JSON text in bytes (four bytes, little endian), the JSON text padded
    with spaces, then the arrays, each starting at a multiple of four bytes.

    Parameters
    ----------
    text : any JSON value
        Names and other text.
    arrays : mapping of str to np.ndarray
        Numbers; integers of 8, 16 or 32 bits, or float32.
    """
    entries, body = [], b""
    for name, array in arrays.items():
        data = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"))).tobytes()
        kind = f"{KINDS[array.dtype.kind]}{8 * array.itemsize}Array"
        entries.append({"name": name, "type": kind, "start": len(body), "length": array.size})
        body += data + b"\0" * (-len(data) % 4)
    head = json.dumps({"text": text, "arrays": entries}).encode()
    head += b" " * (-len(head) % 4)
    return base64.b64encode(zlib.compress(struct.pack("<I", len(head)) + head + body, 9)).decode()


def smallest(array: np.ndarray) -> np.ndarray:
    """Non-negative whole numbers in the smallest type that holds them."""
    return array.astype(np.min_scalar_type(int(array.max(initial=0))))
