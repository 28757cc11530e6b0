"""Our own figures: what the runs of a folder measured, column by column, seed by seed."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from understudy.bench.evidence.run_tables import RunTables, run_tables
from understudy.bench.evidence.store import Store
from understudy.bench.tables.columns import Column, Wanted
from understudy.evaluation.intervals import Interval, student_half_width

_RUN_COLUMNS = (
    *("run", "status", "reason", "limit", "method", "dataset", "epsilon", "seed", "suite"),
    *("protocol", "stamp", "protocol_digest", "configuration", "evaluate_key", "commit", "trust"),
    *("audience", "data_hash"),
)
_WORDS = ("metric", "variant")
_NUMBERS = ("value", "low", "high", "reference", "chance")
Numbers = npt.NDArray[Any]


class SeedValue(NamedTuple):
    """What one run measured, with the interval that covers its test records and classifiers."""

    seed: int
    value: float
    low: float
    high: float


@dataclass
class OurFigure:
    """One configuration of a method in one column, over all its seeds.

    example: a run of this group, to look its settings up.
    failures: why some seeds gave no value here.
    references, chances: of each run, as they stand beside its value.
    """

    column: Column
    group: Group
    example: str
    facts: MetricFacts
    values: list[SeedValue] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    references: list[float] = field(default_factory=list)
    chances: list[float] = field(default_factory=list)

    def interval(self) -> Interval:
        """Of several seeds: their mean with Student's t. Of one: the run's own interval."""
        if len(self.values) == 1:
            only = self.values[0]
            return Interval(only.value, only.low, only.high)
        values = [seed.value for seed in self.values]
        mean, half = sum(values) / len(values), student_half_width(values)
        low, high = self.facts.bounds
        lowest = mean - half if low is None else max(low, mean - half)
        return Interval(mean, lowest, mean + half if high is None else min(high, mean + half))


@dataclass(frozen=True)
class MetricFacts:
    """What the metric's class says of it, as its rows repeat it."""

    direction: str
    unit: str
    bounds: tuple[float | None, float | None]


@dataclass(frozen=True)
class Group:
    """What the runs that are averaged have in common; a group has a figure per metric row."""

    method: str
    dataset: str
    epsilon: float | None
    protocol: str
    protocol_id: str
    stamp: str | None
    configuration: str
    trusted: bool
    limited: bool

    def column(self, metric: str, variant: str) -> Column:
        return Column(
            dataset=self.dataset,
            epsilon=self.epsilon,
            metric=metric,
            variant=variant,
            protocol=self.protocol,
            protocol_id=self.protocol_id,
            stamp=self.stamp,
        )


@dataclass(frozen=True)
class FailedRun:
    """A run that ended without figures."""

    method: str
    dataset: str
    epsilon: float | None
    seed: int
    protocol: str
    reason: str
    trusted: bool


@dataclass(frozen=True)
class OurFigures:
    """superseded: how many finished runs were left out for a later one of the same cell.
    owners: the datasets that are not declared public: what is measured on them is the owner's.
    """

    figures: tuple[OurFigure, ...]
    failed: tuple[FailedRun, ...]
    superseded: int
    owners: tuple[str, ...]

    def columns(self) -> tuple[Column, ...]:
        return tuple(dict.fromkeys(figure.column for figure in self.figures))


def our_figures(
    store: Store,
    wanted: Wanted | None = None,
    *,
    trusted_only: bool = False,
    where: Mapping[str, str] | None = None,
) -> OurFigures:
    """The figures of a folder.

    Of two runs of one configuration, seed and protocol the later counts; runs on an earlier
    content of a public dataset are left out once there is a later one; and a failure gives
    way to a run of the same key that ended well. `where` takes only runs whose columns have
    these values (a suite, a commit, a method).
    """
    with _no_collection():
        return _our_figures(store, wanted or Wanted(), trusted_only, where or {})


