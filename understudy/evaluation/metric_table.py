"""An evaluation as plain text for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import groupby

from understudy.evaluation.metric import ClassRecall, Evaluation, Row
from understudy.evaluation.metric_registry import EXTRACTOR_NOTES, only_attacks

_WIDEST = 100
"""A table that is wider names each metric once, above its variants, to fit a terminal."""
_NOTE_WIDTH = 80

_MOST_CLASSES = 12

_Cells = tuple[str, ...]


def render_table(evaluation: Evaluation) -> str:
    """One line for each row, failures with their reason, the protocol below, then the verdict."""
    headings = _headings(evaluation)
    widths = _widths(headings, evaluation.rows)
    lines = [_line(headings, widths), _line(["-" * width for width in widths], widths)]
    if len(lines[1]) > _WIDEST:
        lines = _grouped(headings, evaluation.rows)
    else:
        lines += [_line(_shown(row), widths) for row in evaluation.rows]
    return "\n".join((*lines, *_footer(evaluation), *_verdict(evaluation.verdict)))


def _verdict(sentences: Sequence[str]) -> list[str]:
    told = [textwrap.fill(one, _NOTE_WIDTH, break_on_hyphens=False) for one in sentences]
    return ["", "verdict", *told] if told else []


def _headings(evaluation: Evaluation) -> _Cells:
    attacks = only_attacks(evaluation.protocol.metrics)
    control = "held-out" if attacks else "real data"
    return ("metric", "variant", "value", "interval", control, "chance", "better")


def _grouped(headings: _Cells, rows: Sequence[Row]) -> list[str]:
    """Variants in lines of their own, indented below the metric that they are of."""
    under = ("  variant", *headings[2:])
    widths = _widths(headings, rows)[1:]
    widths[0] = max(len(under[0]), widths[0] + 2)
    lines = [headings[0], _line(under, widths), _line(["-" * width for width in widths], widths)]
    for metric, group in groupby(rows, key=lambda row: row.metric):
        lines.append(metric)
        lines += [_line((f"  {row.variant}", *_shown(row)[2:]), widths) for row in group]
    return lines


def _widths(headings: _Cells, rows: Sequence[Row]) -> list[int]:
    cells = [headings, *(_cells(row) for row in rows)]
    return [max(len(line[i]) for line in cells) for i in range(len(headings))]


def _footer(evaluation: Evaluation) -> list[str]:
    protocol = evaluation.protocol
    seeds = "1 seed" if protocol.seeds == 1 else f"{protocol.seeds} seeds"
    lines = ["", f"protocol: {protocol.name}, {seeds}, {evaluation.synthetic_count} synthetic"]
    if evaluation.rows:
        lines.append(f"intervals: {evaluation.rows[0].confidence:.0%} confidence")
    if "held-out" in _headings(evaluation):
        lines.append("held-out: the same figure for real records that the method never saw")
    lines += _classes(evaluation.rows)
    lines += _notes(evaluation.rows)
    used = dict.fromkeys(row.extractor for row in evaluation.rows if row.extractor)
    lines += [f"{name}: {EXTRACTOR_NOTES[name]}" for name in used if name in EXTRACTOR_NOTES]
    return [*lines, protocol.stamp] if protocol.stamp else lines


def _classes(rows: Sequence[Row]) -> list[str]:
    """What each mean over classes is a mean of; of many classes the lowest."""
    lines = []
    for row in (row for row in rows if row.classes):
        shown = row.classes
        which = "by class"
        if len(shown) > _MOST_CLASSES:
            shown = tuple(sorted(shown, key=lambda one: one.recall)[:_MOST_CLASSES])
            which = f"of the {_MOST_CLASSES} lowest of {len(row.classes)} classes"
        words = f"recall {which}, {row.variant} (real data): {'; '.join(map(_recall, shown))}"
        lines.append(textwrap.fill(words, _NOTE_WIDTH, subsequent_indent="    "))
    return lines


def _recall(one: ClassRecall) -> str:
    reference = "" if one.reference is None else f" ({one.reference:.2f})"
    return f"{one.name}: {one.recall:.2f}{reference}"


def _notes(rows: Sequence[Row]) -> list[str]:
    """Each note once, with the rows that it is about."""
    about: dict[str, dict[str, list[str]]] = {}
    for row in rows:
        if row.note is not None:
            about.setdefault(row.note, {}).setdefault(row.metric, []).append(row.variant)
    lines = []
    for note, metrics in about.items():
        names = "; ".join(_name(metric, variants, rows) for metric, variants in metrics.items())
        words = f"note on {names}: {note}"
        lines.append(
            textwrap.fill(words, _NOTE_WIDTH, subsequent_indent="    ", break_on_hyphens=False)
        )
    return lines


def _name(metric: str, variants: Sequence[str], rows: Sequence[Row]) -> str:
    """The metric; with those of its variants that are meant, where it has others."""
    every = [row.variant for row in rows if row.metric == metric]
    named = [variant for variant in variants if variant]
    if not named or (len(every) > 1 and list(variants) == every):
        return metric
    return f"{metric} ({'; '.join(named)})"


def _shown(row: Row) -> _Cells:
    cells = _cells(row)
    return (*cells[:2], f"failed: {row.reason}") if row.status == "failed" else cells


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row.metric,
        row.variant,
        _number(row, row.value),
        "" if row.low is None else f"{_number(row, row.low)} to {_number(row, row.high)}",
        _number(row, row.reference),
        _number(row, row.chance),
        "" if row.direction == "none" else row.direction,
    )


def _number(row: Row, value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}" if row.unit == "fraction" else f"{value:.4g}"


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=False)).rstrip()
