"""What a filter hides and what it keeps, by readers trained afresh on what was sent.

Every reader learns from filtered records with their true labels, which is more than an outsider
has, and is asked about filtered records that it has not seen. Beside each figure stands the same
on raw latents (its reference) and what guessing gives. It is computed with the hidden labels: the
owner's side only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import torch

from understudy.data.records import Array, Images, Records
from understudy.data.schema import Schema
from understudy.errors import UserError
from understudy.evaluation.attackers.attributes import (
    Answers,
    AttributeAccuracy,
    AttributeBalancedAccuracy,
    AttributeInference,
    AttributeLabelRanking,
    AttributeScoreRanking,
    difference,
)
from understudy.evaluation.attackers.guessers import LINEAR, NEIGHBOUR, guesses
from understudy.evaluation.case import Case
from understudy.evaluation.information import entropy, information_bound, information_estimate
from understudy.evaluation.intervals import Interval, wilson
from understudy.evaluation.metric import CONFIDENCE, Direction, Row
from understudy.evaluation.protocol import Protocol, load_protocol
from understudy.progress import Progress, Silent

LATENT_READERS = (LINEAR, "mlp-15", "mlp", NEIGHBOUR)
"""From weak to strong; `mlp-15` is the paper's."""

_FIGURES: tuple[tuple[str, type[AttributeInference]], ...] = (
    ("accuracy", AttributeAccuracy),
    ("balanced accuracy", AttributeBalancedAccuracy),
    ("AUROC of scores", AttributeScoreRanking),
    ("AUROC of hard labels", AttributeLabelRanking),
)


@dataclass(frozen=True)
class View:
    """Records to learn from and records to be asked about, alike in form, with all labels."""

    learned: Records
    asked: Records

    def with_features(self, learned: Array, asked: Array) -> View:
        """The same labels on other features: filtered latents, or decoded images."""
        kinds = [Images if np.asarray(f).dtype == np.uint8 else Records for f in (learned, asked)]
        return View(
            kinds[0](learned, self.learned.attributes, self.learned.schema),
            kinds[1](asked, self.asked.attributes, self.asked.schema),
        )

    def decoded(self, decode: Callable[[Array], Array]) -> View:
        """As images, through an encoder's decoder (`uint8 [N, C, H, W]`)."""
        return self.with_features(decode(self.learned.features), decode(self.asked.features))


@dataclass
class Readers:
    """Readers of one protocol; what they found on a view and attribute is kept by name.

    rates: learning rates that networks try instead of the protocol's; each keeps the one that
        does best on a share of the records that it learns from.
    """

    protocol: Protocol = field(default_factory=lambda: load_protocol("standard"))
    seed: int = 0
    rates: tuple[float, ...] = ()
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    progress: Progress = field(default_factory=Silent)
    _known: dict[tuple[int, str, str], tuple[View, Answers]] = field(default_factory=dict)

    def answers(self, view: View, attribute: str, reader: str) -> Answers:
        """What the named reader, trained on `view.learned`, says of `view.asked`."""
        key = (id(view), attribute, reader)
        if key not in self._known:
            # The view is kept too, so that its id is nobody else's.
            self._known[key] = (view, self._ask(view, attribute, reader))
        return self._known[key][1]

    def seeds(self, reader: str) -> tuple[int, ...]:
        alone = reader in (LINEAR, NEIGHBOUR)
        return (
            (self.seed,)
            if alone
            else tuple(1000 * self.seed + i for i in range(self.protocol.seeds))
        )

    def _ask(self, view: View, attribute: str, reader: str) -> Answers:
        learned, asked = (_only(records, attribute) for records in (view.learned, view.asked))
        if learned.schema != asked.schema:
            raise UserError(f"the classes of {attribute!r} differ between the two parts.")
        case = Case(
            learned,
            None,
            asked,
            self.protocol,
            device=self.device,
            seed=self.seed,
            progress=self.progress,
        )
        scores = guesses(reader, learned, asked.features, case, self.rates)
        return Answers(scores, asked.labels.astype(np.int64))


