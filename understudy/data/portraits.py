"""Schematic faces, drawn by code: six attributes, no real person.

They stand in for the faces that a privacy method is meant for, where real ones must not be
shown: in documentation, in tests, in a demonstration of hiding one attribute and keeping
others. Attributes are written in fine or relative detail (the number of wrinkles, the texture
of hair and cloth, the bend of a mouth), never in mean colour; position, size, tilt, skin, hair,
cloth, background and light are drawn without regard to them. So a convolutional network can
read each attribute and a linear model on a thumbnail cannot
(`benchmarks/portraits_readability.py` measures both).
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from statistics import NormalDist

import numpy as np
import yaml

from understudy.data.drawing.canvas import Canvas
from understudy.data.drawing.face import (
    draw_age,
    draw_brows,
    draw_eyes,
    draw_freckles,
    draw_glasses,
    draw_head,
    draw_mouth,
    draw_nose,
)
from understudy.data.drawing.figure import (
    draw_background,
    draw_clothes,
    draw_hair_behind,
    draw_hair_in_front,
    draw_neck,
    light_up,
)
from understudy.data.drawing.look import Look, Palette, Ranges, draw_look
from understudy.data.records import Array, Images, Records
from understudy.data.schema import Attribute, Schema
from understudy.errors import UserError
from understudy.progress import Progress, Silent

_AT_ONCE = 32
_TRAIN = 8_000
_TEST = 2_000


@dataclass(frozen=True)
class Declaration:
    """The content of `portraits.yaml`."""

    attributes: tuple[Attribute, ...]
    shares: Mapping[str, tuple[float, ...]]
    correlation: Array
    age_lines: Mapping[str, Sequence[int]]
    palette: Palette
    ranges: Ranges


@functools.cache
def declaration() -> Declaration:
    """Attributes, class shares, correlation, colours and ranges, as declared in the data file."""
    text = files("understudy.data").joinpath("portraits.yaml").read_text(encoding="utf-8")
    data = yaml.safe_load(text)
    return Declaration(
        tuple(Attribute(name, tuple(a["classes"])) for name, a in data["attributes"].items()),
        {name: tuple(a["shares"]) for name, a in data["attributes"].items()},
        np.asarray(data["correlation"], np.float64),
        data["age_lines"],
        data["palette"],
        {name: (low, high) for name, (low, high) in data["ranges"].items()},
    )


def portraits(
    count: int = 10_000, size: int = 64, seed: int = 0, progress: Progress | None = None
) -> Records:
    """`count` portraits, uint8 [count, 3, size, size].

    The first n portraits of a seed are the same whatever the count. A size below 48 makes
    the thinnest lines fade into their surroundings.
    """
    if count < 1 or size < 8:
        raise UserError(
            f"portraits need a count of 1 and a size of 8 or more, not {count}, {size}."
        )
    declared = declaration()
    pixels = np.empty((count, 3, size, size), np.uint8)
    codes = {a.name: np.empty(count, np.int64) for a in declared.attributes}
    with (progress or Silent()).task("drawing portraits", count) as task:
        for start in range(0, count, _AT_ONCE):
            stop = min(start + _AT_ONCE, count)
            drawn, traits = _draw(np.random.default_rng([seed, start]), size, declared)
            pixels[start:stop] = drawn[: stop - start]
            for name, column in codes.items():
                column[start:stop] = traits[name][: stop - start]
            task.advance(stop - start)
    return Images(pixels, codes, Schema(declared.attributes))


def portrait_parts(size: int = 64, progress: Progress | None = None) -> dict[str, Records]:
    """The benchmark parts: 8,000 portraits to train on and 2,000 to test on, seed 0.

    Every portrait is an independent draw, so dividing them by position favours neither.
    """
    drawn = portraits(_TRAIN + _TEST, size, seed=0, progress=progress)
    return {
        "train": drawn.select(np.arange(_TRAIN)),
        "test": drawn.select(np.arange(_TRAIN, _TRAIN + _TEST)),
    }


def draw_attributes(
    rng: np.random.Generator, count: int, declared: Declaration
) -> dict[str, Array]:
    """Class codes from a Gaussian copula: correlated normals, cut at the class shares."""
    root = np.linalg.cholesky(declared.correlation)
    normals = rng.standard_normal((count, len(declared.attributes))) @ root.T
    codes: dict[str, Array] = {}
    for column, attribute in enumerate(declared.attributes):
        edges = np.cumsum(declared.shares[attribute.name])[:-1]
        cuts = [NormalDist().inv_cdf(float(edge)) for edge in edges]
        codes[attribute.name] = np.searchsorted(cuts, normals[:, column]).astype(np.int64)
    return codes


def _draw(
    rng: np.random.Generator, size: int, declared: Declaration
) -> tuple[Array, dict[str, Array]]:
    traits = draw_attributes(rng, _AT_ONCE, declared)
    look = draw_look(rng, _AT_ONCE, declared.palette, declared.ranges)
    grain = rng.standard_normal((_AT_ONCE, 3, size, size), np.float32)
    canvas = _painted(look, traits, size, declared)
    return np.rint(light_up(canvas, look, grain) * 255.0).astype(np.uint8), traits


def _painted(look: Look, traits: Mapping[str, Array], size: int, declared: Declaration) -> Canvas:
    """Back to front: each thing covers what was painted before it."""
    canvas = Canvas(look.pose, size)
    draw_background(canvas, look)
    draw_hair_behind(canvas, look, traits["hair"])
    draw_neck(canvas, look)
    draw_clothes(canvas, look, traits["clothing"])
    draw_head(canvas, look)
    draw_age(canvas, look, declared.age_lines, traits["age_band"])
    draw_freckles(canvas, look, traits["freckles"])
    draw_nose(canvas, look)
    draw_mouth(canvas, look, traits["expression"])
    draw_eyes(canvas, look)
    draw_hair_in_front(canvas, look, traits["hair"])
    draw_brows(canvas, look)
    draw_glasses(canvas, look, traits["glasses"])
    return canvas
