"""What may stand in one column of a table, and what one row is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from understudy.errors import UserError, did_you_mean


@dataclass(frozen=True)
class Column:
    """Figures that may be compared: one dataset, budget, metric, variant and protocol.

    protocol_id: two protocols of one name that differ in anything have different ids, and a
        protocol of ours has that of a published one only where it is said to be the same.
    stamp: what must be said wherever a figure of this protocol is shown.
    """

    dataset: str
    epsilon: float | None
    metric: str
    variant: str
    protocol: str
    protocol_id: str
    stamp: str | None = None

    @property
    def block(self) -> tuple[str, str]:
        return self.dataset, self.metric


@dataclass(frozen=True)
class Line:
    """Who made the figures of one row.

    source: empty for our own, else the source and table that published them.
    detail: what tells apart two configurations of one method.
    trusted: False for evidence that was edited or that the index does not list.
    sound: whether a published claim holds: yes, no, unclear, or none made.
    reason: why not, or why that is unclear.
    """

    method: str
    source: str = ""
    detail: str = ""
    trusted: bool = True
    limited: bool = False
    sound: str = "yes"
    reason: str = ""


@dataclass(frozen=True)
class Wanted:
    """Which figures to show; an empty choice takes all."""

    datasets: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    protocols: tuple[str, ...] = ()

    def takes(self, dataset: str, metric: str, protocol: str) -> bool:
        return (
            (not self.datasets or dataset in self.datasets)
            and (not self.metrics or metric in self.metrics)
            and (not self.protocols or protocol in self.protocols)
        )


def check_wanted(wanted: Wanted, columns: Iterable[Column]) -> None:
    """Refuse a choice that nothing answers to, and offer the nearest."""
    known = list(columns)
    for option, asked, there in (
        ("--dataset", wanted.datasets, {column.dataset for column in known}),
        ("--metric", wanted.metrics, {column.metric for column in known}),
        ("--protocol", wanted.protocols, {column.protocol for column in known}),
    ):
        for name in asked:
            if name not in there:
                raise UserError(f"{option} {name!r}: no figure has it; {did_you_mean(name, there)}")


def epsilon_words(epsilon: float | None) -> str:
    """A budget as a heading.

    >>> epsilon_words(10.0), epsilon_words(None)
    ('epsilon 10', 'no epsilon')
    """
    return "no epsilon" if epsilon is None else f"epsilon {epsilon:g}"
