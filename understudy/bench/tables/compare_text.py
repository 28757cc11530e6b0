"""A comparison as a table for people and as JSON for programs."""

from __future__ import annotations

from typing import Any

from understudy.bench.tables.columns import epsilon_words
from understudy.bench.tables.compare import Comparison, Difference
from understudy.bench.tables.run_figures import MetricFacts
from understudy.bench.tables.table_words import number
from understudy.run.listing import aligned

_HEADINGS = ("", "metric", "A", "B", "B - A", "95% interval", "pairs", "")


def comparison_text(comparison: Comparison) -> str:
    """One line for each column, in portions of one dataset, budget and protocol."""
    lines = [f"A: {comparison.a}", f"B: {comparison.b}"]
    rows = [_row(found) for found in comparison.differences]
    body = aligned(_HEADINGS, rows)
    lines += ["", body[0]]
    before = None
    for found, line in zip(comparison.differences, body[1:], strict=True):
        column = found.column
        place = (column.dataset, epsilon_words(column.epsilon), column.protocol)
        if place != before:
            lines += ["", f"{place[0]}, {place[1]}, protocol {place[2]}"]
        before = place
        lines.append(line)
    lines += [
        "",
        "pairs: seeds that both sides have; -: fewer than two, so each run's own interval,",
        "which covers test images and classifiers' seeds, not another run of either method",
    ]
    if comparison.alone:
        lines.append(f"{comparison.alone} columns are left out: only one side has them")
    if comparison.left_out:
        lines.append(f"{comparison.left_out} files are left out: they are not trusted")
    return "\n".join(lines)


def comparison_json(comparison: Comparison) -> dict[str, Any]:
    return {
        "a": comparison.a,
        "b": comparison.b,
        "alone": comparison.alone,
        "left_out": comparison.left_out,
        "differences": [_json(found) for found in comparison.differences],
    }


def _json(found: Difference) -> dict[str, Any]:
    return {
        **vars(found.column),
        "method": found.method,
        "a": found.a,
        "b": found.b,
        "difference": found.interval.value,
        "low": found.interval.low,
        "high": found.interval.high,
        "pairs": found.pairs,
        "verdict": found.verdict,
    }


def _row(found: Difference) -> tuple[str, ...]:
    facts, interval = found.facts, found.interval
    return (
        f"  {found.method}" if found.method else " ",
        f"{found.column.metric} {found.column.variant}".rstrip(),
        number(found.a, facts),
        number(found.b, facts),
        _signed(interval.value, facts),
        f"{_signed(interval.low, facts)} to {_signed(interval.high, facts)}",
        str(found.pairs or "-"),
        found.verdict,
    )


def _signed(value: float, facts: MetricFacts) -> str:
    shown = number(value, facts)
    return shown if value < 0 else f"+{shown}"
