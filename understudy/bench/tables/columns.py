"""What may stand in one column of a table, and what one row is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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


def metric_title(words: str) -> str:
    """A metric's name in tables, for its name there or the one that protocols call it by."""
    from understudy.evaluation.metric_registry import METRICS, resolve

    return str(resolve("metric", words, METRICS).name) if words in METRICS else words


@dataclass(frozen=True)
class Wanted:
    """Which figures to show; an empty choice takes all."""

    datasets: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    protocols: tuple[str, ...] = ()

    @staticmethod
    def by_options(
        datasets: Sequence[str] | None,
        metrics: Sequence[str] | None,
        protocols: Sequence[str] | None,
    ) -> Wanted:
        """What the options of a command ask for; a metric may be called as in a protocol."""
        titles = tuple(metric_title(name) for name in metrics or ())
        return Wanted(tuple(datasets or ()), titles, tuple(protocols or ()))

    def takes(self, dataset: str, metric: str, protocol: str) -> bool:
        return (
            (not self.datasets or dataset in self.datasets)
            and (
                not self.metrics
                or metric.partition("[")[0] in self.metrics
                or metric in self.metrics
            )
            and (not self.protocols or protocol in self.protocols)
        )


def check_wanted(
    wanted: Wanted, shown: Iterable[Column], everything: Callable[[], Iterable[Column]]
) -> None:
    """Refuse a choice that nothing answers to, and offer the nearest of all there is."""
    for option, asked, field in (
        ("--dataset", wanted.datasets, "dataset"),
        ("--metric", wanted.metrics, "metric"),
        ("--protocol", wanted.protocols, "protocol"),
    ):
        present = {getattr(column, field) for column in shown}
        missing = sorted(set(asked) - present - {name.partition("[")[0] for name in present})
        if missing:
            known = {getattr(column, field) for column in everything()}
            hint = did_you_mean(missing[0], known - set(missing[:1]))
            raise UserError(f"{option} {missing[0]!r}: no figure has it here; {hint}")


def epsilon_words(epsilon: float | None) -> str:
    """A budget as a heading.

    >>> epsilon_words(10.0), epsilon_words(None)
    ('epsilon 10', 'no epsilon')
    """
    return "no epsilon" if epsilon is None else f"epsilon {epsilon:g}"
