"""Merging what users sent: one user's garbage is named and left out, and harms nobody."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from understudy.data.records import Array
from understudy.errors import UserError
from understudy.federated.agreement import Agreement
from understudy.federated.contribution import Contribution
from understudy.federated.sent_folder import digest_of
from understudy.federated.terms import Term, terms_of
from understudy.privacy.noise.source import NoiseSource

NOT_SENT = -1
"""The code of a label that a record's user did not send."""

_LONGEST_REASON = 300
_MOST_REASONS = 50


@dataclass(frozen=True)
class LeftOut:
    """A user whose contribution was not taken, and why. For the collector's eyes."""

    name: str
    reason: str


@dataclass(frozen=True)
class Merged:
    """Everybody's records in a secret random order; nothing says whose is whose.

    labels: per agreed label `int64 [N]`, with `NOT_SENT` where the user sent none.
    terms: how many users sent under which mechanism and promise.
    """

    agreement: Agreement
    features: Array
    labels: dict[str, Array]
    terms: tuple[Term, ...]
    left_out: tuple[LeftOut, ...]

    @property
    def users(self) -> int:
        return sum(term.users for term in self.terms)

    def __len__(self) -> int:
        return len(self.features)


@dataclass
class Gathering:
    """Contributions as they come in; each is checked by itself before it counts."""

    agreement: Agreement
    taken: list[Contribution]
    left_out: list[LeftOut]
    _known: dict[str, str]

    @staticmethod
    def under(agreement: Agreement) -> Gathering:
        return Gathering(agreement, [], [], {})

    def take(self, name: str, read: Callable[[], Contribution]) -> bool:
        """Take what `read` gives, or remember why not; what arrives twice counts once."""
        try:
            with doubted():
                found = read()
                digest = digest_of(found.statement(), found.arrays())
                if digest in self._known:
                    raise UserError(f"it is the same as {self._known[digest]}.")
        except UserError as error:
            self.left_out.append(LeftOut(name, _sentence(error)))
            return False
        self._known[digest] = name
        self.taken.append(found)
        return True

    def leave_out(self, name: str, reason: str) -> None:
        self.left_out.append(LeftOut(name, reason))

    def merged(self, noise: NoiseSource | None = None) -> Merged:
        """All that was taken, shuffled by secret randomness."""
        if not self.taken:
            raise UserError(f"nobody sent anything that can be taken{_reasons(self.left_out)}.")
        total = sum(len(c.records) for c in self.taken)
        order = _secret_order(total, noise or NoiseSource())
        features = np.concatenate([c.records.features for c in self.taken])[order]
        labels = {
            attribute.name: np.concatenate(list(_columns(self.taken, attribute.name)))[order]
            for attribute in self.agreement.labels
            if any(attribute.name in c.records.attributes for c in self.taken)
        }
        terms = terms_of(self.taken)
        return Merged(self.agreement, features, labels, terms, tuple(self.left_out))


@contextmanager
def doubted() -> Iterator[None]:
    """What reading a stranger's data may raise, as one sentence."""
    try:
        yield
    except (
        *(ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RuntimeError),
        *(OSError, EOFError, MemoryError),
    ) as error:
        raise UserError(f"it cannot be read ({type(error).__name__}: {error}).") from error


def _columns(taken: Iterable[Contribution], name: str) -> Iterator[Array]:
    for contribution in taken:
        absent = np.full(len(contribution.records), NOT_SENT, np.int64)
        yield contribution.records.attributes.get(name, absent)


def _secret_order(count: int, noise: NoiseSource) -> Array:
    """A uniform permutation that nobody can repeat: rows ranked by 62 secret bits each."""
    return np.argsort(noise.integers(count, 2**62).numpy(), kind="stable")


def _reasons(left_out: Sequence[LeftOut]) -> str:
    shown = [f"{one.name}: {one.reason.rstrip('.')}" for one in left_out[:_MOST_REASONS]]
    if len(left_out) > len(shown):
        shown.append(f"and {len(left_out) - len(shown)} more")
    return f" ({'; '.join(shown)})" if shown else ""


def _sentence(error: Exception) -> str:
    words = " ".join(str(error).split())
    return words if len(words) <= _LONGEST_REASON else words[:_LONGEST_REASON] + "…"
