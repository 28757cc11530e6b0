"""Published figures as lines and columns of a table that also holds ours.

A published figure shares a column with ours only where its protocol is said to be one of
ours, and ours is that protocol unchanged.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from understudy.bench.evidence.seal import digest, plain_json
from understudy.bench.published import Figure, published, sources
from understudy.bench.tables.columns import Column, Line, Wanted
from understudy.errors import UserError
from understudy.evaluation.protocol import load_protocol

_PER_UNIT = {"percent": 0.01}
"""What a unit of theirs is in ours."""


@dataclass(frozen=True)
class Published:
    """One published figure in its place; `spread` is a standard deviation, not an interval."""

    source: str
    table: str
    protocol: str
    column: Column
    line: Line
    value: float
    spread: float | None
    unit: str
    note: str


def published_beside(
    ours: Sequence[Column], wanted: Wanted, everything: bool
) -> tuple[tuple[Published, ...], int]:
    """The published figures to show, and how many more there are of the same methods.

    Unless everything is asked for: those of datasets, metrics and budgets that ours have too,
    from the first table that a source has for a protocol, and of each method the first figure
    of a column there; main results come first, variations after.
    """
    there = {(*column.block, column.epsilon) for column in ours}
    figures = [
        _placed(figure)
        for figure in published()
        if everything or (figure.dataset, figure.metric, _epsilon(figure)) in there
    ]
    near = [figure for figure in figures if _is_wanted(figure.column, wanted)]
    if everything:
        return tuple(_told_apart(near)), 0
    tables: dict[tuple[object, ...], str] = {}
    first: dict[tuple[Column, Line], Published] = {}
    for figure in near:
        column = figure.column
        place = (column.block, column.epsilon, figure.source, figure.protocol)
        if tables.setdefault(place, figure.table) == figure.table:
            line = replace(figure.line, source=figure.source)
            first.setdefault((column, line), replace(figure, line=line))
    return tuple(first.values()), len(near) - len(first)


def _placed(figure: Figure) -> Published:
    scale = _PER_UNIT.get(figure.unit, 1.0)
    return Published(
        source=figure.source,
        table=figure.table,
        protocol=figure.protocol,
        column=_column(figure),
        line=Line(
            method=figure.method,
            source=f"{figure.source}, {figure.table}",
            sound=figure.sound,
            reason=figure.reason,
        ),
        value=figure.value * scale,
        spread=None if figure.spread is None else figure.spread * scale,
        unit="fraction" if figure.unit in _PER_UNIT else figure.unit,
        note=figure.note,
    )


def _column(figure: Figure) -> Column:
    name, ident = _protocol(figure.source, figure.protocol)
    return Column(
        dataset=figure.dataset,
        epsilon=_epsilon(figure),
        metric=figure.metric,
        variant=figure.variant,
        protocol=name,
        protocol_id=ident,
    )


def _epsilon(figure: Figure) -> float | None:
    """An infinite budget is none."""
    unbounded = figure.epsilon is None or math.isinf(figure.epsilon)
    return None if unbounded else figure.epsilon


@functools.cache
def _protocol(source: str, ident: str) -> tuple[str, str]:
    """A published protocol's name and id: those of ours where ours is the same."""
    own = f"{source}: {ident}"
    ours = sources()[source].protocols[ident].ours
    if ours is None:
        return own, own
    try:
        found = load_protocol(ours)
    except UserError:  # named in the data, not among the protocols of this version
        return own, own
    return ours, digest(plain_json(found.to_json()))


def _is_wanted(column: Column, wanted: Wanted) -> bool:
    return wanted.takes(column.dataset, column.metric, column.protocol)


def _told_apart(figures: Iterable[Published]) -> list[Published]:
    """Where a table prints several figures of one method in one column, each gets a line."""
    taken: set[tuple[Column, Line]] = set()
    found: list[Published] = []
    for figure in figures:
        line, again = figure.line, 1
        while (figure.column, line) in taken:
            again += 1
            detail = figure.note if again == 2 and figure.note else f"{figure.note} ({again})"
            line = replace(figure.line, detail=detail.strip())
        taken.add((figure.column, line))
        found.append(replace(figure, line=line))
    return found
