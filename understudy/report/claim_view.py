"""The claim as the templates read it: typed, complete, nothing beyond what they show."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from understudy.errors import UserError
from understudy.privacy.plan.plan import number_from_json
from understudy.report import words

KIND_WORDS: Mapping[str, str] = {
    "central": "Differential privacy, central",
    "local": "Differential privacy, local",
    "empirical": "No formal guarantee",
}
_LONGEST_SETTING = 400


@dataclass(frozen=True)
class ClaimView:
    """Figures and sentences of one claim."""

    kind: str
    epsilon: float
    delta: float | None
    statement: tuple[str, ...]
    accountant: str
    relation: str
    scope: str
    unit_column: str | None
    unit_words: str
    assumed_public: tuple[str, ...]
    noise_source: str
    noise_numbers: str
    insecure_seed: bool
    tuning_covered: bool
    tuning_among: tuple[str, ...]
    tuning_by: str
    public_inputs: tuple[tuple[str, str], ...]
    split: str
    method: str
    paper: str
    changed: tuple[str, ...]
    ledger_head: str
    ledger_length: int | None
    versions: tuple[tuple[str, str], ...]
    record_count: int | None
    shape: tuple[int, ...]

    @property
    def kind_words(self) -> str:
        return KIND_WORDS[self.kind]

    @property
    def is_formal(self) -> bool:
        return self.kind != "empirical"

    @property
    def epsilon_words(self) -> str:
        return words.epsilon_up(self.epsilon)

    @property
    def delta_words(self) -> str:
        return words.power_of_ten(self.delta) if self.delta else "none"

    @property
    def delta_one_in(self) -> str:
        return words.one_in(self.delta) if self.delta else ""

    @property
    def record(self) -> str:
        """What one record is called."""
        return "image" if len(self.shape) == 3 else "record"

    @property
    def protected(self) -> str:
        """What one unit is called: a column's name, or the record."""
        return self.unit_column or self.record

    @property
    def ceiling(self) -> float:
        """The best rate of right guesses about one unit, at an even bet."""
        return words.guess_ceiling(self.epsilon, self.delta or 0.0)

    @property
    def ceiling_words(self) -> str:
        return words.percent_up(self.ceiling)

    @property
    def size_words(self) -> str:
        if len(self.shape) != 3:
            return " × ".join(str(n) for n in self.shape)
        channels, height, width = self.shape
        colour = {1: "grey", 3: "colour"}.get(channels, f"{channels} channels")
        return f"{height} × {width} pixels, {colour}"


def claim_view(claim: Mapping[str, Any]) -> ClaimView:
    """Read a `claim.json` object; a kind or number that it cannot state is refused."""
    kind = str(claim["kind"])
    if kind not in KIND_WORDS:
        raise UserError(f"claim has kind {kind!r}; it must be one of {', '.join(KIND_WORDS)}.")
    epsilon = _epsilon(claim["epsilon"])
    if (kind == "empirical") != math.isinf(epsilon):
        raise UserError(
            f"claim has kind {kind!r} and epsilon {claim['epsilon']!r}; "
            "an empirical claim, and no other, has epsilon 'infinity'."
        )
    randomness, tuning = _part(claim, "randomness"), _part(claim, "tuning")
    method, ledger = _part(claim, "method"), _part(claim, "ledger")
    unit, records = _part(claim, "unit"), _part(claim, "records")
    delta = claim.get("delta")
    return ClaimView(
        kind=kind,
        epsilon=epsilon,
        delta=None if delta is None else float(delta),
        statement=_texts(claim["statement"]),
        accountant=str(claim.get("accountant") or "not stated"),
        relation=str(claim["relation"]),
        scope=str(claim.get("scope") or "this release only"),
        unit_column=unit.get("column"),
        unit_words=str(unit.get("words") or "not stated"),
        assumed_public=_texts(claim.get("assumed_public")),
        noise_source=str(randomness.get("source") or "not stated"),
        noise_numbers=str(randomness.get("noise") or "not stated"),
        insecure_seed=bool(randomness.get("insecure_seed")),
        tuning_covered=bool(tuning.get("covered")),
        tuning_among=_texts(tuning.get("among")),
        tuning_by=str(tuning.get("by") or ""),
        public_inputs=_inputs(claim.get("public_inputs")),
        split=words.plain(claim.get("split") or "not stated"),
        method=str(method.get("name") or "not stated"),
        paper=str(method.get("paper") or "not stated"),
        changed=_texts(method.get("changed_for_soundness")),
        ledger_head=str(ledger.get("head") or ""),
        ledger_length=ledger.get("length"),
        versions=tuple((str(k), str(v)) for k, v in _part(claim, "versions").items()),
        record_count=records.get("count"),
        shape=tuple(int(n) for n in records.get("shape") or ()),
    )


def flat_settings(settings: Mapping[str, Any], prefix: str = "") -> tuple[tuple[str, str], ...]:
    """Nested settings as rows of dotted name and text, in their own order."""
    rows: list[tuple[str, str]] = []
    for key, value in settings.items():
        if isinstance(value, Mapping) and value:
            rows.extend(flat_settings(value, f"{prefix}{key}."))
        else:
            told = words.plain(None if value == {} else value)
            rows.append((f"{prefix}{key}", words.shorten(told, _LONGEST_SETTING)))
    return tuple(rows)


def _epsilon(value: object) -> float:
    if not isinstance(value, int | float | str) or isinstance(value, bool):
        raise UserError(f"claim has epsilon {value!r}; it must be a number or 'infinity'.")
    try:
        epsilon = number_from_json(value)
    except ValueError:
        raise UserError(
            f"claim has epsilon {value!r}; it must be a number or 'infinity'."
        ) from None
    if math.isnan(epsilon) or epsilon < 0:
        raise UserError(f"claim has epsilon {value!r}; it must not be negative.")
    return epsilon


def _part(claim: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = claim.get(key)
    return value if isinstance(value, Mapping) else {}


def _texts(value: str | Sequence[Any] | None) -> tuple[str, ...]:
    if value is None:
        return ()
    return (value,) if isinstance(value, str) else tuple(words.plain(v) for v in value)


def _inputs(value: Sequence[Mapping[str, Any]] | None) -> tuple[tuple[str, str], ...]:
    return tuple((str(item.get("name") or "unnamed"), _said_of(item)) for item in value or ())


def _said_of(item: Mapping[str, Any]) -> str:
    """Where a public input comes from; version 0.1 told no more than that."""
    told = str(item.get("provenance") or "not stated")
    if "use" not in item:
        return told
    licence = item.get("licence") or "unknown"
    return f"{item['kind']} used as {item['use']}; {told}; licence: {licence}; {item['sha256']}"
