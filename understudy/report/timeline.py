"""The spending timeline: one lane a mechanism, blocks in the order of the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from understudy.report import svg
from understudy.report.spending import Attempt, Spending, Status

_LANE = 50.0
_THINNEST = 3.0
_STATUS_WORDS = {"committed": "spent", "void": "void", "open": "reserved, counted as spent"}


@dataclass(frozen=True)
class _Stretch:
    """Neighbouring blocks of one lane and status, too close to be told apart."""

    start: float
    stop: float
    status: Status
    uses: int
    blocks: int


def timeline(spent: Spending, *, width: float) -> Markup:
    """Every block of work; voids stand out of their lane. The ledger knows no times."""
    lanes = _lane_names(spent)
    scale = svg.Scale(0, max(len(spent.attempts), 1), 0.0, width)
    bottom = _LANE * len(lanes) + 4
    parts = [_block_axis(len(spent.attempts), scale, bottom, width)]
    for i, (name, uses) in enumerate(lanes):
        y = i * _LANE
        room = width - 16 - 8 * len(uses)
        parts.append(svg.text(scale.start, y + 16, name, "label", "start", room))
        parts.append(svg.text(scale.stop, y + 16, uses, "value", "end"))
        parts.append(_rect(scale.start, scale.stop, y + 26, 14, "bar-track"))
        tone = " unlimited" if name in spent.unlimited else ""
        parts.extend(_drawn(s, y + 26, tone) for s in _stretches(spent.attempts, name, scale))
    return svg.picture(width, bottom + 38, _described(spent, lanes), Markup("").join(parts))


def _lane_names(spent: Spending) -> list[tuple[str, str]]:
    """Planned mechanisms first, then any that only the ledger knows."""
    lanes = {row.name: row.uses_words for row in spent.rows}
    for attempt in spent.attempts:
        lanes.setdefault(attempt.mechanism, "not in the claim")
    return list(lanes.items())


def _stretches(attempts: Sequence[Attempt], lane: str, scale: svg.Scale) -> list[_Stretch]:
    stretches: list[_Stretch] = []
    for i, attempt in enumerate(attempts):
        if attempt.mechanism != lane:
            continue
        start, stop = scale(i), scale(i + 1)
        last = stretches[-1] if stretches else None
        if last and last.status == attempt.status and start - last.stop < 0.75:
            stretches[-1] = _Stretch(
                last.start, stop, last.status, last.uses + attempt.uses, last.blocks + 1
            )
        else:
            stretches.append(_Stretch(start, stop, attempt.status, attempt.uses, 1))
    return sorted(stretches, key=lambda s: s.status == "void")


def _drawn(stretch: _Stretch, y: float, tone: str) -> Markup:
    stop = max(stretch.stop, stretch.start + _THINNEST)
    raised = 5 if stretch.status == "void" else 0
    blocks = "1 block" if stretch.blocks == 1 else f"{stretch.blocks:,} blocks"
    tooltip = svg.tag(
        "title", {}, f"{_STATUS_WORDS[stretch.status]}: {stretch.uses:,} uses in {blocks}"
    )
    css = f"block {stretch.status}{tone}"
    return _rect(stretch.start, stop, y - raised, 14 + 2 * raised, css, tooltip)


def _rect(
    start: float, stop: float, y: float, height: float, css: str, content: Markup | str = ""
) -> Markup:
    attributes: dict[str, str | float] = {
        "x": start,
        "y": y,
        "width": stop - start,
        "height": height,
        "rx": 2,
        "class": css,
    }
    return svg.tag("rect", attributes, content)


def _block_axis(count: int, scale: svg.Scale, bottom: float, width: float) -> Markup:
    """Numbers under the middle of their blocks, counted from one."""
    numbers = {round(t) for t in svg.ticks(1, max(count, 1), 5 if width < 500 else 10)}
    parts = [
        svg.text(scale(n - 0.5), bottom + 14, f"{n:,}", "tick", "middle")
        for n in sorted(numbers | {1})
        if 1 <= n <= count
    ]
    name = "blocks of work, in the order of the ledger"
    parts.append(svg.text(scale.stop, bottom + 31, name, "axis-name", "end"))
    return Markup("").join(parts)


def _described(spent: Spending, lanes: Sequence[tuple[str, str]]) -> str:
    told = "; ".join(f"{name}: {uses}" for name, uses in lanes)
    return f"Timeline of {len(spent.attempts):,} blocks, {spent.voids:,} of them void. {told}."