@contextmanager
def _no_collection() -> Iterator[None]:
    """Without the search for cycles, of which there are none: it takes as long as the rest."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _our_figures(
    store: Store, wanted: Wanted, trusted_only: bool, where: Mapping[str, str]
) -> OurFigures:
    tables = run_tables(store.of_kind("run", trusted_only=trusted_only))
    runs = [run for run in _runs(tables) if all(run[k] == v for k, v in where.items())]
    finished = [run for run in runs if run["status"] == "ok"]
    data = {run["dataset"]: run["data_hash"] for run in finished}  # the last one's stands
    current = {
        (run["configuration"], run["seed"], run["protocol_digest"], run["trust"]): run
        for run in finished
        if run["data_hash"] == data[run["dataset"]]
    }
    shown = [run for run in runs if not wanted.datasets or run["dataset"] in wanted.datasets]
    return OurFigures(
        figures=_figures(tables, list(current.values()), wanted),
        failed=_failed(runs, {run["evaluate_key"] for run in finished}, wanted),
        superseded=len(finished) - len(current),
        owners=tuple(sorted({run["dataset"] for run in shown if run["audience"] == "owner"})),
    )


def _runs(tables: RunTables) -> list[dict[str, Any]]:
    """The runs by row, each knowing its place."""
    columns = [tables.runs.column(name).to_pylist() for name in _RUN_COLUMNS]
    rows = zip(*columns, strict=True)
    names = (*_RUN_COLUMNS, "row")
    return [dict(zip(names, (*row, place), strict=True)) for place, row in enumerate(rows)]


def _figures(
    tables: RunTables, runs: Sequence[Mapping[str, Any]], wanted: Wanted
) -> tuple[OurFigure, ...]:
    """One figure for each group, metric and variant."""
    groups: dict[Group, int] = {}
    group_of_run = np.full(tables.runs.num_rows, -1)
    by_row = {run["row"]: run for run in runs}
    for run in runs:
        group_of_run[run["row"]] = groups.setdefault(_group(run), len(groups))
    members, rows = list(groups), _Rows(tables, group_of_run)
    facts, found = _Facts(tables), []
    for start, end in rows.spans:
        run = by_row[rows.run[start]]
        group = members[group_of_run[run["row"]]]
        metric, variant = rows.metric[start], rows.variant[start]
        if wanted.takes(group.dataset, metric, group.protocol):
            column, known = group.column(metric, variant), facts.of(metric, rows.place[start])
            figure = OurFigure(column, group, run["run"], known)
            rows.fill(figure, start, end, [by_row[row]["seed"] for row in rows.run[start:end]])
            found.append(figure)
    return tuple(found)


def _group(run: Mapping[str, Any]) -> Group:
    return Group(
        method=run["method"],
        dataset=run["dataset"],
        epsilon=run["epsilon"],
        protocol=run["protocol"],
        protocol_id=run["protocol_digest"],
        stamp=run["stamp"],
        configuration=run["configuration"],
        trusted=run["trust"] == "trusted",
        limited=run["limit"] is not None,
    )


class _Rows:
    """The metric rows, sorted so that those of one figure lie together, from `start` to `end`.

    Sorted as arrays, for grouping 140,000 rows one by one takes too long; then plain lists,
    for looking at single numbers of an array takes long too. Runs without a group are left out.
    """

    def __init__(self, tables: RunTables, group_of_run: Numbers) -> None:
        columns = tables.metrics
        run = _array(columns.column("row"))
        key = group_of_run[run]
        taken = np.flatnonzero(key >= 0)
        words = [columns.column(name).combine_chunks().dictionary_encode() for name in _WORDS]
        for column in words:
            key = key * len(column.dictionary) + _array(column.indices)
        order = taken[np.argsort(key[taken], kind="stable")]
        cuts = np.flatnonzero(np.diff(key[order])) + 1
        edges = [0, *cuts.tolist(), len(order)] if len(order) else []
        self.spans = list(itertools.pairwise(edges))
        self.place: list[int] = order.tolist()
        self.run: list[int] = run[order].tolist()
        self.metric, self.variant = (_decoded(column, self.place) for column in words)
        self._numbers = [_picked(columns.column(name), self.place) for name in _NUMBERS]
        self._reason = columns.column("reason")

    def fill(self, figure: OurFigure, start: int, end: int, seeds: Sequence[int]) -> None:
        """Give a figure what its rows hold."""
        values, lows, highs, *beside = [numbers[start:end] for numbers in self._numbers]
        for seed, value, low, high in zip(seeds, values, lows, highs, strict=True):
            if value is not None and low is not None and high is not None:
                figure.values.append(SeedValue(seed, value, low, high))
        figure.references, figure.chances = (
            [number for number in numbers if number is not None] for numbers in beside
        )
        if len(figure.values) < len(seeds):
            missing = [place for place in range(start, end) if self._numbers[0][place] is None]
            figure.failures = [
                f"seed {seeds[place - start]}: {self._reason[self.place[place]].as_py()}"
                for place in missing
            ]


def _array(column: Any) -> Numbers:
    """As `to_numpy`, which would load pandas wherever that is installed."""
    return np.array(column.to_pylist(), dtype=np.int64)


def _decoded(column: Any, places: Sequence[int]) -> list[str]:
    known, codes = column.dictionary.to_pylist(), column.indices.to_pylist()
    return [known[codes[place]] for place in places]


def _picked(column: Any, places: Sequence[int]) -> list[float | None]:
    values = column.to_pylist()
    return [values[place] for place in places]


class _Facts:
    """The facts of each metric, read from its first row: they are those of its class."""

    def __init__(self, tables: RunTables) -> None:
        self._metrics = tables.metrics
        self._known: dict[str, MetricFacts] = {}

    def of(self, metric: str, place: int) -> MetricFacts:
        if metric not in self._known:
            low, high = self._metrics.column("bounds")[place].as_py()
            self._known[metric] = MetricFacts(
                direction=self._metrics.column("direction")[place].as_py(),
                unit=self._metrics.column("unit")[place].as_py(),
                bounds=(low, high),
            )
        return self._known[metric]


def _failed(
    runs: Sequence[Mapping[str, Any]], done: set[str], wanted: Wanted
) -> tuple[FailedRun, ...]:
    """The failures that no run of the same key made good; of several tries the last."""
    last = {run["evaluate_key"]: run for run in runs if run["status"] == "failed"}
    return tuple(
        FailedRun(
            method=run["method"],
            dataset=run["dataset"],
            epsilon=run["epsilon"],
            seed=run["seed"],
            protocol=run["protocol"] or "",
            reason=run["reason"],
            trusted=run["trust"] == "trusted",
        )
        for key, run in last.items()
        if key not in done
        and (not wanted.datasets or run["dataset"] in wanted.datasets)
        and (not wanted.protocols or run["protocol"] in wanted.protocols)
    )
