"""The colours of the reports, as colour-blind readers see them and on light and dark ground."""

import numpy as np
import pytest

from jbpool.report import charts as svg

# Linear RGB as seen with a missing cone, after Machado, Oliveira and Fernandes (2009)
SEEN = {
    "all cones": np.eye(3),
    "no long": np.array([[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]]),
    "no medium": np.array([[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]]),
    "no short": np.array([[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]]),
}


def linear(colour):
    value = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    xyz = to_xyz @ np.clip(rgb, 0, 1) / np.array([0.9505, 1, 1.089])
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("seen", SEEN.values(), ids=SEEN)
def test_colours_differ_for_colour_blind_readers(seen):
    places = np.array([lab(seen @ linear(colour)) for colour in svg.COLOURS])
    distance = np.linalg.norm(places[:, None] - places[None], axis=2) + 1e9 * np.eye(len(places))
    assert distance.min() > 10                              # about four just noticeable differences


@pytest.mark.parametrize("ground", ["#ffffff", "#181b20"])
def test_colours_stand_out_from_the_page(ground):
    luminance = np.array([0.2126, 0.7152, 0.0722])
    for colour in svg.COLOURS:
        low, high = sorted([float(luminance @ linear(colour)), float(luminance @ linear(ground))])
        assert (high + 0.05) / (low + 0.05) > 1.8, colour
