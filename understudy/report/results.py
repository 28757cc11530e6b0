"""Measured results as the owner reads them: rows, groups that share an axis, failures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from understudy.evaluation.metric_registry import only_attacks
from understudy.report import svg, words

_DIRECTIONS = {"higher": "higher is better", "lower": "lower is better"}
_ARROWS = {"higher": "↑", "lower": "↓"}
_LONGEST_HEADING = 80
_RECALL_WIDTH = 0.1
"""Recalls are told to two decimals: most classes have a few dozen test records."""
_SHOWN_APART = ("name", "stamp")

Bounds = tuple[float | None, float | None]


@dataclass(frozen=True)
class ClassRow:
    """The recall of one class, in words: of synthetic records, and of real ones."""

    name: str
    tested: str
    recall: str
    reference: str


@dataclass(frozen=True)
class ResultRow:
    """One metric on one variant; numbers are None where the measurement failed."""

    metric: str
    variant: str
    direction: str
    unit: str
    bounds: Bounds
    value: float | None
    low: float | None
    high: float | None
    confidence: float | None
    reference: float | None
    chance: float | None
    seeds: int
    failed: bool
    reason: str
    note: str = ""
    classes: tuple[ClassRow, ...] = ()

    @property
    def label(self) -> str:
        return f"{self.metric} · {self.variant}" if self.variant else self.metric

    @property
    def arrow(self) -> str:
        return _ARROWS.get(self.direction, "")

    @property
    def direction_words(self) -> str:
        return _DIRECTIONS.get(self.direction, "")

    @property
    def value_words(self) -> str:
        return self._told(self.value)

    @property
    def interval_words(self) -> str:
        if self.low is None or self.high is None or self.failed:
            return ""
        return f"{self._told(self.low)} to {self._told(self.high)}"

    @property
    def reference_words(self) -> str:
        return self._told(self.reference)

    @property
    def chance_words(self) -> str:
        return self._told(self.chance)

    def _told(self, value: float | None) -> str:
        """All of a row's numbers to the precision that its interval allows."""
        width = None if self.low is None or self.high is None else self.high - self.low
        return "" if value is None else words.to_precision(value, width)


@dataclass(frozen=True)
class ResultGroup:
    """Rows that can share one axis, and the chart of them."""

    heading: str
    chart: Markup


@dataclass(frozen=True)
class Results:
    protocol: str
    stamp: str
    protocol_settings: tuple[tuple[str, str], ...]
    dataset: str
    synthetic_count: int | None
    rows: tuple[ResultRow, ...]
    groups: tuple[ResultGroup, ...]
    control: str
    verdict: tuple[str, ...] = ()

    @property
    def failures(self) -> int:
        return sum(row.failed for row in self.rows)

    @property
    def interval_heading(self) -> str:
        """The interval's level where all rows share it, else just its name."""
        levels = {row.confidence for row in self.rows if not row.failed and row.confidence}
        return f"{words.number(100 * levels.pop())}% interval" if len(levels) == 1 else "interval"


def results(metrics: Mapping[str, Any]) -> Results:
    """Read a `metrics.json` object for display; a row without a number is a failure."""
    protocol = metrics.get("protocol") or {}
    rows = tuple(_row(item) for item in metrics.get("rows") or ())
    return Results(
        protocol=str(protocol.get("name") or "not stated"),
        stamp=str(protocol.get("stamp") or ""),
        protocol_settings=tuple(
            (str(key), words.plain(value))
            for key, value in protocol.items()
            if key not in _SHOWN_APART
        ),
        dataset=str(metrics.get("dataset") or "not stated"),
        synthetic_count=metrics.get("synthetic_count"),
        rows=rows,
        groups=_groups(rows),
        control=_control(protocol.get("metrics") or ()),
        verdict=tuple(map(str, metrics.get("verdict") or ())),
    )


def _control(metrics: Sequence[object]) -> str:
    """What stands beside each figure; attacks are held against records that were not fitted on."""
    return "held-out" if only_attacks([str(m) for m in metrics]) else "real"


def _row(item: Mapping[str, Any]) -> ResultRow:
    value = _finite(item.get("value"))
    failed = item.get("status") != "ok" or value is None
    bounds = item.get("bounds") or (None, None)
    return ResultRow(
        metric=str(item.get("metric")),
        variant=_variant(item),
        direction=str(item.get("direction") or "none"),
        unit=str(item.get("unit") or ""),
        bounds=(_finite(bounds[0]), _finite(bounds[1])),
        value=None if failed else value,
        low=_finite(item.get("low")),
        high=_finite(item.get("high")),
        confidence=_finite(item.get("confidence")),
        reference=_finite(item.get("reference")),
        chance=_finite(item.get("chance")),
        seeds=len(item.get("seeds") or ()),
        failed=failed,
        reason=str(item.get("reason") or "no reason was recorded") if failed else "",
        note="" if failed else str(item.get("note") or ""),
        classes=() if failed else tuple(map(_class_row, item.get("classes") or ())),
    )


def _class_row(item: Mapping[str, Any]) -> ClassRow:
    reference = _finite(item.get("reference"))
    return ClassRow(
        name=str(item["name"]),
        tested=f"{item['tested']:,}",
        recall=words.to_precision(item["recall"], _RECALL_WIDTH),
        reference="" if reference is None else words.to_precision(reference, _RECALL_WIDTH),
    )


def _variant(item: Mapping[str, Any]) -> str:
    """The classifier or extractor, unless the metric's own name already says it."""
    named = (item.get("variant"), item.get("extractor"))
    metric = str(item.get("metric"))
    return ", ".join(dict.fromkeys(str(n) for n in named if n and str(n) not in metric))


def _groups(rows: Sequence[ResultRow]) -> tuple[ResultGroup, ...]:
    """Bounded metrics of one scale together, each unbounded metric by itself."""
    grouped: dict[tuple[object, ...], list[ResultRow]] = {}
    for row in rows:
        bounded = None not in row.bounds
        key = (row.direction, row.unit, row.bounds, None if bounded else row.metric)
        grouped.setdefault(key, []).append(row)
    return tuple(_group(members) for members in grouped.values())


def _group(members: Sequence[ResultRow]) -> ResultGroup:
    first = members[0]
    metrics = list(dict.fromkeys(row.metric for row in members))
    name = ", ".join(metrics)
    if len(name) > _LONGEST_HEADING:
        name = f"{len(metrics)} metrics on one scale"
    heading = f"{name} ({first.direction_words})" if first.direction_words else name
    marks = [_mark(row) for row in members]
    described = f"{heading}. " + "; ".join(f"{row.label}: {_told(row)}" for row in members)

    def draw(width: float) -> Markup:
        return svg.dot_intervals(
            marks, width=width, axis=first.unit, described=described, bounds=first.bounds
        )

    return ResultGroup(heading=heading, chart=svg.at_both_widths(draw))


def _mark(row: ResultRow) -> svg.DotInterval:
    return svg.DotInterval(
        label=row.label,
        value=row.value,
        low=row.low,
        high=row.high,
        reference=row.reference,
        chance=row.chance,
        text="failed" if row.failed else row.value_words,
        failed=row.failed,
    )


def _told(row: ResultRow) -> str:
    if row.failed:
        return "failed"
    told = row.value_words
    if row.interval_words:
        told += f", interval {row.interval_words}"
    return told + (f", real data {row.reference_words}" if row.reference_words else "")


def _finite(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None
