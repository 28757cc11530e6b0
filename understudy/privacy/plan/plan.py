"""Budget and plan: what may be spent, and everything that will be done for it."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar, overload

from understudy.errors import PrivacyError, UserError, did_you_mean
from understudy.privacy.plan.events import Event
from understudy.privacy.plan.mechanisms import (
    Mechanism,
    check_mechanism,
    mechanism_from_json,
    mechanism_to_json,
)

M = TypeVar("M", bound=Mechanism)

RELATION = "add-or-remove one unit"
LOCAL_RELATION = "replace-one, per record"

Spend = Callable[[float], Sequence[Mechanism]]
"""What a method will do, as a function of the noise multiplier that calibration turns."""


@dataclass(frozen=True)
class Budget:
    """The privacy that a run may spend: (epsilon, delta), or none at all."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        if math.isnan(self.epsilon) or self.epsilon <= 0:
            raise UserError(f"epsilon must be a number above 0, not {self.epsilon!r}.")
        if math.isnan(self.delta) or not 0 < self.delta < 1:
            raise UserError(f"delta must lie between 0 and 1 (1e-5, say), not {self.delta!r}.")

    @staticmethod
    def empirical(delta: float = 1e-5) -> Budget:
        """No formal guarantee: records may be revealed, and the claim says so."""
        return Budget(math.inf, delta)

    @property
    def is_empirical(self) -> bool:
        return math.isinf(self.epsilon)

    def calibrate(self, spend: Spend) -> Plan:
        """The plan with the least noise that stays within this budget.

        Guarantee: the composed epsilon of the plan lies in [0.99, 1.00] times the
        target and never above it.
        """
        from understudy.privacy.plan.calibration import calibrate

        return calibrate(self, spend)


@dataclass(frozen=True)
class Plan:
    """Every use of private records that a run may make, and its composed cost.

    A plan is single-use: `ident` is drawn at random and a ledger takes it once.
    """

    budget: Budget
    mechanisms: tuple[Mechanism, ...]
    epsilon: float
    accountant: str
    ident: str
    relation: str = RELATION

    def __post_init__(self) -> None:
        names = [m.name for m in self.mechanisms]
        if len(set(names)) != len(names):
            raise UserError("two planned mechanisms share a name; names must differ.")
        for mechanism in self.mechanisms:
            check_mechanism(mechanism)
        if self.epsilon > self.budget.epsilon:
            raise PrivacyError(
                f"the plan costs epsilon {self.epsilon:.6g}, "
                f"above the budget {self.budget.epsilon:.6g}."
            )

    @staticmethod
    def new_ident() -> str:
        return secrets.token_hex(16)

    @property
    def delta(self) -> float:
        return self.budget.delta

    @overload
    def mechanism(self, name: str) -> Mechanism: ...

    @overload
    def mechanism(self, name: str, kind: type[M]) -> M: ...

    def mechanism(self, name: str, kind: type[Mechanism] | None = None) -> Mechanism:
        """The mechanism of this name, which must be of this kind if one is given."""
        for mechanism in self.mechanisms:
            if mechanism.name == name:
                if kind is None or isinstance(mechanism, kind):
                    return mechanism
                raise PrivacyError(f"{name!r} in the plan is no {kind.kind} but {mechanism.kind}.")
        known = [m.name for m in self.mechanisms]
        raise PrivacyError(f"the plan has no mechanism {name!r}; {did_you_mean(name, known)}")

    def events(self) -> tuple[Event, ...]:
        return tuple(e for m in self.mechanisms for e in m.events(m.uses))

    def to_json(self) -> dict[str, Any]:
        return {
            "ident": self.ident,
            "relation": self.relation,
            "accountant": self.accountant,
            "budget": {"epsilon": json_number(self.budget.epsilon), "delta": self.budget.delta},
            "epsilon": json_number(self.epsilon),
            "mechanisms": [mechanism_to_json(m) for m in self.mechanisms],
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Plan:
        unknown = sorted(set(data) - {field.name for field in fields(Plan)})
        if unknown:
            raise UserError(
                f"the plan has a field {unknown[0]!r} that this version does not know; "
                "use the version that wrote it."
            )
        return Plan(
            budget=Budget(number_from_json(data["budget"]["epsilon"]), data["budget"]["delta"]),
            mechanisms=tuple(mechanism_from_json(m) for m in data["mechanisms"]),
            epsilon=number_from_json(data["epsilon"]),
            accountant=data["accountant"],
            ident=data["ident"],
            relation=data["relation"],
        )


def json_number(value: float) -> float | str:
    """JSON has no infinity; it is written as the word."""
    return "infinity" if math.isinf(value) else value


def number_from_json(value: float | str) -> float:
    return math.inf if value == "infinity" else float(value)
