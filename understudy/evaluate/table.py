"""An evaluation as plain text for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from understudy.evaluate.metric import Evaluation, Row
from understudy.evaluate.registry import EXTRACTOR_NOTES

_HEADINGS = ("metric", "variant", "value", "interval", "real data", "chance", "better")


def render_table(evaluation: Evaluation) -> str:
    """One line for each row, failures with their reason, and the protocol below."""
    cells = [_HEADINGS, *(_cells(row) for row in evaluation.rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(_HEADINGS))]
    lines = [_line(_HEADINGS, widths), _line(["-" * width for width in widths], widths)]
    for row in evaluation.rows:
        shown = _cells(row)
        if row.status == "failed":
            shown = (*shown[:2], f"failed: {row.reason}")
        lines.append(_line(shown, widths))
    return "\n".join((*lines, *_footer(evaluation)))


def _footer(evaluation: Evaluation) -> list[str]:
    protocol = evaluation.protocol
    seeds = "1 seed" if protocol.seeds == 1 else f"{protocol.seeds} seeds"
    lines = ["", f"protocol: {protocol.name}, {seeds}, {evaluation.synthetic_count} synthetic"]
    if evaluation.rows:
        lines.append(f"intervals: {evaluation.rows[0].confidence:.0%} confidence")
    lines += _notes(evaluation.rows)
    used = dict.fromkeys(row.extractor for row in evaluation.rows if row.extractor)
    lines += [f"{name}: {EXTRACTOR_NOTES[name]}" for name in used if name in EXTRACTOR_NOTES]
    return [*lines, protocol.stamp] if protocol.stamp else lines


def _notes(rows: Sequence[Row]) -> list[str]:
    """Each note once, with the rows that it is about."""
    about: dict[str, list[str]] = {}
    for row in rows:
        if row.note is not None:
            name = f"{row.metric} ({row.variant})" if row.variant else row.metric
            about.setdefault(row.note, []).append(name)
    return [f"note on {'; '.join(names)}: {note}" for note, names in about.items()]


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
