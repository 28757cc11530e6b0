"""Small charts as SVG text: pure functions of their numbers, coloured by the page's CSS.

Labels stand above their marks, so that a chart keeps long names at any width. Every
text goes through one escaping door (`tag` and `text`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from understudy.report import words

_CHARACTER = 6.9
"""Mean width of a character at the charts' label size: labels are cut by this estimate."""

_BOLD_CHARACTER = 8.0
_EDGE = 0.0
_ROW = 44.0


@dataclass(frozen=True)
class Bar:
    """One horizontal bar; an infinite value fills the width. `tone` is a CSS class."""

    label: str
    value: float
    text: str
    tone: str = "part"


@dataclass(frozen=True)
class Limit:
    """A line that bars are read against, such as a budget."""

    value: float
    text: str


@dataclass(frozen=True)
class DotInterval:
    """One measured value; `text` stands at its right end, `failed` says why there is none."""

    label: str
    value: float | None
    low: float | None
    high: float | None
    reference: float | None
    chance: float | None
    text: str
    failed: bool = False


@dataclass(frozen=True)
class Scale:
    """A linear map from a domain of numbers to pixels."""

    low: float
    high: float
    start: float
    stop: float

    def __call__(self, value: float) -> float:
        span = self.high - self.low
        fraction = (value - self.low) / span if span else 0.5
        return self.start + min(max(fraction, 0.0), 1.0) * (self.stop - self.start)