def reading_rows(
    readers: Readers,
    sent: View,
    raw: View,
    attribute: str,
    role: str,
    names: Sequence[str] = LATENT_READERS,
    form: str = "latents",
) -> tuple[Row, ...]:
    """Every figure of every reader for one attribute; reference: the same reader on raw ones.

    role: `hidden`, `kept` or `unlisted`; lower is better for what is hidden.
    """
    rows = []
    for name in names:
        found, before = (readers.answers(view, attribute, name) for view in (sent, raw))
        label = f"{role} {attribute}"
        for words, figure in _FIGURES:
            metric = figure(name)
            rows.append(
                _row(
                    f"{label} {words}",
                    f"{name}, {form}",
                    metric.figure(found),
                    reference=metric.figure(before).value,
                    chance=metric.chance(found.truth),
                    role=role,
                    seeds=readers.seeds(name),
                )
            )
        rows.append(
            _row(
                f"{label} information, at least",
                f"{name}, {form}",
                information_bound(found),
                reference=information_bound(before).value,
                chance=0.0,
                role=role,
                seeds=readers.seeds(name),
                unit="nats",
                most=entropy(found.truth),
            )
        )
    return tuple(rows)


def information_row(sent: View, raw: View, attribute: str, role: str, seed: int = 0) -> Row:
    """The nearest-neighbour estimate of what is told of an attribute."""
    codes = _only(sent.asked, attribute).labels.astype(np.int64)
    return _row(
        f"{role} {attribute} information, estimated",
        "Ross, 3 neighbours",
        information_estimate(sent.asked.features, codes, seed),
        reference=information_estimate(raw.asked.features, codes, seed).value,
        chance=0.0,
        role=role,
        seeds=(seed,),
        unit="nats",
        most=entropy(codes),
    )


def strongest(rows: Sequence[Row], metric: str) -> Row:
    """The row of the reader that does best: what must be reported of a hidden label."""
    fitting = [row for row in rows if row.metric == metric and row.value is not None]
    if not fitting:
        raise UserError(f"no row is called {metric!r}.")
    return max(fitting, key=lambda row: row.value or 0.0)


def confusion(answers: Answers) -> npt.NDArray[np.float64]:
    """The share of each true class (row) that is answered with each class (column)."""
    classes = answers.scores.shape[1]
    table = np.zeros((classes, classes))
    np.add.at(table, (answers.truth, answers.scores.argmax(axis=1)), 1.0)
    return np.asarray(table / np.maximum(table.sum(axis=1, keepdims=True), 1.0))


def parity_gap(answers: Answers, groups: npt.NDArray[np.int64]) -> Interval:
    """Demographic parity: the largest difference between groups in how often a class is answered.

    With Newcombe's limits for the two shares that differ most; 0 for answers that do not depend
    on the group. The largest of several differences is too high by chance.
    """
    said = answers.scores.argmax(axis=1)
    present = np.unique(groups)
    if len(present) < 2:
        raise UserError("demographic parity needs records of at least two groups.")
    gaps = [
        difference(_share(said[groups == a] == code), _share(said[groups == b] == code))
        for code in range(answers.scores.shape[1])
        for a in present
        for b in present
        if a != b
    ]
    return max(gaps, key=lambda gap: gap.value).within(-1.0, 1.0)


def parity_row(readers: Readers, sent: View, raw: View, kept: str, hidden: str, reader: str) -> Row:
    """The parity gap of what a reader answers for a kept label, between hidden groups."""
    groups = _only(sent.asked, hidden).labels.astype(np.int64)
    found, before = (
        parity_gap(readers.answers(view, kept, reader), groups) for view in (sent, raw)
    )
    truth = readers.answers(sent, kept, reader).truth
    true_gap = parity_gap(Answers(np.eye(int(truth.max()) + 1)[truth], truth), groups)
    row = _row(
        f"demographic parity gap of {kept} between groups of {hidden}",
        f"{reader}, latents",
        found,
        reference=before.value,
        chance=0.0,
        role="hidden",
        seeds=readers.seeds(reader),
    )
    return replace(row, note=f"the true labels have a gap of {true_gap.value:.3f}")


def _row(
    metric: str,
    variant: str,
    found: Interval,
    *,
    reference: float,
    chance: float,
    role: str,
    seeds: tuple[int, ...],
    unit: str = "fraction",
    most: float = 1.0,
) -> Row:
    direction: Direction = "lower" if role == "hidden" else "higher"
    return Row(
        metric=metric,
        variant=variant,
        value=found.value,
        low=found.low,
        high=found.high,
        confidence=CONFIDENCE,
        direction=direction,
        unit=unit,
        bounds=(None if unit == "nats" else 0.0, most),
        seeds=seeds,
        reference=reference,
        chance=chance,
        extractor=None,
        status="ok",
        reason=None,
    )


def _only(records: Records, attribute: str) -> Records:
    """The records with this attribute alone, as their label."""
    own = records.schema.attribute(attribute)
    schema = Schema((own,), label=attribute)
    return Records(records.features, {attribute: records.attributes[attribute]}, schema)


def _share(hits: npt.NDArray[np.bool_]) -> Interval:
    return wilson(float(hits.mean()), len(hits))
