"""Signed distances: below zero inside, in the units of the coordinates given."""

from __future__ import annotations

import numpy as np

from understudy.data.drawing.canvas import Floats

Number = float | Floats


def ellipse(u: Floats, v: Floats, a: Number, b: Number) -> Floats:
    """Distance to an ellipse with half-axes `a` and `b`, right to first order at its edge."""
    x, y = u / a, v / b
    radius = np.sqrt(x * x + y * y) + np.float32(1e-6)
    slope = np.sqrt((x / a) ** 2 + (y / b) ** 2) + np.float32(1e-6)
    distance: Floats = radius * (radius - 1.0) / slope
    return distance


def rounded_box(u: Floats, v: Floats, a: Number, b: Number, radius: Number) -> Floats:
    """Distance to a rectangle with half-sides `a` and `b` and round corners."""
    x, y = np.abs(u) - a + radius, np.abs(v) - b + radius
    outside = np.sqrt(np.maximum(x, 0.0) ** 2 + np.maximum(y, 0.0) ** 2)
    distance: Floats = outside + np.minimum(np.maximum(x, y), 0.0) - radius
    return distance


def bow(u: Floats, v: Floats, sag: Number, reach: Number) -> Floats:
    """Distance to an arc from (-reach, 0) to (reach, 0) whose middle hangs `sag` lower."""
    slope = 2.0 * sag * u / (reach * reach)
    rise = np.abs(v - sag * (1.0 - (u / reach) ** 2)) / np.sqrt(1.0 + slope * slope)
    beyond = np.maximum(np.abs(u) - reach, 0.0)
    distance: Floats = np.sqrt(rise * rise + beyond * beyond)
    return distance
