"""A stack of small pictures that are painted together.

Shapes are given by signed distances in *face units*: the picture is 64 units wide, the
origin is the middle of the face, y points down. Each picture has its own pose, so the same
face unit falls on other pixels in each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating[Any]]

UNITS = 64.0


@dataclass(frozen=True)
class Pose:
    """Where the face is in each picture: [B, 1, 1] each, in face units and radians."""

    x: Floats
    y: Floats
    scale: Floats
    tilt: Floats


@dataclass(frozen=True)
class Box:
    """A rectangle in face units, beyond which a shape has nothing to paint."""

    left: float
    top: float
    right: float
    bottom: float


@dataclass(frozen=True)
class Window:
    """The pixels that may show one box: colours [B, 3, h, w] and face coordinates [B, h, w]."""

    colours: Floats
    u: Floats
    v: Floats
    pixel: Floats

    def inside(self, distance: Floats) -> Floats:
        """How much of each pixel lies inside a shape (distance below zero)."""
        return np.clip(0.5 - distance / self.pixel, 0.0, 1.0)

    def along(self, distance: Floats, width: float | Floats) -> Floats:
        """How much of each pixel a line of this width covers; thin lines fade, not vanish."""
        edge, half = distance / self.pixel, 0.5 * np.asarray(width, np.float32) / self.pixel
        covered: Floats = np.clip(edge + half + 0.5, 0.0, 1.0)
        covered -= np.clip(edge - half + 0.5, 0.0, 1.0)
        return covered

    def paint(self, cover: Floats, colour: Floats) -> None:
        """Lay a colour, [B, 3] or [B, 3, h, w], over the window where `cover` says."""
        target = colour[:, :, None, None] if colour.ndim == 2 else colour
        self.colours[...] += cover[:, None] * (target - self.colours)

    def shade(self, cover: Floats, factor: float | Floats) -> None:
        """Darken (factor below 1) or lighten what is there."""
        self.colours[...] *= (1.0 + cover * (factor - 1.0))[:, None]


class Canvas:
    """`colours` [B, 3, size, size], from 0 to 1, and the face coordinates of every pixel."""

    def __init__(self, pose: Pose, size: int) -> None:
        self._pose = pose
        self._size = size
        centres = (np.arange(size, dtype=np.float32) + 0.5) * np.float32(UNITS / size)
        x = centres[None, None, :] - pose.x
        y = centres[None, :, None] - pose.y
        cos, sin = np.cos(pose.tilt) / pose.scale, np.sin(pose.tilt) / pose.scale
        self.u: Floats = x * cos + y * sin
        self.v: Floats = y * cos - x * sin
        self.pixel: Floats = np.float32(UNITS / size) / pose.scale
        self.colours: Floats = np.zeros((len(self.u), 3, size, size), np.float32)

    def whole(self) -> Window:
        return Window(self.colours, self.u, self.v, self.pixel)

    def window(self, box: Box) -> Window:
        """The smallest window that shows the box in every picture of the stack."""
        u = np.array([box.left, box.right, box.left, box.right], np.float32)
        v = np.array([box.top, box.top, box.bottom, box.bottom], np.float32)
        pose = self._pose
        cos, sin = np.cos(pose.tilt) * pose.scale, np.sin(pose.tilt) * pose.scale
        columns = self._span(pose.x + u * cos - v * sin)
        rows = self._span(pose.y + u * sin + v * cos)
        return Window(
            self.colours[:, :, rows, columns],
            self.u[:, rows, columns],
            self.v[:, rows, columns],
            self.pixel,
        )

    def _span(self, units: Floats) -> slice:
        pixels = units * (self._size / UNITS)
        first = int(np.floor(pixels.min())) - 1
        last = int(np.ceil(pixels.max())) + 1
        return slice(min(max(first, 0), self._size - 1), max(min(last, self._size), 1))
