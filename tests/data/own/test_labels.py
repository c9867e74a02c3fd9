"""Classes from texts and numbers."""

import numpy as np
import pytest

from jbpool.data.own.labels import class_codes


@pytest.mark.parametrize(
    ("given", "codes", "names"),
    [
        (["1", "-1", "", "1"], [1, 0, -1, 1], ["-1", "1"]),             # two classes, and one row without
        (["1", "", "", ""], [0, -1, -1, -1], ["1"]),
        (["0", "-1", "1", ""], [0, -1, 1, -1], ["0", "1"]),             # -1: unlabelled
        (["-1", "-1", ""], [-1, -1, -1], []),
        (["", ""], [-1, -1], []),
        (["2.0", "10", "", "2"], [0, 1, -1, 0], ["2", "10"]),           # numbers in their own order
        (["0.5", "1.0", "", "-1"], [1, 2, -1, 0], ["-1", "0.5", "1.0"]),        # not all whole: text
        (["b", "a", ""], [1, 0, -1], ["a", "b"]),
        ([3, -1, 5], [0, -1, 1], ["3", "5"]),
        ([1, -1, 1], [1, 0, 1], ["-1", "1"]),
        ([-1, -1], [-1, -1], []),
    ],
)
def test_codes_and_names(given, codes, names):
    values = np.array(given, dtype=object if isinstance(given[0], str) else np.int64)
    found = class_codes(values)
    assert found[0].tolist() == codes
    assert found[1] == names
