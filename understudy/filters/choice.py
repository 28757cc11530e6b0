"""A user's choice of what to hide and what to keep, and what no filter can do about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log, sqrt

import numpy as np
import numpy.typing as npt

from understudy.data.records import Records
from understudy.data.schema import Attribute
from understudy.errors import UserError

Codes = npt.NDArray[np.int64]

_DETERMINED = 0.99
"""From this share of a hidden label's entropy on, the kept labels give it away."""


_CLEARLY_BETTER = 0.02
"""Accuracy above chance from which on a conflict is worth a word."""


@dataclass(frozen=True)
class Choice:
    """Attributes to hide and attributes to keep; `useful` may be empty."""

    private: tuple[str, ...]
    useful: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.private:
            raise UserError("a filter needs at least one attribute to hide.")
        twice = [n for n in self.names if self.names.count(n) > 1]
        if twice:
            raise UserError(f"attribute {twice[0]!r} is named twice; hide it or keep it, once.")

    @property
    def names(self) -> tuple[str, ...]:
        return self.private + self.useful

    def attributes(self, records: Records, names: Sequence[str]) -> tuple[Attribute, ...]:
        return tuple(records.schema.attribute(name) for name in names)


@dataclass(frozen=True)
class Conflict:
    """How much the kept labels say of one hidden label, whatever a filter does.

    information, entropy: in nats; a filter that keeps the useful labels leaves at least
        `information` of the hidden label's `entropy` in what is sent.
    best_accuracy: what guessing the hidden label from the kept ones gives; no filter that
        keeps them perfectly can bring an attacker below it.
    chance: guessing without them.
    by_counting: information that unrelated labels would hardly exceed on so few records.
    """

    name: str
    information: float
    entropy: float
    best_accuracy: float
    chance: float
    by_counting: float = 0.0

    @property
    def clear(self) -> bool:
        """Whether the kept labels guess it better than chance, by more than an accident."""
        better = self.best_accuracy - self.chance >= _CLEARLY_BETTER
        return better and self.information > self.by_counting

    @property
    def determined(self) -> bool:
        return self.entropy > 0 and self.information >= _DETERMINED * self.entropy

    @property
    def sentence(self) -> str:
        share = self.information / self.entropy if self.entropy else 0.0
        return (
            f"the kept labels hold {self.information:.3f} of the {self.entropy:.3f} nats "
            f"({share:.0%}) of {self.name!r}: they alone guess it with accuracy "
            f"{self.best_accuracy:.3f} (chance {self.chance:.3f})"
        )


def conflicts(records: Records, choice: Choice) -> tuple[Conflict, ...]:
    """For each hidden label, what the kept labels together say of it on these records.

    Counted on these records: with few records for many combinations it is too high.
    """
    kept = joint_codes([codes_of(records, name) for name in choice.useful], len(records))
    return tuple(_conflict(name, codes_of(records, name), kept) for name in choice.private)


def refuse_impossible(records: Records, choice: Choice) -> None:
    """An error where a hidden label follows from the kept ones: no filter can do both."""
    for conflict in conflicts(records, choice):
        if conflict.determined:
            raise UserError(
                f"no filter can hide {conflict.name!r} and keep {', '.join(choice.useful)}: "
                f"{conflict.sentence}; hide less, or keep less."
            )


def codes_of(records: Records, name: str) -> Codes:
    """An attribute as codes; probabilities give their most probable class."""
    records.schema.attribute(name)
    column = records.attributes[name]
    return np.asarray(column if column.ndim == 1 else column.argmax(axis=1), np.int64)


def joint_codes(columns: Sequence[Codes], count: int) -> Codes:
    """One code for each combination of several labels that occurs; 0 for all if there is none."""
    if not columns:
        return np.zeros(count, np.int64)
    stacked = np.stack(columns, axis=1)
    return np.asarray(np.unique(stacked, axis=0, return_inverse=True)[1].reshape(-1), np.int64)


def _conflict(name: str, hidden: Codes, kept: Codes) -> Conflict:
    if not len(hidden):
        raise UserError("a filter needs records to learn from; there are none.")
    table = np.zeros((int(kept.max()) + 1, int(hidden.max()) + 1))
    np.add.at(table, (kept, hidden), 1.0)
    table /= len(hidden)
    entropy = _entropy(table.sum(axis=0))
    information = max(entropy + _entropy(table.sum(axis=1)) - _entropy(table.reshape(-1)), 0.0)
    return Conflict(
        name,
        information,
        entropy,
        float(table.max(axis=1).sum()),
        float(table.sum(axis=0).max()),
        _information_by_counting(table, len(hidden)),
    )


def _information_by_counting(table: npt.NDArray[np.float64], count: int) -> float:
    """2 N times the information of unrelated labels is chi-square: its mean and 3 deviations."""
    rows, columns = ((table.sum(axis=axis) > 0).sum() - 1 for axis in (1, 0))
    freedom = float(rows * columns)
    return (freedom + 3 * sqrt(2 * freedom)) / (2 * count)


def _entropy(shares: npt.NDArray[np.float64]) -> float:
    return -sum(float(p) * log(float(p)) for p in shares if p > 0)


def best_achievable(
    records: Records, choice: Choice, kept_accuracy: float = 1.0
) -> dict[str, float]:
    """For each hidden label, the lowest attack accuracy that *any* mechanism can reach.

    Whatever is sent, if every kept label can be read from it with at least `kept_accuracy`, an
    attacker who sees only these readings guesses the hidden label at least this well. A linear
    programme over all channels from label combinations to readings; no filter need attain it.
    """
    from scipy.optimize import linprog

    if not 0 <= kept_accuracy <= 1:
        raise UserError(f"kept_accuracy must lie between 0 and 1, not {kept_accuracy!r}.")
    found = {}
    for name in choice.private:
        problem = _channel_problem(records, name, choice.useful, kept_accuracy)
        found[name] = float(linprog(**problem, bounds=(0, None)).fun)
    return found


def _channel_problem(
    records: Records, hidden: str, useful: Sequence[str], floor: float
) -> dict[str, npt.NDArray[np.float64]]:
    """Variables: the mass that each label combination sends to each reading, then for each
    reading the mass of the hidden class that is guessed from it."""
    columns = [codes_of(records, name) for name in (hidden, *useful)]
    cells, counts = np.unique(np.stack(columns, axis=1), axis=0, return_counts=True)
    readings = np.unique(cells[:, 1:], axis=0)
    many, classes = len(readings), int(cells[:, 0].max()) + 1
    sent = len(cells) * many
    at_most = []
    for reading in range(many):  # a guess is worth at least the mass of every class
        for code in range(classes):
            line = np.zeros((len(cells), many))
            line[cells[:, 0] == code, reading] = 1.0
            guess = np.zeros(many)
            guess[reading] = -1.0
            at_most.append(np.concatenate((line.reshape(-1), guess)))
    for label in range(len(useful)):
        right = cells[:, 1 + label][:, None] == readings[None, :, label]
        at_most.append(np.concatenate((-right.astype(np.float64).reshape(-1), np.zeros(many))))
    exactly = np.zeros((len(cells), sent + many))
    for cell in range(len(cells)):
        exactly[cell, cell * many : (cell + 1) * many] = 1.0
    return {
        "c": np.concatenate((np.zeros(sent), np.ones(many))),
        "A_ub": np.stack(at_most),
        "b_ub": np.concatenate((np.zeros(many * classes), np.full(len(useful), -floor))),
        "A_eq": exactly,
        "b_eq": counts / counts.sum(),
    }
