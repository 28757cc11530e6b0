"""The table of a benchmark: our methods and the published ones, beside each other.

Rows are methods, columns are (dataset, epsilon, metric, variant, protocol), so figures of two
protocols never share a column. One block holds one metric on one dataset.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from understudy.bench.evidence.store import Store
from understudy.bench.tables.columns import Column, Line, Wanted, check_wanted
from understudy.bench.tables.preset_differences import departures
from understudy.bench.tables.run_figures import FailedRun, MetricFacts, OurFigure, our_figures

_NOT_A_SETTING = ("seed", "epsilon", "protocol", "limit", "device", "changes", "preset")


@dataclass(frozen=True)
class Entry:
    """What stands where a row and a column meet.

    low, high: the interval of ours; spread: the standard deviation that a source prints.
    seeds: how many runs are averaged; 0 for published figures.
    failures: why seeds are missing; a value may stand beside them.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    spread: float | None = None
    seeds: int = 0
    failures: tuple[str, ...] = ()
    best: bool = False


@dataclass(frozen=True)
class Block:
    """One metric on one dataset. reference: real data in place of synthetic; chance: guessing."""

    dataset: str
    metric: str
    facts: MetricFacts
    columns: tuple[Column, ...]
    lines: tuple[Line, ...]
    entries: Mapping[tuple[Line, Column], Entry]
    reference: Mapping[Column, float]
    chance: Mapping[Column, float]


@dataclass(frozen=True)
class BenchmarkTable:
    """All blocks, the runs that failed, and what must be said beneath."""

    blocks: tuple[Block, ...]
    failed: tuple[FailedRun, ...]
    notes: tuple[str, ...]

    def columns(self) -> tuple[Column, ...]:
        return tuple(column for block in self.blocks for column in block.columns)

    def lines(self) -> tuple[Line, ...]:
        return tuple(dict.fromkeys(line for block in self.blocks for line in block.lines))


def build_table(
    store: Store,
    wanted: Wanted | None = None,
    *,
    published: bool | None = None,
    trusted_only: bool = False,
) -> BenchmarkTable:
    """The table of a folder of evidence.

    published: None sets published figures beside ours where we have some; True shows all that
        are wanted; False none.
    """
    choice = wanted or Wanted()
    ours = our_figures(store, choice, trusted_only=trusted_only)
    builder = _Builder()
    for figure, line in zip(ours.figures, _our_lines(store, ours.figures), strict=True):
        builder.add_ours(figure, line)
    more = 0
    if published is not False:
        from understudy.bench.tables.published_columns import published_beside

        theirs, more = published_beside(ours.columns(), choice, published is True)
        for found in theirs:
            builder.add(found.column, found.line, Entry(found.value, spread=found.spread))
            builder.units.setdefault(found.column.metric, found.unit)
    for run in ours.failed:
        builder.add_failed(run)
    blocks = builder.blocks()
    shown = [column for block in blocks for column in block.columns]
    check_wanted(choice, shown, lambda: _everything(store, published))
    notes = [] if trusted_only else store.warnings()
    notes += _owners_note(ours.owners) + _count_notes(ours.superseded, more)
    return BenchmarkTable(blocks, ours.failed, tuple(notes))


def _everything(store: Store, published: bool | None) -> list[Column]:
    """All columns that could have been asked for."""
    columns = list(our_figures(store).columns())
    if published is not False:
        from understudy.bench.tables.published_columns import published_beside

        columns += [found.column for found in published_beside((), Wanted(), True)[0]]
    return columns


