"""Charts of evidence as pictures that stand alone, in light and in dark."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from understudy.report import svg

STYLE = """
svg { --surface: #ffffff; --ink: #1b2631; --muted: #525d69; --rule: #dedbd2; --accent: #1d5c68; }
@media (prefers-color-scheme: dark) {
  svg { --surface: #191f26; --ink: #e7eaed; --muted: #a6b0ba; --rule: #313b45; --accent: #86c8d2; }
}
svg { background: var(--surface); font-family: system-ui, sans-serif; }
text { fill: var(--ink); font-size: 13px; }
text { stroke: var(--surface); stroke-width: 4px; stroke-linejoin: round; paint-order: stroke; }
.tick, .axis-name { fill: var(--muted); font-size: 12px; }
.value { font-weight: 600; }
.gridline { stroke: var(--rule); stroke-width: 1; }
.track { stroke: var(--rule); stroke-width: 2; }
.interval { stroke: var(--accent); stroke-width: 5; stroke-linecap: round; opacity: .45; }
.dot { fill: var(--accent); stroke: var(--surface); stroke-width: 1.5; }
.chance { stroke: var(--ink); stroke-width: 2; stroke-dasharray: 3 2; }
"""

_CURVES = """
svg { --first: #1d5c68; --second: #b4561f; --third: #6a4fa3; --fourth: #3f6b1f; }
svg { --fifth: #8c2f5e; }
@media (prefers-color-scheme: dark) {
  svg { --first: #86c8d2; --second: #f0a46f; --third: #bda7ef; --fourth: #a9d181; }
  svg { --fifth: #e79cc0; }
}
path { fill: none; stroke-width: 2; }
.first { stroke: var(--first); }
.second { stroke: var(--second); }
.third { stroke: var(--third); }
.fourth { stroke: var(--fourth); }
.fifth { stroke: var(--fifth); }
circle { fill: var(--surface); stroke-width: 2; }
path.second { stroke-dasharray: 7 3; }
path.third { stroke-dasharray: 2 3; }
path.fourth { stroke-dasharray: 10 3 2 3; }
path.fifth { stroke-dasharray: 4 4; }
.raw { stroke: var(--ink); stroke-width: 1; }
"""
"""Each curve has a colour and a dash of its own, for those who see no colours."""

_CELLS = """
.cell { fill: var(--accent); stroke: var(--rule); stroke-width: .5; }
"""

_TONES = ("first", "second", "third", "fourth", "fifth")
_WIDTH, _GAP, _LEFT, _TOP, _BOTTOM = 216.0, 46.0, 40.0, 74.0, 250.0
_CELL = 24.0
_LETTER = 7.2
"""About as wide as one; text that is wider than its picture would be cut off."""

_MARGIN = 12


def standalone(chart: Markup, more_style: str = "") -> str:
    """A chart of `understudy.report.svg` with its colours and a margin, as the text of a file."""
    drawn = str(chart).replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    head, rest = drawn.split(">", 1)
    head, found = re.subn(r'viewBox="0 0 (\d+) (\d+)"', _with_margin, head)
    if not found:
        raise ValueError("a picture's sides must be whole numbers.")
    return f"{head}><style>{STYLE}{more_style}</style>{rest}\n"


def _with_margin(box: re.Match[str]) -> str:
    """In the picture's own units: viewers cut off what a style's padding pushes out."""
    width, height = (int(side) + 2 * _MARGIN for side in box.groups())
    return f'viewBox="-{_MARGIN} -{_MARGIN} {width} {height}" width="{width}"'


@dataclass(frozen=True)
class Mark:
    """One measured value at one place of the horizontal axis."""

    x: float
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Panel:
    """Curves by name over one pair of axes; `raw`, where it was measured, and `chance` are lines
    across."""

    title: str
    curves: Mapping[str, Sequence[Mark]]
    raw: float | None
    chance: float
    bounds: tuple[float, float]


@dataclass(frozen=True)
class Axis:
    """The horizontal one: from zero, or logarithmic with these numbers on it."""

    name: str
    numbers: tuple[float, ...] = ()

    def place(self, x: float) -> float:
        return math.log(x) if self.numbers else x

    def scale(self, places: Sequence[float], left: float) -> svg.Scale:
        ends = self.numbers or (0.0, max(places))
        return svg.Scale(self.place(ends[0]), self.place(ends[-1]), left, left + _WIDTH)

    def drawn(self, across: svg.Scale) -> Markup:
        if not self.numbers:
            return svg.horizontal_axis(across, _TOP, _BOTTOM, self.name, 6)
        parts = [svg.text(across.stop, _BOTTOM + 30, self.name, "axis-name", "end")]
        for number in self.numbers:
            x = across(self.place(number))
            parts.append(svg.line(x, _TOP, x, _BOTTOM, "gridline"))
            parts.append(svg.text(x, _BOTTOM + 14, f"{number:g}", "tick", "middle"))
        return Markup("").join(parts)


def panels(shown: Sequence[Panel], axis: Axis, y_label: str, raw: str = "raw") -> str:
    """Panels side by side with one legend; the same names have the same colours in all.

    raw: what the panels' line across for undisturbed data is called.
    """
    names = list(dict.fromkeys(name for panel in shown for name in panel.curves))
    tones = dict(zip(names, _TONES[: len(names)], strict=True))
    across = [raw] if any(panel.raw is not None for panel in shown) else []
    legend, needed = _legend({**tones, **dict.fromkeys(across, "raw"), "chance": "chance"})
    side_by_side = _LEFT + len(shown) * (_WIDTH + _GAP) - _GAP + 12
    width = round(max(side_by_side, needed, _LETTER * len(y_label)))
    parts = [legend, svg.text(0, 58, y_label, "axis-name")]
    for number, panel in enumerate(shown):
        parts.append(_panel(panel, _LEFT + number * (_WIDTH + _GAP), tones, axis))
    described = "; ".join(_in_words(panel, raw) for panel in shown)
    chart = svg.picture(width, _BOTTOM + 36, f"{y_label}. {described}", Markup("").join(parts))
    return standalone(chart, _CURVES)


def _legend(tones: Mapping[str, str]) -> tuple[Markup, float]:
    """The names with their lines, and how wide they are."""
    parts, x = [], 0.0
    for name, tone in tones.items():
        if tone in _TONES:
            parts.append(svg.tag("path", {"d": f"M{x} 10L{x + 26} 10", "class": tone}))
        else:
            parts.append(svg.line(x, 10, x + 26, 10, tone))
        parts.append(svg.text(x + 32, 14, name))
        x += 32 + _LETTER * len(name) + 22
    return Markup("").join(parts), x


def _panel(panel: Panel, left: float, tones: Mapping[str, str], axis: Axis) -> Markup:
    places = [mark.x for marks in panel.curves.values() for mark in marks]
    across = axis.scale(places, left)
    down = svg.Scale(*panel.bounds, _BOTTOM, _TOP)
    parts = [svg.text(left, 38, panel.title, "value")]
    parts.append(axis.drawn(across))
    for value in svg.ticks(*panel.bounds, 6):
        parts.append(svg.line(left, down(value), left + _WIDTH, down(value), "gridline"))
        parts.append(svg.text(left - 6, down(value) + 4, f"{value:g}", "tick", "end"))
    for height, css in ((panel.raw, "raw"), (panel.chance, "chance")):
        if height is not None:
            parts.append(svg.line(left, down(height), left + _WIDTH, down(height), css))
    for name, marks in panel.curves.items():
        points = [(across(axis.place(mark.x)), down(mark.value)) for mark in marks]
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        parts.append(svg.tag("path", {"d": f"M{path}", "class": tones[name]}))
        for mark, (x, y) in zip(marks, points, strict=True):
            parts.append(svg.line(x, down(mark.low), x, down(mark.high), tones[name]))
            parts.append(svg.tag("circle", {"cx": x, "cy": y, "r": 3, "class": tones[name]}))
    return Markup("").join(parts)


def _in_words(panel: Panel, raw: str) -> str:
    curves = (
        f"{name} {', '.join(f'{mark.value:.3f} at {mark.x:g}' for mark in marks)}"
        for name, marks in panel.curves.items()
    )
    measured = "" if panel.raw is None else f"{raw} {panel.raw:.3f}, "
    lines = f"{measured}chance {panel.chance:.3f}"
    return f"{panel.title}: {lines}, {', '.join(curves)}"


def matrices(tables: Mapping[str, Sequence[Sequence[float]]], classes: Sequence[str]) -> str:
    """Confusion matrices side by side: rows are true classes, in percent."""
    side = _CELL * max(len(classes), 4)
    cell, left, parts = side / len(classes), _LEFT, []
    for title, table in tables.items():
        parts.append(svg.text(left, 14, title, "value"))
        parts.append(_matrix(table, classes, left, cell))
        left += side + _GAP
    right = (
        f"{title}: {sum(row[i] for i, row in enumerate(table)) / len(classes):.0%} right"
        for title, table in tables.items()
    )
    described = f"Answers (columns) to true classes (rows). {'; '.join(right)}"
    chart = svg.picture(left - _GAP + 12, side + 62, described, Markup("").join(parts))
    return standalone(chart, _CELLS)


def _matrix(
    table: Sequence[Sequence[float]], classes: Sequence[str], left: float, cell: float
) -> Markup:
    top, parts = 28.0, []
    for i, (name, row) in enumerate(zip(classes, table, strict=True)):
        y = top + i * cell
        parts.append(svg.text(left - 6, y + cell / 2 + 4, name, "tick", "end"))
        foot = top + len(classes) * cell + 14
        parts.append(svg.text(left + (i + 0.5) * cell, foot, name, "tick", "middle"))
        for j, share in enumerate(row):
            x = left + j * cell
            shape = {"x": x, "y": y, "width": cell, "height": cell, "class": "cell"}
            parts.append(svg.tag("rect", {**shape, "fill-opacity": share}))
            if share >= 0.005:
                words = f"{share:.0%}".removesuffix("%")
                parts.append(svg.text(x + cell / 2, y + cell / 2 + 4, words, "tick", "middle"))
    end = left + len(classes) * cell
    parts.append(svg.text(end, top + len(classes) * cell + 30, "answered", "axis-name", "end"))
    return Markup("").join(parts)


def scatter(points: Sequence[tuple[float, float]], classes: Sequence[int], title: str) -> str:
    """Points of a projection, a colour for each class, whose number stands at its median."""
    size, top = 520.0, 28.0
    across, down = (
        svg.Scale(min(p[i] for p in points), max(p[i] for p in points), *ends)
        for i, ends in ((0, (0.0, size)), (1, (top + size, top)))
    )
    many = max(classes) + 1
    parts = [svg.text(0, 14, title, "value")]
    for (x, y), code in zip(points, classes, strict=True):
        colour = f"hsl({360 * code // many}, 65%, 45%)"
        place = {"cx": across(x), "cy": down(y), "r": 1.4}
        parts.append(svg.tag("circle", {**place, "fill": colour}))
    for code in sorted(set(classes)):
        own = [p for p, c in zip(points, classes, strict=True) if c == code]
        x, y = (sorted(p[i] for p in own)[len(own) // 2] for i in (0, 1))
        parts.append(svg.text(across(x), down(y), str(code), "value", "middle"))
    return standalone(svg.picture(size, top + size, title, Markup("").join(parts)))
