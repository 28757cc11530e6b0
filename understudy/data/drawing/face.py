"""The face itself: head, eyes, mouth, and the marks of age, sight and sun."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from understudy.data.drawing.canvas import Box, Canvas, Floats
from understudy.data.drawing.look import FRECKLES, Look
from understudy.data.drawing.shapes import bow, ellipse, rounded_box
from understudy.data.records import Array

EYE_X, EYE_Y = 5.9, 0.6
LIPS = np.array([0.78, 0.32, 0.32], np.float32)
LINE = 0.56


def draw_head(canvas: Canvas, look: Look) -> None:
    window = canvas.window(Box(-18.0, -19.0, 18.0, 19.0))
    side = np.abs(window.u)
    ears = window.inside(ellipse(side - look["face_width"], window.v - 1.5, 2.6, 3.4))
    window.paint(ears, 0.90 * look.skin)
    taper = 1.0 - 0.10 * np.clip(window.v / 18.0, 0.0, 1.0)
    face = window.inside(
        ellipse(window.u / taper, window.v, look["face_width"], look["face_height"])
    )
    edge = (window.u / 15.0) ** 2 + (window.v / 19.0) ** 2
    window.paint(face, look.skin[:, :, None, None] * (1.03 - 0.10 * edge)[:, None])
    glow = np.exp(-((side - 7.6) ** 2 + (window.v - 6.4) ** 2) / 7.0) * look["blush"]
    window.paint(glow * face, look.skin * np.array([1.0, 0.62, 0.60], np.float32))
    around_eyes = np.exp(-((side - EYE_X) ** 2 + (window.v - EYE_Y) ** 2) / 18.0)
    window.shade(around_eyes * face, 1.0 + look["eye_shade"])


def draw_eyes(canvas: Canvas, look: Look) -> None:
    window = canvas.window(Box(-11.0, -4.0, 11.0, 4.5))
    side, v = np.abs(window.u) - EYE_X, window.v - EYE_Y
    white = ellipse(side, v, 3.0, look["eye_height"])
    open_eye = window.inside(white)
    window.paint(open_eye, np.full_like(look.skin, 0.97))
    toward = np.where(window.u > 0.0, look["gaze"], -look["gaze"])
    iris = np.sqrt((side - toward) ** 2 + v**2)
    window.paint(open_eye * window.inside(iris - 1.65), look.iris)
    window.paint(open_eye * window.inside(iris - 0.8), np.full_like(look.skin, 0.05))
    spark = np.sqrt((side - toward + 0.5) ** 2 + (v + 0.6) ** 2)
    window.paint(window.inside(spark - 0.42), np.full_like(look.skin, 1.0))
    lid = window.along(np.abs(white), 0.8) * (v < 0.2)
    window.shade(lid, 0.35)


def draw_brows(canvas: Canvas, look: Look) -> None:
    window = canvas.window(Box(-11.0, -6.5, 11.0, -1.0))
    side = np.abs(window.u) - EYE_X
    height = window.v + 3.6 + look["brow_tilt"] * side
    window.paint(window.along(bow(side, height, -0.7, 3.3), look["brow_width"]), 0.72 * look.hair)


def draw_nose(canvas: Canvas, look: Look) -> None:
    window = canvas.window(Box(-3.5, -1.0, 3.5, 8.0))
    tip = look["nose_length"] + 0.8
    bridge = rounded_box(window.u + 1.0, window.v - 0.5 * tip, 0.1, 0.5 * tip - 0.6, 0.1)
    window.shade(window.along(np.abs(bridge), 0.6), 0.86)
    window.shade(window.along(bow(window.u, window.v - tip, 0.8, 1.9), 0.9), 0.66)


def draw_mouth(canvas: Canvas, look: Look, expression: Array) -> None:
    """The corners of the mouth hang, lie level or rise."""
    window = canvas.window(Box(-7.0, 5.5, 7.0, 14.0))
    direction = (expression - 1)[:, None, None].astype(np.float32)
    sag = direction * look["mouth_strength"] + 0.3 * look["wobble"]
    middle = window.v - 10.2 + 0.5 * sag
    lips = bow(window.u, middle, sag, look["mouth_reach"])
    window.paint(window.along(lips, look["lip_width"]), 0.55 * LIPS + 0.35 * look.skin)
    window.shade(window.along(lips, 0.5), 0.5)


def draw_age(canvas: Canvas, look: Look, lines: Mapping[str, Sequence[int]], age: Array) -> None:
    """Lines on the forehead, beside the eyes and beside the mouth: the attribute counts them."""
    count = {place: np.asarray(table)[age][:, None, None] for place, table in lines.items()}
    forehead = canvas.window(Box(-9.0, -12.5, 9.0, -4.5))
    for k in range(3):
        v = forehead.v + 6.0 + 2.1 * k - 0.4 * look["wobble"]
        line = forehead.along(bow(forehead.u, v, -0.5, 6.6 - 0.9 * k), 1.0)
        forehead.shade(line * (count["forehead"] > k), LINE)
    eyes = canvas.window(Box(-14.0, -4.0, 14.0, 5.5))
    for k, (height, slant) in enumerate(((3.3, 0.4), (-2.0, -0.4))):
        side = np.abs(eyes.u) - 11.6
        line = eyes.along(bow(side, eyes.v - height - slant * side, 0.0, 1.5), 1.0)
        eyes.shade(line * (count["eyes"] > k), LINE)
    mouth = canvas.window(Box(-11.5, 4.0, 11.5, 16.5))
    for k in range(2):
        side = np.abs(mouth.u) - 5.7 - 2.2 * k
        line = mouth.along(bow(mouth.v - 9.4 - 0.5 * k, side, 1.2, 3.2 - 0.4 * k), 1.0)
        mouth.shade(line * (count["mouth"] > k), LINE)
    chin = mouth.along(bow(mouth.u, mouth.v - 14.8, -0.6, 2.6), 1.0)
    mouth.shade(chin * (count["chin"] > 0), LINE)


def draw_freckles(canvas: Canvas, look: Look, freckled: Array) -> None:
    """Dots over nose and cheeks, anywhere in a band, on those who have them."""
    window = canvas.window(Box(-10.5, 2.3, 10.5, 7.2))
    nearest = np.full_like(window.u, 99.0)
    for k in range(FRECKLES):
        place = look.freckles[:, k, :, None, None]
        left = -9.0 + 18.0 * (k + place[:, 0]) / FRECKLES
        dot = (window.u - left) ** 2 + (window.v - 3.4 - 2.6 * place[:, 1]) ** 2
        nearest = np.minimum(nearest, dot)
    dots = window.inside(np.sqrt(nearest) - 0.62)
    window.shade(dots * (freckled == 1)[:, None, None], 0.66)


def draw_glasses(canvas: Canvas, look: Look, worn: Array) -> None:
    """Frames, dark on pale skin and pale on dark skin, on those who wear them."""
    window = canvas.window(Box(-15.5, -5.0, 15.5, 6.5))
    side, v = np.abs(window.u), window.v - EYE_Y - 0.3
    rim = rounded_box(side - EYE_X, v, 4.3, 3.7, look["frame_round"])
    bridge = bow(window.u, v + 0.8, -0.6, 1.7)
    arm = bow(side - 12.3, v + 1.4, 0.0, 2.2)
    frame = _any(
        window.along(np.abs(rim), look["frame_width"]),
        window.along(bridge, look["frame_width"]),
        window.along(arm, look["frame_width"]),
    )
    wears = (worn == 1)[:, None, None]
    window.paint(0.10 * window.inside(rim) * wears, np.full_like(look.skin, 0.9))
    window.paint(frame * wears, look.frame)


def _any(*covers: Floats) -> Floats:
    joined = covers[0]
    for cover in covers[1:]:
        joined = np.maximum(joined, cover)
    return joined
