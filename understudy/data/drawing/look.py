"""Everything about a portrait that no attribute says: pose, colours, light, small shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from understudy.data.drawing.canvas import Floats, Pose

Palette = Mapping[str, Sequence[Sequence[float]]]

FRECKLES = 16


@dataclass(frozen=True)
class Look:
    """One draw per picture: shapes and strengths [B, 1, 1], colours [B, 3]."""

    pose: Pose
    skin: Floats
    hair: Floats
    cloth: Floats
    second_cloth: Floats
    background: Floats
    iris: Floats
    frame: Floats
    shapes: Mapping[str, Floats]
    freckles: Floats
    light: Floats
    noise: Floats

    def __getitem__(self, name: str) -> Floats:
        return self.shapes[name]


# Ranges of the shapes that vary from face to face, in face units unless a word says more.
SHAPES: Mapping[str, tuple[float, float]] = {
    "face_width": (13.2, 14.8),
    "face_height": (17.0, 18.4),
    "hair_length": (2.0, 24.0),
    "hair_volume": (1.6, 3.0),
    "hairline": (-14.0, -13.0),
    "hair_period": (3.2, 3.9),
    "hair_phase": (0.0, 6.28),
    "cloth_period": (5.0, 6.2),
    "cloth_phase": (0.0, 6.28),
    "eye_height": (1.7, 2.3),
    "gaze": (-0.9, 0.9),
    "brow_tilt": (-0.16, 0.16),
    "brow_width": (0.9, 1.7),
    "nose_length": (3.6, 5.0),
    "mouth_reach": (4.0, 5.2),
    "mouth_strength": (1.7, 2.7),
    "lip_width": (1.2, 1.8),
    "blush": (0.0, 0.35),
    "frame_round": (1.6, 3.6),
    "frame_width": (0.85, 1.15),
    "eye_shade": (-0.34, 0.14),
    "wobble": (-0.5, 0.5),
}


def draw_look(rng: np.random.Generator, count: int, palette: Palette) -> Look:
    """Looks for `count` portraits; nothing here depends on their attributes."""
    skin = _between(rng, count, palette["skin"])
    cloth, second = _two_cloths(rng, count, palette["cloth"])
    pale = skin.mean(axis=1) > 0.55
    dark, light = (_one_of(rng, count, palette[f"{tone}_frame"]) for tone in ("dark", "light"))
    return Look(
        pose=_pose(rng, count),
        skin=skin,
        hair=_one_of(rng, count, palette["hair"], 0.05),
        cloth=cloth,
        second_cloth=second,
        background=_one_of(rng, count, palette["background"], 0.06),
        iris=_one_of(rng, count, palette["iris"]),
        frame=np.where(pale[:, None], dark, light),
        shapes={name: _uniform(rng, count, *span) for name, span in SHAPES.items()},
        freckles=rng.random((count, FRECKLES, 2), np.float32),
        light=_light(rng, count),
        noise=_uniform(rng, count, 0.006, 0.022),
    )


def _uniform(rng: np.random.Generator, count: int, low: float, high: float) -> Floats:
    return rng.uniform(low, high, (count, 1, 1)).astype(np.float32)


def _pose(rng: np.random.Generator, count: int) -> Pose:
    return Pose(
        x=_uniform(rng, count, 29.0, 35.0),
        y=_uniform(rng, count, 25.5, 30.5),
        scale=_uniform(rng, count, 0.92, 1.08),
        tilt=_uniform(rng, count, -0.14, 0.14),
    )


def _light(rng: np.random.Generator, count: int) -> Floats:
    """[B, 6]: gain of red, green and blue, then the slope of the light and its colour."""
    gain = rng.uniform(0.78, 1.08, (count, 1))
    cast = rng.uniform(-0.05, 0.05, (count, 1)) * np.array([1.0, 0.0, -1.0])
    slope = rng.uniform(-0.16, 0.16, (count, 2))
    return np.concatenate([gain + cast, slope], axis=1).astype(np.float32)


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
