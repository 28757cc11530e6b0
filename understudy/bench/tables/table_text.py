"""The table for a terminal: blocks that fit the width, notes beneath."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Iterator, Mapping, Sequence

from understudy.bench.tables.benchmark_table import BenchmarkTable, Block
from understudy.bench.tables.columns import Column, epsilon_words
from understudy.bench.tables.table_words import (
    HOW_TO_READ,
    NO_ENTRY,
    Legend,
    Row,
    notes,
    rows,
    title,
)

WIDTH = 100
_NAME_WIDTH = 40
_HEADING_WIDTH = 16
_GAP = "  "


def text_table(table: BenchmarkTable, width: int = WIDTH) -> str:
    """The whole table; a block that is too wide goes on beneath itself."""
    legend = Legend.of(table)
    parts = [_block(block, legend, width) for block in table.blocks]
    beneath = [*legend.lines(), *([HOW_TO_READ] if table.blocks else []), *notes(table)]
    parts.append("\n".join(_wrapped(line, width) for line in beneath))
    return "\n\n".join(part for part in parts if part) or "no evidence and no figures"


def _wrapped(line: str, width: int) -> str:
    return textwrap.fill(line, width, subsequent_indent="    ", break_on_hyphens=False)


def _block(block: Block, legend: Legend, width: int) -> str:
    found = rows(block)
    panels = [_panel(found, legend, part) for part in _split(block, found, legend, width)]
    return "\n\n".join([f"{title(block)}\n{panels[0]}", *panels[1:]])


def _split(
    block: Block, found: Sequence[Row], legend: Legend, width: int
) -> Iterator[list[Column]]:
    """The columns in portions that fit; budgets stay together where they can."""
    room = width - max(map(len, _names(found)))
    widths = {column: _column_width(found, legend, column) for column in block.columns}
    portion: list[Column] = []
    for _, group in itertools.groupby(block.columns, key=lambda column: column.epsilon):
        same = list(group)
        if portion and _total(widths, [*portion, *same]) > room:
            yield portion
            portion = []
        for part in [same] if _total(widths, [*portion, *same]) <= room else [[c] for c in same]:
            if portion and _total(widths, [*portion, *part]) > room:
                yield portion
                portion = []
            portion += part
    yield portion


def _total(widths: Mapping[Column, int], columns: Sequence[Column]) -> int:
    return sum(len(_GAP) + widths[column] for column in columns)


def _column_width(found: Sequence[Row], legend: Legend, column: Column) -> int:
    cells = [row.cells.get(column, NO_ENTRY) for row in found]
    return max(len(words) for words in [*_heading(column, legend), *cells])


def _heading(column: Column, legend: Legend) -> list[str]:
    words = f"{column.variant} {legend.mark(column)}".strip()
    wrapped = textwrap.wrap(words, _HEADING_WIDTH, break_on_hyphens=False)
    return [epsilon_words(column.epsilon), *wrapped]


def _names(found: Sequence[Row]) -> list[str]:
    """Of the rows, cut short where that leaves them different."""
    short = [textwrap.shorten(row.name, _NAME_WIDTH, placeholder="...") for row in found]
    return [
        name if short.count(name) == 1 else row.name for name, row in zip(short, found, strict=True)
    ]


def _panel(found: Sequence[Row], legend: Legend, columns: Sequence[Column]) -> str:
    """Some columns of a block, with the rows that have a figure in them."""
    headings = [_heading(column, legend) for column in columns]
    for place in range(len(columns) - 1, 0, -1):
        if columns[place].epsilon == columns[place - 1].epsilon:
            headings[place][0] = ""
    lines = [("", line) for line in itertools.zip_longest(*headings, fillvalue="")]
    for name, row in zip(_names(found), found, strict=True):
        cells = tuple(row.cells.get(column, NO_ENTRY) for column in columns)
        if any(column in row.cells for column in columns):
            lines.append((name, cells))
    widths = [_column_width(found, legend, column) for column in columns]
    side = max(len(name) for name, _ in lines)
    return "\n".join(_line(name, side, cells, widths) for name, cells in lines)


def _line(name: str, side: int, cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [cell.ljust(width) for cell, width in zip(cells, widths, strict=True)]
    return _GAP.join([name.ljust(side), *padded]).rstrip()
