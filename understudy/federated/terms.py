"""What may be said of data that many users sent: the weakest promise among them, no more."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from understudy.encoders.citation import Citation
from understudy.federated.contribution import (
    FILTER,
    GAUSSIAN,
    Contribution,
    promise_from_json,
    promise_to_json,
)
from understudy.privacy.local.channel import LocalChannel
from understudy.privacy.plan.plan import LOCAL_RELATION, json_number
from understudy.release.strict_json import canonical_bytes


@dataclass(frozen=True)
class Term:
    """Users who sent under one mechanism with one promise.

    most_records: of any one of them; a user's price follows from it, so what is read back must
        be possible with so many users and records.
    channel: None for filters.
    """

    users: int
    records: int
    most_records: int
    channel: LocalChannel | None

    @property
    def mechanism(self) -> str:
        return FILTER if self.channel is None else GAUSSIAN

    @property
    def order(self) -> str:
        """What terms are grouped and sorted by: mechanism and promise."""
        return repr((self.mechanism, promise_to_json(self.channel)))

    def to_json(self) -> dict[str, Any]:
        return {
            "mechanism": self.mechanism,
            "users": self.users,
            "records": self.records,
            "most_records": self.most_records,
            "promise": promise_to_json(self.channel),
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Term:
        channel = promise_from_json(data["mechanism"], data["promise"])
        found = Term(int(data["users"]), int(data["records"]), int(data["most_records"]), channel)
        if canonical_bytes(found.to_json()) != canonical_bytes(dict(data)) or found.users < 1:
            raise ValueError("a term is not in its own form")
        # Everybody sent at least one record, and somebody at least an even share of them.
        least = -(-found.records // found.users)
        if not 1 <= least <= found.most_records <= found.records - found.users + 1:
            raise ValueError("no users can have sent the records that a term counts")
        return found


def terms_of(contributions: Iterable[Contribution]) -> tuple[Term, ...]:
    """Contributions grouped by mechanism and promise."""
    found: dict[str, Term] = {}
    for contribution in contributions:
        count, channel = len(contribution.records), contribution.channel
        key = Term(0, 0, 0, channel).order
        before = found.get(key, Term(0, 0, 0, channel))
        most = max(before.most_records, count)
        found[key] = Term(before.users + 1, before.records + count, most, channel)
    return tuple(found[key] for key in sorted(found))


def users_in_words(count: int) -> str:
    return "1 user" if count == 1 else f"{count:,} users"


@dataclass(frozen=True)
class WeakestPromise:
    """The figures of a claim about what many users sent.

    Guarantee: "local" only if every user sent through the Gaussian mechanism; epsilon and delta
    are then the largest of any user, per record under replace-one, and `user_epsilon` the largest
    for all records of one user together. One filter among them makes it "empirical", epsilon
    infinite. The collector did not see anybody's noise: a local claim rests on the users' word.
    What the encoder learnt from is part of the claim, whatever its kind.
    """

    encoder: Citation
    kind: str
    epsilon: float
    delta: float
    user_epsilon: float
    most_records: int
    accountant: str
    assumed_public: tuple[str, ...]

    @staticmethod
    def of(terms: Iterable[Term], encoder: Citation) -> WeakestPromise:
        terms = tuple(terms)
        most = max(term.most_records for term in terms)
        channels = [term.channel for term in terms if term.channel is not None]
        if len(channels) < len(terms):
            none = "none: filters promise nothing"
            return WeakestPromise(encoder, "empirical", math.inf, 0.0, math.inf, most, none, ())
        claims = [c.claim(t.most_records) for c, t in zip(channels, terms, strict=True)]
        return WeakestPromise(
            encoder,
            "local",
            max(c.epsilon for c in claims),
            max(c.delta for c in claims),
            max(c.user_epsilon for c in claims),
            most,
            claims[0].accountant,
            tuple(sorted({name for c in claims for name in c.assumed_public})),
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "epsilon": json_number(self.epsilon),
            "delta": self.delta,
            "relation": LOCAL_RELATION if self.kind == "local" else "none",
            "user_epsilon": json_number(self.user_epsilon),
            "most_records_of_a_user": self.most_records,
            "accountant": self.accountant,
            "assumed_public": list(self.assumed_public),
            "encoder": self.encoder.to_json(),
        }

    def words(self, users: int) -> list[str]:
        """The claim in sentences; they follow from its figures."""
        common = [
            self.encoder.statement,
            "This covers this release only, and a user is one contribution: whoever sent several, "
            "or sent these records elsewhere, revealed more.",
        ]
        if self.kind == "empirical":
            return [
                f"Empirical: no guarantee. Filtered data of {users_in_words(users)}; filters "
                "hide labels from the attackers that they were tried against, and a stronger one "
                "may read more.",
                "Nobody but the users held the raw records: a device refuses to send near copies "
                "of them, and the collector cannot check that it did.",
                *common,
            ]
        public = ", ".join(self.assumed_public) or "none"
        return [
            f"Local: epsilon {self.epsilon:.6g} at delta {self.delta:g} per record "
            f"({LOCAL_RELATION}), per record and not per person.",
            f"For all records of one user together (at most {self.most_records}): epsilon "
            f"{self.user_epsilon:.6g} at the same delta.",
            f"Labels that their users declared public, and that no figure covers: {public}.",
            "Each user's device drew its own noise; the collector did not see it, so the figures "
            f"rest on the word of {users_in_words(users)}. Local figures never compose with "
            "central ones.",
            *common,
        ]