def ticks(low: float, high: float, most: int = 6) -> tuple[float, ...]:
    """Round numbers within [low, high], in steps of 1, 2 or 5 times a power of ten.

    >>> ticks(0.0, 1.0), ticks(0, 10, 3)
    ((0.0, 0.2, 0.4, 0.6, 0.8, 1.0), (0.0, 5.0, 10.0))
    """
    if not high > low:
        return (low,)
    rough = (high - low) / max(most - 1, 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return tuple(
        round(i * step, 12) if abs(step) > 1e-9 else i * step for i in range(first, last + 1)
    )


def tag(name: str, attributes: Mapping[str, str | float], content: str = "") -> Markup:
    """One element; numbers are shortened, strings escaped, content escaped unless markup."""
    written = Markup("").join(
        Markup(' {}="{}"').format(key, _coordinate(value)) for key, value in attributes.items()
    )
    return Markup("<{}{}>{}</{}>").format(Markup(name), written, escape(content), Markup(name))


def text(
    x: float, y: float, content: str, css: str = "label", anchor: str = "start", room: float = 0.0
) -> Markup:
    """A line of text, cut to `room` pixels; the whole of it stays in its tooltip."""
    whole = words.clean(content)
    shown = words.shorten(whole, max(int(room / _CHARACTER), 3)) if room else whole
    tooltip = tag("title", {}, whole) if shown != whole else Markup("")
    attributes: dict[str, str | float] = {"x": x, "y": y, "class": css, "text-anchor": anchor}
    return tag("text", attributes, tooltip + escape(shown))


def picture(width: float, height: float, described: str, content: Markup) -> Markup:
    """The outer element; `described` is what a screen reader says instead."""
    attributes: dict[str, str | float] = {
        "viewBox": f"0 0 {_coordinate(width)} {_coordinate(height)}",
        "class": "chart",
        "role": "img",
        "aria-label": words.clean(described),
    }
    return tag("svg", attributes, content)


def line(x1: float, y1: float, x2: float, y2: float, css: str) -> Markup:
    return tag("line", {"x1": x1, "y1": y1, "x2": x2, "y2": y2, "class": css})


def horizontal_axis(scale: Scale, top: float, bottom: float, label: str, most: int) -> Markup:
    """Grid lines from `top` to `bottom` with their numbers, and the axis' name below."""
    parts = []
    for value in ticks(scale.low, scale.high, most):
        x = scale(value)
        anchor = "start" if x < scale.start + 8 else "end" if x > scale.stop - 8 else "middle"
        parts.append(line(x, top, x, bottom, "gridline"))
        parts.append(text(x, bottom + 14, words.number(value), "tick", anchor))
    parts.append(text(scale.stop, bottom + 30, label, "axis-name", "end"))
    return Markup("").join(parts)


def _below_axis(label: str) -> float:
    return 36.0 if label else 20.0


def bars(
    rows: Sequence[Bar], *, width: float, axis: str, described: str, limit: Limit | None = None
) -> Markup:
    """Horizontal bars from zero, with an optional limit line across them."""
    finite = [row.value for row in rows if math.isfinite(row.value)]
    shown_limit = limit if limit is not None and math.isfinite(limit.value) else None
    top_value = max([*finite, shown_limit.value if shown_limit else 0.0])
    scale = Scale(0.0, top_value or 1.0, _EDGE, width - _value_room([r.text for r in rows]))
    top = 26.0 if shown_limit else 0.0
    bottom = top + _ROW * len(rows)
    axis = axis if top_value > 0 else ""
    parts = [horizontal_axis(scale, top, bottom, axis, _tick_count(width))] if axis else []
    for i, row in enumerate(rows):
        parts.append(_bar(row, top + i * _ROW, scale, width))
    if shown_limit:
        x = scale(shown_limit.value)
        parts.append(line(x, top - 8, x, bottom, "limit"))
        parts.append(text(x, top - 13, shown_limit.text, "limit-name", _outward(x, scale)))
    return picture(width, bottom + _below_axis(axis), described, Markup("").join(parts))


def _bar(row: Bar, y: float, scale: Scale, width: float) -> Markup:
    length = (scale(row.value) if math.isfinite(row.value) else scale.stop) - scale.start
    shape = {"x": scale.start, "y": y + 22, "width": max(length, 2.0), "height": 13, "rx": 2}
    return (
        tag("rect", {**shape, "class": f"bar {row.tone}"})
        + text(_EDGE, y + 15, row.label, "label", "start", width - 2 * _EDGE)
        + text(width - _EDGE, y + 33, row.text, "value", "end")
    )


def _value_room(texts: Sequence[str]) -> float:
    """Width of the column at the right that holds the values."""
    return max((len(t) for t in texts), default=0) * _BOLD_CHARACTER + 14


def _outward(x: float, scale: Scale) -> str:
    """Which way a text at `x` must run to stay on the page."""
    return "end" if x > (scale.start + scale.stop) / 2 else "start"


def dot_intervals(
    rows: Sequence[DotInterval],
    *,
    width: float,
    axis: str,
    described: str,
    bounds: tuple[float | None, float | None],
) -> Markup:
    """Values with their intervals; a diamond marks real data, a dashed tick chance."""
    right = width - _value_room([row.text for row in rows])
    scale = Scale(*_domain(rows, bounds), _EDGE, right)
    bottom = _ROW * len(rows) + 2
    parts = [horizontal_axis(scale, 0.0, bottom, axis, _tick_count(width))]
    for i, row in enumerate(rows):
        y = i * _ROW
        css = "value failed" if row.failed else "value"
        parts.append(line(scale.start, y + 29, scale.stop, y + 29, "track"))
        parts.append(text(_EDGE, y + 15, row.label, "label", "start", width - 2 * _EDGE))
        parts.append(text(width - _EDGE, y + 33, row.text, css, "end"))
        if not row.failed:
            parts.append(_dot_marks(row, y + 29, scale))
    return picture(width, bottom + _below_axis(axis), described, Markup("").join(parts))


def _dot_marks(row: DotInterval, y: float, scale: Scale) -> Markup:
    parts = []
    if row.chance is not None:
        parts.append(line(scale(row.chance), y - 8, scale(row.chance), y + 8, "chance"))
    if row.low is not None and row.high is not None:
        parts.append(line(scale(row.low), y, scale(row.high), y, "interval"))
    if row.reference is not None:
        x, r = scale(row.reference), 6.5
        corners = ((x, y - r), (x + r, y), (x, y + r), (x - r, y))
        points = " ".join(f"{across:.1f},{down:.1f}" for across, down in corners)
        parts.append(tag("polygon", {"points": points, "class": "reference"}))
    if row.value is not None:
        parts.append(tag("circle", {"cx": scale(row.value), "cy": y, "r": 4.5, "class": "dot"}))
    return Markup("").join(parts)


def _domain(
    rows: Sequence[DotInterval], bounds: tuple[float | None, float | None]
) -> tuple[float, float]:
    """The metric's own bounds where it has them, else what the marks need and a margin."""
    marks = [
        mark
        for row in rows
        for mark in (row.value, row.low, row.high, row.reference, row.chance)
        if mark is not None and math.isfinite(mark)
    ] or [0.0, 1.0]
    low, high = bounds
    margin = 0.06 * (max(marks) - min(marks)) or 0.5 * abs(marks[0]) or 0.5
    return (
        min(marks) - margin if low is None else low,
        max(marks) + margin if high is None else high,
    )


def lines(
    xs: Sequence[float],
    ys: Sequence[float],
    *,
    width: float,
    x_label: str,
    y_label: str,
    described: str,
) -> Markup:
    """One series against its axes; values that are not finite leave gaps."""
    height, left = 190.0, 48.0
    finite = [(x, y) for x, y in zip(xs, ys, strict=True) if math.isfinite(x) and math.isfinite(y)]
    if not finite:
        return picture(width, 40, described, text(_EDGE, 24, "no finite values", "label"))
    low, high = min(y for _, y in finite), max(y for _, y in finite)
    margin = 0.05 * (high - low) or 0.05 * abs(high) or 0.5
    down = Scale(low - margin, high + margin, height, 24.0)
    across = Scale(min(x for x, _ in finite), max(x for x, _ in finite), left, width - _EDGE)
    parts = [horizontal_axis(across, 24.0, height, x_label, _tick_count(width) - 1)]
    for value in ticks(down.low, down.high, 5):
        parts.append(line(left, down(value), width - _EDGE, down(value), "gridline"))
        parts.append(text(left - 6, down(value) + 4, words.number(value), "tick", "end"))
    parts.append(text(_EDGE, 14, y_label, "axis-name"))
    parts.append(tag("path", {"d": _path(xs, ys, across, down), "class": "series"}))
    return picture(width, height + _below_axis(x_label), described, Markup("").join(parts))


def _path(xs: Sequence[float], ys: Sequence[float], across: Scale, down: Scale) -> str:
    commands, drawing = [], False
    for x, y in thinned(xs, ys):
        if math.isfinite(x) and math.isfinite(y):
            commands.append(f"{'L' if drawing else 'M'}{across(x):.1f} {down(y):.1f}")
        drawing = math.isfinite(x) and math.isfinite(y)
    return "".join(commands)


def thinned(
    xs: Sequence[float], ys: Sequence[float], buckets: int = 250
) -> list[tuple[float, float]]:
    """At most two points a bucket, its lowest and highest, so that spikes survive."""
    points = [(float(x), float(y)) for x, y in zip(xs, ys, strict=True)]
    if len(points) <= 2 * buckets:
        return points
    kept: list[tuple[float, float]] = []
    for i in range(buckets):
        part = points[i * len(points) // buckets : (i + 1) * len(points) // buckets]
        finite = [p for p in part if math.isfinite(p[1])]
        if len(finite) < len(part):
            kept.append((part[0][0], math.nan))
        kept.extend(sorted({min(finite, key=_height), max(finite, key=_height)}) if finite else [])
    return kept


def certainty(ceiling: float, words_of_it: str, *, width: float, described: str) -> Markup:
    """How far a guess can rise above a coin toss: from 50% at the left to 100%."""
    scale = Scale(0.5, 1.0, _EDGE, width - _EDGE)
    x, y = scale(ceiling), 34.0
    track = {"x": scale.start, "y": y, "width": scale.stop - scale.start, "height": 14, "rx": 7}
    reached = {"x": scale.start, "y": y, "width": max(x - scale.start, 2.0), "height": 14, "rx": 7}
    parts = [
        tag("rect", {**track, "class": "bar-track"}),
        tag("rect", {**reached, "class": "bar total"}),
        line(x, y - 6, x, y + 20, "limit"),
        text(x, y - 13, words_of_it, "limit-name", _outward(x, scale)),
        text(scale.start, y + 34, "50%: a coin toss", "tick"),
        text(scale.stop, y + 34, "100%: certain", "tick", "end"),
    ]
    return picture(width, y + 42, described, Markup("").join(parts))


def at_both_widths(draw: Callable[[float], Markup]) -> Markup:
    """A chart drawn for a page and again for a phone; CSS shows the one that fits."""
    return Markup('<div class="wide">{}</div><div class="narrow">{}</div>').format(
        draw(760.0), draw(328.0)
    )


def _height(point: tuple[float, float]) -> float:
    return point[1]


def _tick_count(width: float) -> int:
    return 5 if width < 500 else 11


def _coordinate(value: str | float) -> str:
    if isinstance(value, str):
        return value
    return f"{value:.2f}".rstrip("0").rstrip(".")
