"""Everything about a portrait that no attribute says: pose, colours, light, small shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from understudy.data.drawing.canvas import Floats, Pose

Palette = Mapping[str, Sequence[Sequence[float]]]
Ranges = Mapping[str, tuple[float, float]]

FRECKLES = 16


@dataclass(frozen=True)
class Look:
    """One draw per picture: colours [B, 3], places of freckles [B, F, 2] in the unit square,
    and everything that the data file gives a range for, [B, 1, 1], by name."""

    skin: Floats
    hair: Floats
    cloth: Floats
    second_cloth: Floats
    background: Floats
    iris: Floats
    frame: Floats
    freckles: Floats
    drawn: Mapping[str, Floats]

    def __getitem__(self, name: str) -> Floats:
        return self.drawn[name]

    @property
    def pose(self) -> Pose:
        return Pose(self["x"], self["y"], self["scale"], self["tilt"])


def draw_look(rng: np.random.Generator, count: int, palette: Palette, ranges: Ranges) -> Look:
    """Looks for `count` portraits; nothing here depends on their attributes."""
    skin = _between(rng, count, palette["skin"])
    cloth, second = _two_cloths(rng, count, palette["cloth"])
    pale = skin.mean(axis=1) > 0.55
    dark, light = (_one_of(rng, count, palette[f"{tone}_frame"]) for tone in ("dark", "light"))
    return Look(
        skin=skin,
        hair=_one_of(rng, count, palette["hair"], 0.05),
        cloth=cloth,
        second_cloth=second,
        background=_one_of(rng, count, palette["background"], 0.06),
        iris=_one_of(rng, count, palette["iris"]),
        frame=np.where(pale[:, None], dark, light),
        freckles=rng.random((count, FRECKLES, 2), np.float32),
        drawn={
            name: rng.uniform(low, high, (count, 1, 1)).astype(np.float32)
            for name, (low, high) in ranges.items()
        },
    )


def _one_of(
    rng: np.random.Generator, count: int, colours: Sequence[Sequence[float]], spread: float = 0.0
) -> Floats:
    chosen = np.asarray(colours)[rng.integers(len(colours), size=count)]
    varied = np.clip(chosen + rng.uniform(-spread, spread, (count, 3)), 0.0, 1.0)
    return np.asarray(varied, np.float32)


def _between(rng: np.random.Generator, count: int, ramp: Sequence[Sequence[float]]) -> Floats:
    """Colours anywhere along a ramp."""
    stops = np.asarray(ramp, np.float32)
    place = rng.uniform(0.0, len(stops) - 1.0, count)
    below = np.minimum(place.astype(int), len(stops) - 2)
    share = (place - below)[:, None]
    return np.asarray((1.0 - share) * stops[below] + share * stops[below + 1], np.float32)


def _two_cloths(
    rng: np.random.Generator, count: int, colours: Sequence[Sequence[float]]
) -> tuple[Floats, Floats]:
    """Two colours of clearly different brightness, in either order."""
    stops = np.asarray(colours, np.float32)
    bright = stops.mean(axis=1)
    dark, light = stops[bright < 0.5], stops[bright >= 0.5]
    first = dark[rng.integers(len(dark), size=count)]
    second = light[rng.integers(len(light), size=count)]
    swap = rng.random(count)[:, None] < 0.5
    return np.where(swap, first, second), np.where(swap, second, first)
