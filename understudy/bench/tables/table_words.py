"""The words of a table, which every way of writing it shares: numbers, headings, notes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from understudy.bench.tables.benchmark_table import BenchmarkTable, Block, Entry, order
from understudy.bench.tables.columns import Column, Line, epsilon_words
from understudy.bench.tables.run_figures import FailedRun, MetricFacts

ARROWS = {"higher": "↑", "lower": "↓", "none": ""}
DIRECTIONS = {"higher": "higher is better", "lower": "lower is better", "none": ""}
NO_ENTRY = "-"
REFERENCE, CHANCE = "real data", "chance"
HOW_TO_READ = (
    "ours: mean ± half of the 95% interval (seeds); of several seeds Student's t over them, of one "
    "the run's own interval. sd: the standard deviation that a source prints. * best of its column"
)


def number(value: float, facts: MetricFacts) -> str:
    """As the table shows a value: fractions in per cent."""
    return f"{100 * value:.1f}" if facts.unit == "fraction" else f"{value:.4g}"


def entry_words(entry: Entry | None, facts: MetricFacts) -> str:
    """A cell: value, interval, seeds and marks.

    >>> entry_words(Entry(0.846, 0.838, 0.853, seeds=3, best=True),
    ...             MetricFacts("higher", "fraction", (0.0, 1.0)))
    '84.6 ±0.8 (3)*'
    """
    if entry is None:
        return NO_ENTRY
    if entry.value is None:
        return "failed"
    words = number(entry.value, facts)
    if entry.low is not None and entry.high is not None:
        half = max(entry.high - entry.value, entry.value - entry.low)
        words += f" ±{_half_width(half, facts)} ({entry.seeds})"
    if entry.spread is not None:
        words += f" sd {_half_width(entry.spread, facts)}"
    return words + ("!" if entry.failures else "") + ("*" if entry.best else "")


def _half_width(half: float, facts: MetricFacts) -> str:
    return f"{100 * half:.1f}" if facts.unit == "fraction" else f"{half:.2g}"


def unit_words(facts: MetricFacts) -> str:
    return "%" if facts.unit == "fraction" else facts.unit


def title(block: Block) -> str:
    """The heading of a block, with the direction that its metric's class gives."""
    facts = block.facts
    parts = [f"{block.metric} {ARROWS[facts.direction]}".strip(), unit_words(facts)]
    shown = ", ".join(filter(None, [*parts, DIRECTIONS[facts.direction]]))
    return f"{block.dataset}: {shown}"


@dataclass(frozen=True)
class Row:
    """A row as people read it: its name, and its cell in each column that has one."""

    name: str
    cells: Mapping[Column, str]


def rows(block: Block) -> list[Row]:
    """Our rows, each with the published figures of the same method beside it.

    A published figure gets a row of its own where its column holds a figure of ours too, so
    that nobody takes one for the other. Real data and chance come last.
    """
    ours = {column for line, column in block.entries if not line.source}
    found: dict[str, dict[Column, str]] = {}
    for (line, column), entry in sorted(block.entries.items(), key=lambda e: order(e[0][0])):
        own = line.source and (
            line.detail or column in ours or column in found.get(line.method, {})
        )
        name = f"{line_name(line)} ({line.source})" if own else line_name(line)
        found.setdefault(name, {})[column] = entry_words(entry, block.facts) + _mark(line)
    shown = [Row(name, cells) for name, cells in found.items()]
    for name, values in ((REFERENCE, block.reference), (CHANCE, block.chance)):
        cells = {column: number(value, block.facts) for column, value in values.items()}
        shown += [Row(name, cells)] if cells else []
    return shown


@dataclass(frozen=True)
class Legend:
    """Protocols by number, in the order of their first column, and whose figures they hold."""

    columns: tuple[Column, ...]
    whose: Mapping[str, frozenset[str]]

    @staticmethod
    def of(table: BenchmarkTable) -> Legend:
        first: dict[str, Column] = {}
        whose: dict[str, set[str]] = {}
        for block in table.blocks:
            for column in block.columns:
                first.setdefault(column.protocol_id, column)
            for line, column in block.entries:
                source = line.source.partition(",")[0] or "ours"
                whose.setdefault(column.protocol_id, set()).add(source)
        return Legend(tuple(first.values()), {k: frozenset(v) for k, v in whose.items()})

    def mark(self, column: Column) -> str:
        ids = [known.protocol_id for known in self.columns]
        return f"[{ids.index(column.protocol_id) + 1}]"

    def lines(self) -> list[str]:
        names = [column.protocol for column in self.columns]
        return [
            f"{self.mark(column)} protocol {column.protocol}"
            + (f" ({column.protocol_id[:8]})" if names.count(column.protocol) > 1 else "")
            + f", {self._whose(column)}"
            + (f"; {column.stamp}" if column.stamp else "")
            for column in self.columns
        ]

    def _whose(self, column: Column) -> str:
        sources = self.whose[column.protocol_id]
        published = ", ".join(sorted(sources - {"ours"}))
        words = ["ours"] if "ours" in sources else []
        return " and ".join(words + ([f"published by {published}"] if published else []))


def line_name(line: Line) -> str:
    """Our method as a row calls it: ? where its evidence is untrusted."""
    words = f"{line.method}{'' if line.trusted else '?'}"
    words += " (limited)" if line.limited else ""
    return f"{words} {line.detail}".rstrip()


def _mark(line: Line) -> str:
    """On a published figure: † not sound, ‡ unclear."""
    return {"no": "†", "unclear": "‡"}.get(line.sound, "") if line.source else ""


def notes(table: BenchmarkTable) -> list[str]:
    """Everything that must be said beneath: why rows are marked, and what failed."""
    return [
        *(_failure(run) for run in table.failed),
        *_missing_seeds(table.blocks),
        *_soundness(table.lines()),
        *(["? untrusted evidence, named below"] if _any_untrusted(table) else []),
        *table.notes,
    ]


def _failure(run: FailedRun) -> str:
    where = f"{run.dataset}, {epsilon_words(run.epsilon)}, seed {run.seed}"
    return f"failed{'' if run.trusted else '?'}: {run.method} on {where}: {run.reason}"


def _missing_seeds(blocks: Iterable[Block]) -> list[str]:
    return [
        f"! {line.method} on {block.dataset}, {epsilon_words(column.epsilon)}, {block.metric} "
        f"{column.variant}".rstrip()
        + f": {'; '.join(entry.failures)}"
        for block in blocks
        for (line, column), entry in block.entries.items()
        if entry.failures
    ]


def _soundness(lines: Sequence[Line]) -> list[str]:
    marks = {"no": "† not sound as published", "unclear": "‡ unclear whether sound"}
    told: dict[tuple[str, str, str], dict[str, None]] = {}
    for line in lines:
        if line.source and line.sound in marks:
            source = line.source.partition(",")[0]
            told.setdefault((marks[line.sound], line.method, line.reason), {})[source] = None
    return [
        f"{mark}: {method} ({', '.join(where)}): {reason}"
        for (mark, method, reason), where in told.items()
    ]


def _any_untrusted(table: BenchmarkTable) -> bool:
    return any(not line.trusted for line in table.lines())
