"""What an encoder learnt from, and what that cost: everything made with it cites this."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from understudy.errors import UserError
from understudy.privacy.plan.plan import json_number, number_from_json

PUBLIC, CENTRAL, REVEALED = "public", "central", "revealed"
CLAIMS = (PUBLIC, CENTRAL, REVEALED)
_KINDS: Mapping[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("trained_on", "claim", "accountant", "relation", "settings"), str),
    **dict.fromkeys(("unit", "ledger", "licence"), (str, type(None))),
    "epsilon": (int, float, str),
    "delta": (int, float),
    "entries": int,
}


@dataclass(frozen=True)
class Provenance:
    """Where an encoder's weights come from.

    trained_on: the data, in words that may be printed.
    claim: "public" (no private record was used), "central" (DP-SGD through the door) or
        "revealed" (private records were read freely).
    epsilon, delta: of the training, for the private records it used: 0 for public data,
        infinite for revealed records.
    unit: the column that names the person; None is one record, not one person.
    ledger, entries: head and length of the training run's ledger, where there is one.
    settings: which preset was used, and what that was tuned on.
    licence: of the training data, where it has one; it may forbid to hand the encoder on.
    """

    trained_on: str
    claim: str
    epsilon: float
    delta: float = 0.0
    accountant: str = "none"
    relation: str = ""
    unit: str | None = None
    ledger: str | None = None
    entries: int = 0
    settings: str = ""
    licence: str | None = None

    def __post_init__(self) -> None:
        if self.claim not in CLAIMS:
            raise UserError(
                f"an encoder's claim is one of {', '.join(CLAIMS)}, not {self.claim!r}."
            )
        wanted = {PUBLIC: self.epsilon == 0, REVEALED: math.isinf(self.epsilon)}
        sound = wanted.get(self.claim, math.isfinite(self.epsilon) and self.epsilon > 0)
        if not sound or math.isnan(self.epsilon):
            raise UserError(
                f"an encoder's claim {self.claim!r} cannot have epsilon {self.epsilon}; public "
                "is 0, revealed is infinite, central lies between."
            )
        if self.claim == CENTRAL and not 0 < self.delta < 1:
            raise UserError(f"an encoder's delta must lie between 0 and 1, not {self.delta}.")

    @property
    def statement(self) -> str:
        """One sentence for claims and cards of whatever is made with the encoder."""
        if self.claim == PUBLIC:
            return f"The encoder was trained on public data ({self.trained_on}) and costs nothing."
        if self.claim == REVEALED:
            return (
                f"The encoder was trained on revealed records of {self.trained_on}: epsilon is "
                "infinite for them, and no claim about them is better than that."
            )
        whom = "record" if self.unit is None else f"unit ({self.unit})"
        return (
            f"The encoder was trained on {self.trained_on} by DP-SGD: epsilon {self.epsilon:.4g} "
            f"at delta {self.delta:g} per {whom}, add-or-remove ({self.accountant}); this adds "
            "to whatever else is released about them."
        )

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "epsilon": json_number(self.epsilon), "statement": self.statement}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Provenance:
        values = {f.name: data[f.name] for f in fields(Provenance)}
        for name, kinds in _KINDS.items():
            if not isinstance(values[name], kinds) or isinstance(values[name], bool):
                raise TypeError(f"its {name} is {values[name]!r}")
        found = Provenance(**{**values, "epsilon": number_from_json(values["epsilon"])})
        if data["statement"] != found.statement:
            raise ValueError("its statement does not follow from its figures")
        return found
