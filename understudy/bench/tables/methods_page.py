"""The table of figures on the methods page, made from evidence and never typed."""

from __future__ import annotations

from collections import defaultdict
from statistics import fmean
from typing import Any

from understudy.bench.evidence.run_tables import run_tables
from understudy.bench.evidence.store import Store
from understudy.bench.tables.run_figures import OurFigure, our_figures

HEADINGS = ("dataset", "method", "epsilon", "seeds", "MLP", "CNN", "real", "time", "memory")
_METRIC = "gen2real accuracy"
_VARIANTS = ("mlp", "cnn")
_NONE = "-"


def methods_page_rows(store: Store, protocol: str = "standard") -> list[str]:
    """One line of Markdown for each method, dataset and budget that a trusted run measured.

    Smoke runs and changed protocols are left out: only the protocol itself, without a stamp.
    """
    figures = our_figures(store, trusted_only=True).figures
    found: dict[tuple[str, str, float, str], dict[str, OurFigure]] = defaultdict(dict)
    for figure in figures:
        column, group = figure.column, figure.group
        shown = column.metric == _METRIC and column.protocol == protocol and not column.stamp
        if shown and figure.values and column.variant in _VARIANTS:
            epsilon = float("inf") if column.epsilon is None else column.epsilon
            place = (column.dataset, group.method, epsilon, group.configuration)
            found[place][column.variant] = figure
    costs = _costs(store)
    return [_row(variants, costs[place[-1]]) for place, variants in sorted(found.items())]


def methods_page_table(store: Store, protocol: str = "standard") -> str:
    """The whole table, as the page holds it."""
    head = [_line(HEADINGS), f"|{'---|' * len(HEADINGS)}"]
    return "\n".join([*head, *methods_page_rows(store, protocol)])


def _costs(store: Store) -> dict[str, dict[str, list[Any]]]:
    """By configuration: claimed epsilon, seconds of fit and sample, and memory of each run."""
    tables = run_tables(store.of_kind("run", trusted_only=True))
    seconds: dict[str, float] = defaultdict(float)
    for phase in tables.phases.to_pylist():
        if phase["phase"] in ("fit", "sample"):
            seconds[phase["run"]] += phase["seconds"]
    costs: dict[str, dict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
    for run in tables.runs.to_pylist():
        if run["status"] == "ok":
            cost = costs[run["configuration"]]
            cost["epsilon"].append(run["claimed_epsilon"])
            cost["seconds"].append(seconds[run["run"]])
            cost["memory"].append(run["peak_gigabytes"])
    return costs


def _row(variants: dict[str, OurFigure], cost: dict[str, list[Any]]) -> str:
    figure = next(iter(variants.values()))
    epsilons = [epsilon for epsilon in cost["epsilon"] if epsilon is not None]
    memory = [peak for peak in cost["memory"] if peak is not None]
    cnn = variants.get("cnn")
    cells = (
        figure.column.dataset,
        f"`{figure.group.method}`",
        f"{max(epsilons):.3f}" if epsilons else "none",
        str(len(figure.values)),
        *(_accuracy(variants.get(variant)) for variant in _VARIANTS),
        f"{100 * fmean(cnn.references):.1f}%" if cnn and cnn.references else _NONE,
        f"{fmean(cost['seconds']):.0f} s",
        f"{max(memory):.1f} GB" if memory else _NONE,
    )
    return _line(cells)


def _accuracy(figure: OurFigure | None) -> str:
    if figure is None:
        return _NONE
    found = figure.interval()
    return f"{100 * found.value:.1f}% ({100 * found.low:.1f} to {100 * found.high:.1f})"


def _line(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"
