"""Two sides of the evidence against each other, column by column, seed by seed.

A side is a method, a suite, a commit, an evidence file or a folder of evidence. Runs of one
column and seed are paired; the interval is Student's t over the differences. Where the seeds
do not pair, the two intervals are combined as independent ones, and the row says so.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from understudy.bench.evidence.store import Store, read_store
from understudy.bench.tables.columns import Column, Wanted, check_wanted
from understudy.bench.tables.run_figures import MetricFacts, OurFigure, our_figures
from understudy.errors import UserError, did_you_mean
from understudy.evaluation.intervals import Interval, student_half_width

_COMMIT = re.compile(r"[0-9a-f]{7,64}")


@dataclass(frozen=True)
class Difference:
    """B less A in one column.

    method: empty where the two sides are methods, so that it is theirs.
    pairs: how many seeds were paired; 0 where the two intervals had to be combined.
    """

    column: Column
    method: str
    facts: MetricFacts
    a: float
    b: float
    interval: Interval
    pairs: int

    @property
    def verdict(self) -> str:
        """`within noise` where the interval holds 0; else which side is better."""
        if self.interval.low <= 0 <= self.interval.high:
            return "within noise"
        if self.facts.direction == "none":
            return "differs"
        higher = self.interval.value > 0
        return "B better" if higher == (self.facts.direction == "higher") else "A better"


@dataclass(frozen=True)
class Comparison:
    """differences: one for each column that both sides have; alone: how many only one has.

    left_out: how many files were not used because they are not trusted.
    """

    a: str
    b: str
    differences: tuple[Difference, ...]
    alone: int
    left_out: int


def compare(folder: Path, a: str, b: str, wanted: Wanted | None = None) -> Comparison:
    """Compare two sides; names are looked for in the folder. Untrusted files are left out."""
    kind, sides = _sides(folder, a, b)
    found = []
    for store, where in sides:
        figures = our_figures(store, wanted, trusted_only=True, where=where).figures
        found.append(_by_place(figures, keep_method=kind != "method"))
    if wanted is not None:
        check_wanted(wanted, _columns(found), lambda: _all_columns(sides))
    shared = [place for place in found[0] if place in found[1]]
    if not shared:
        raise UserError(
            f"{a} and {b} share no column of trusted evidence: no dataset, budget, metric and "
            "protocol that both have."
        )
    differences = [_difference(place, found[0][place], found[1][place]) for place in shared]
    return Comparison(
        a,
        b,
        tuple(differences),
        alone=len(found[0].keys() ^ found[1].keys()),
        left_out=len({(s.folder, file.name) for s, _ in sides for file in s.untrusted}),
    )


def _columns(found: Sequence[Mapping[_Place, OurFigure]]) -> list[Column]:
    return [column for places in found for column, _ in places]


def _all_columns(sides: Sequence[Side]) -> list[Column]:
    """Every column that the sides have, to offer the nearest."""
    return [
        column
        for store, where in sides
        for column in our_figures(store, trusted_only=True, where=where).columns()
    ]


Side = tuple[Store, Mapping[str, str]]
_Place = tuple[Column, str]


def _sides(folder: Path, a: str, b: str) -> tuple[str, tuple[Side, Side]]:
    """What the two names mean, which must be of one kind."""
    if Path(a).exists() and Path(b).exists():
        return "path", (_side_of_path(Path(a)), _side_of_path(Path(b)))
    store = read_store(folder)
    runs = our_names(store)
    for kind, names in runs.items():
        if a in names and b in names:
            return kind, ((store, {kind: a}), (store, {kind: b}))
    if _COMMIT.fullmatch(a) and _COMMIT.fullmatch(b):
        whole = [_whole_commit(name, runs["commit"]) for name in (a, b)]
        return "commit", ((store, {"commit": whole[0]}), (store, {"commit": whole[1]}))
    known = {name for kind in ("method", "suite") for name in runs[kind]}
    wrong = next((name for name in (a, b) if name not in known), None)
    if wrong is None:
        raise UserError(f"{a} and {b} are a method and a suite; give two of one kind.")
    raise UserError(
        f"{wrong!r} is no method, suite, commit or evidence file here; {did_you_mean(wrong, known)}"
    )


def our_names(store: Store) -> dict[str, set[str]]:
    """The methods, suites and commits of a folder."""
    from understudy.bench.evidence.run_tables import run_tables

    table = run_tables(store.of_kind("run")).runs
    return {
        kind: {name for name in table.column(kind).to_pylist() if name is not None}
        for kind in ("method", "suite", "commit")
    }


def _whole_commit(start: str, known: set[str]) -> str:
    found = [commit for commit in known if commit.startswith(start)]
    if len(found) != 1:
        raise UserError(f"commit {start} names {len(found)} commits of the evidence, not one.")
    return found[0]


def _side_of_path(path: Path) -> Side:
    if path.is_dir():
        return read_store(path), {}
    store = read_store(path.parent)
    name = path.name.removesuffix(".json")
    if name not in {file.name for file in store.of_kind("run")}:
        raise UserError(f"{path} is no evidence of a run.")
    return store, {"run": name}


def _by_place(figures: Sequence[OurFigure], keep_method: bool) -> dict[_Place, OurFigure]:
    """Each column's figure; several configurations there cannot be told which to compare."""
    found: dict[_Place, list[OurFigure]] = defaultdict(list)
    for figure in figures:
        if figure.values:
            place = (replace(figure.column, stamp=None), figure.group.method if keep_method else "")
            found[place].append(figure)
    for (column, _), same in found.items():
        if len({figure.group.configuration for figure in same}) > 1:
            raise UserError(
                f"{same[0].group.method} has several configurations on {column.dataset}; "
                "compare their suites or evidence files."
            )
    return {place: same[0] for place, same in found.items()}


def _difference(place: _Place, a: OurFigure, b: OurFigure) -> Difference:
    column, method = place
    ours, theirs = ({v.seed: v.value for v in side.values} for side in (a, b))
    seeds = sorted(ours.keys() & theirs.keys())
    if len(seeds) > 1:
        pairs = [theirs[seed] - ours[seed] for seed in seeds]
        mean, half = sum(pairs) / len(pairs), student_half_width(pairs)
        interval, count = Interval(mean, mean - half, mean + half), len(pairs)
        means = (sum(ours[s] for s in seeds) / count, sum(theirs[s] for s in seeds) / count)
        return Difference(column, method, a.facts, *means, interval, count)
    return Difference(
        column, method, a.facts, a.interval().value, b.interval().value, _combined(a, b), 0
    )


def _combined(a: OurFigure, b: OurFigure) -> Interval:
    """The difference of two independent estimates: half-widths add in quadrature."""
    one, other = a.interval(), b.interval()
    value = other.value - one.value
    down = math.hypot(other.value - other.low, one.high - one.value)
    up = math.hypot(other.high - other.value, one.value - one.low)
    return Interval(value, value - down, value + up)
