"""What stands behind and around the face: background, neck, clothes, hair, light."""

from __future__ import annotations

import numpy as np

from understudy.data.drawing.canvas import Box, Canvas, Floats, Window
from understudy.data.drawing.look import Look
from understudy.data.drawing.shapes import ellipse, rounded_box
from understudy.data.records import Array

_TURN = np.float32(2.0 * np.pi)
_WARM = np.array([1.0, 0.0, -1.0], np.float32)[:, None, None]


def draw_background(canvas: Canvas, look: Look) -> None:
    """A wall, a little darker away from the figure."""
    distance = np.sqrt(canvas.u**2 + (canvas.v - 4.0) ** 2) / 46.0
    falloff = 1.06 - 0.30 * distance * distance
    canvas.colours[...] = look.background[:, :, None, None] * falloff[:, None]


def draw_neck(canvas: Canvas, look: Look) -> None:
    window = canvas.window(Box(-7.0, 10.0, 7.0, 27.0))
    neck = window.inside(rounded_box(window.u, window.v - 18.0, 5.6, 9.0, 2.0))
    window.paint(neck, look.skin)
    chin_shadow = np.clip((21.0 - window.v) / 5.0, 0.0, 1.0)
    window.shade(neck * chin_shadow, 0.78)


def draw_clothes(canvas: Canvas, look: Look, clothing: Array) -> None:
    """Shoulders in one colour or two; where the second colour goes is the attribute."""
    window = canvas.window(Box(-40.0, 19.0, 40.0, 50.0))
    shoulders = ellipse(window.u, window.v - 41.0, 26.0, 20.0)
    neckline = ellipse(window.u, window.v - 19.5, 7.4, 5.0)
    body = window.inside(np.maximum(shoulders, -neckline))
    window.paint(body, look.cloth)
    window.paint(body * _pattern(window, look, clothing), look.second_cloth)
    collar = window.along(np.abs(neckline), 1.4) * window.inside(shoulders)
    window.paint(collar, 0.75 * look.cloth)


def _pattern(window: Window, look: Look, clothing: Array) -> Floats:
    """Where the second colour shows: nowhere, stripes, hoops, checks or dots."""
    turn = _TURN / look["cloth_period"]
    across = np.cos(window.u * turn + look["cloth_phase"])
    down = np.cos(window.v * turn + 1.7 * look["cloth_phase"])
    sharpness = 1.6 * look["cloth_period"] / (np.pi * window.pixel)
    wave = np.select(
        [_is(clothing, code) for code in range(5)],
        [np.float32(-9.0), across, down, across * down * 1.6, across + down - 0.7],
    )
    return np.asarray(np.clip(0.5 + 0.5 * wave * sharpness, 0.0, 1.0), np.float32)


def draw_hair_behind(canvas: Canvas, look: Look, hair: Array) -> None:
    """Hair that falls beside the neck, as far as the look says."""
    window = canvas.window(Box(-19.0, -24.0, 19.0, 27.0))
    width = look["face_width"] + look["hair_volume"]
    half = 0.5 * (look["hair_length"] + 12.0)
    fall = rounded_box(window.u, window.v + 6.0 - half + 2.0, width, half + 4.0, 7.0)
    dome = ellipse(window.u, window.v + 2.5, width, look["face_height"] + look["hair_volume"] - 1.0)
    fall = np.where(window.v < -2.0, dome, fall)
    window.paint(window.inside(fall), 0.8 * _strands(window, look, hair))


def draw_hair_in_front(canvas: Canvas, look: Look, hair: Array) -> None:
    """The cap of hair above the forehead."""
    window = canvas.window(Box(-19.0, -24.0, 19.0, 4.0))
    width = look["face_width"] + look["hair_volume"]
    dome = ellipse(window.u, window.v + 2.5, width, look["face_height"] + look["hair_volume"] - 1.0)
    hairline = look["hairline"] + 0.068 * window.u**2
    above = (window.v - hairline) / np.sqrt(1.0 + (0.136 * window.u) ** 2)
    window.paint(window.inside(np.maximum(dome, above)), _strands(window, look, hair))
    window.shade(window.inside(np.maximum(dome, np.abs(above - 0.5) - 0.5)), 0.82)


def _strands(window: Window, look: Look, hair: Array) -> Floats:
    """Hair colour [B, 3, h, w] with the texture of the attribute, of the same mean for all."""
    turn = _TURN / look["hair_period"]
    u, v, phase = window.u, window.v, look["hair_phase"]
    bend = np.where(_is(hair, 1), 1.3 * np.sin(v * (0.5 * turn) + phase), np.float32(0.0))
    bend = np.where(_is(hair, 3), v, bend)
    wave = np.cos((u + bend) * turn + phase)
    wave = np.where(_is(hair, 2), 1.4 * wave * np.cos(v * turn), wave)
    sheen = 1.0 + 0.14 * np.exp(-((v + 17.0 - 0.04 * u * u) ** 2) / 10.0)
    return look.hair[:, :, None, None] * (sheen * (1.0 + 0.26 * wave))[:, None] + 0.03


def light_up(canvas: Canvas, look: Look, grain: Floats) -> Floats:
    """The picture as a camera sees it: light from one side, warm or cool, and grain."""
    slope = 1.0 + (look["light_across"] * canvas.u + look["light_down"] * canvas.v) / 32.0
    tint = look["light"][:, None] + look["warmth"][:, None] * _WARM
    seen = canvas.colours * (slope[:, None] * tint)
    seen += grain * look["grain"][:, None]
    return np.clip(seen, 0.0, 1.0, out=seen)


def _is(codes: Array, code: int) -> Array:
    return np.equal(codes, code)[:, None, None]