class _Builder:
    """Gathers entries, and sorts them into blocks."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, str], dict[tuple[Line, Column], Entry]] = defaultdict(dict)
        self._facts: dict[str, MetricFacts] = {}
        self._references: dict[Column, list[float]] = defaultdict(list)
        self._chances: dict[Column, list[float]] = defaultdict(list)
        self._ours: dict[Column, None] = {}
        self.units: dict[str, str] = {}

    def add(self, column: Column, line: Line, entry: Entry) -> None:
        self._entries[column.block][line, column] = entry

    def add_ours(self, figure: OurFigure, line: Line) -> None:
        self._ours[figure.column] = None
        self._facts.setdefault(figure.column.metric, figure.facts)
        if line.trusted:
            self._references[figure.column] += figure.references
            self._chances[figure.column] += figure.chances
        entry = Entry(None, failures=tuple(figure.failures))
        if figure.values:
            found, seeds = figure.interval(), len(figure.values)
            entry = replace(entry, value=found.value, low=found.low, high=found.high, seeds=seeds)
        self.add(figure.column, line, entry)

    def add_failed(self, run: FailedRun) -> None:
        """A failed run is a row where its figures would stand, unless other seeds gave some."""
        line = Line(run.method, trusted=run.trusted)
        for column in self._ours:
            place = (column.dataset, column.epsilon, column.protocol)
            if place == (run.dataset, run.epsilon, run.protocol):
                self._entries[column.block].setdefault((line, column), Entry(None))

    def blocks(self) -> tuple[Block, ...]:
        """By dataset; metrics in the order of the protocols, then those of others."""
        order = {metric: place for place, metric in enumerate((*self._facts, *self.units))}
        by_order = sorted(self._entries, key=lambda block: (block[0], order[block[1]], block[1]))
        return tuple(self._block(*block, self._entries[block]) for block in by_order)

    def _block(
        self, dataset: str, metric: str, entries: Mapping[tuple[Line, Column], Entry]
    ) -> Block:
        facts = self._facts.get(metric) or _facts_of(metric, self.units[metric])
        protocols = {column.protocol_id for column in self._ours}
        columns = sorted(
            {c for _, c in entries}, key=lambda column: _column_order(column, protocols)
        )
        return Block(
            dataset=dataset,
            metric=metric,
            facts=facts,
            columns=tuple(columns),
            lines=tuple(sorted({line for line, _ in entries}, key=order)),
            entries=_best_marked(entries, columns, facts),
            reference={c: fmean(self._references[c]) for c in columns if self._references[c]},
            chance={c: fmean(self._chances[c]) for c in columns if self._chances[c]},
        )


def _facts_of(metric: str, unit: str) -> MetricFacts:
    """Of a metric that only published figures have: from its class, if we know one."""
    from understudy.evaluation.metric_registry import METRICS, resolve

    base = metric.partition("[")[0]
    for name in METRICS:
        known = resolve("metric", name, METRICS)
        if metric in (known.name, getattr(known, "inception_name", None)) or base == known.name:
            return MetricFacts(known.direction, unit, known.bounds)
    return MetricFacts("none", unit, (None, None))


def _best_marked(
    entries: Mapping[tuple[Line, Column], Entry], columns: Iterable[Column], facts: MetricFacts
) -> dict[tuple[Line, Column], Entry]:
    """The best of each column that has more than one; what is untrusted or unsound is no rival."""
    found = dict(entries)
    if facts.direction == "none":
        return found
    by_column: dict[Column, list[tuple[Line, float]]] = defaultdict(list)
    for (line, column), entry in entries.items():
        if entry.value is not None and line.trusted and line.sound != "no":
            by_column[column].append((line, entry.value))
    for column in columns:
        rivals = by_column[column]
        if len(rivals) > 1:
            pick = max if facts.direction == "higher" else min
            best = pick(value for _, value in rivals)
            for line, value in rivals:
                if value == best:
                    found[line, column] = replace(found[line, column], best=True)
    return found


def _our_lines(store: Store, figures: Sequence[OurFigure]) -> list[Line]:
    """One line for each configuration; where a method has several in one column, what tells them
    apart."""
    columns: dict[tuple[str, Column], set[str]] = defaultdict(set)
    for figure in figures:
        columns[figure.group.method, figure.column].add(figure.group.configuration)
    rivals: dict[str, set[str]] = defaultdict(set)
    for found in columns.values():
        for configuration in found if len(found) > 1 else ():
            rivals[configuration] |= found
    examples = {f.group.configuration: f.example for f in figures}
    details = _details(store, rivals, examples)
    return [
        Line(
            method=figure.group.method,
            detail=details.get(figure.group.configuration, ""),
            trusted=figure.group.trusted,
            limited=figure.group.limited,
        )
        for figure in figures
    ]


def _details(
    store: Store, rivals: Mapping[str, Collection[str]], examples: Mapping[str, str]
) -> dict[str, str]:
    """For each configuration that has rivals: how it departs from its preset as it is now, or,
    where others depart in the same way, the settings in which they differ."""
    names = {examples[configuration] for configuration in rivals}
    configs = {f.name: f.parsed()["config"] for f in store.files if f.name in names}
    changed = {name: departures(config) for name, config in configs.items()}
    found: dict[str, str] = {}
    for configuration, group in rivals.items():
        own, others = examples[configuration], [examples[rival] for rival in sorted(group)]
        alone = len({changed[name] for name in others}) == len(others)
        apart = _apart(configs[own], [configs[name] for name in others])
        found[configuration] = ", ".join(changed[own] if alone else apart)
    return found


def _apart(own: Mapping[str, object], all_of_them: Sequence[Mapping[str, object]]) -> Iterator[str]:
    """A configuration's own values of what differs among several."""
    flat = [_flat(config) for config in all_of_them]
    for key in sorted({key for one in flat for key in one}):
        differs = len({repr(one.get(key)) for one in flat}) > 1
        if differs and key not in _NOT_A_SETTING:
            yield f"{key}={_flat(own).get(key)}"


def _flat(config: Mapping[str, object]) -> dict[str, object]:
    settings = config["settings"]
    assert isinstance(settings, Mapping)
    return {**config, "settings": None, **settings}


def _column_order(column: Column, ours: Collection[str]) -> tuple[object, ...]:
    """By budget, our protocols first."""
    epsilon = column.epsilon if column.epsilon is not None else float("inf")
    theirs = column.protocol_id not in ours
    stamped = column.stamp is not None
    return (epsilon, theirs, stamped, column.protocol, column.protocol_id, column.variant)


def order(line: Line) -> tuple[object, ...]:
    """Ours before theirs, then by name."""
    return (line.source != "", line.method, line.source, line.detail, not line.trusted)


def _owners_note(datasets: Sequence[str]) -> list[str]:
    """Figures of an owner's data are computed from its records without noise."""
    if not datasets:
        return []
    return [f"for the owner alone, measured on data not declared public: {', '.join(datasets)}"]


def _count_notes(superseded: int, more: int) -> list[str]:
    notes = []
    if superseded:
        notes.append(f"{superseded} runs are left out for later runs of the same cell or data")
    if more:
        notes.append(
            f"{more} more published figures of these methods are left out; --published shows all"
        )
    return notes
