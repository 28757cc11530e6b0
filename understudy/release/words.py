"""A claim in plain sentences, for whoever has to answer for the data.

The sentences are a function of the claim's figures and are part of its format: rewording
one is a new version of the format. Words of formats that were released stay as they were.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import ROUND_CEILING, Decimal, localcontext
from typing import TYPE_CHECKING

from understudy.privacy.plan.mechanisms import EXACT

if TYPE_CHECKING:
    from understudy.release.claim import Claim
    from understudy.release.facts import PublicInput

_ROUNDING_SLACK = Decimal("1e-9")
_DIGITS = 400
"""The largest float has 309 before the point."""

_SPLIT_WORDS = {
    "keyed-hash": "Each record's part was decided by a keyed hash of that record or its unit "
    "alone, so adding or removing one unit moves no other; the key is not released.",
    "given": "The owner gave the parts that the records were divided into; the division is "
    "assumed not to depend on any one unit's being present.",
    "stratified": "The figures hold given the split: the parts were stratified over all records "
    "together, and what that division reveals is not covered.",
    "none": "The private records were used whole, without a split.",
}

FORMAT = "understudy-claim/2"
FORMAT_0_1 = "understudy-claim/1"
"""What version 0.1 wrote, beside the owner's own ledger."""

_LEDGER_WORDS = {
    FORMAT_0_1: "The ledger that comes with the release shows that these figures follow from the "
    "uses of private records that were recorded ({length} entries): it proves consistency, not "
    "honesty, for nobody outside can see that the owner's machine did what it recorded.",
    FORMAT: "The ledger that comes with the release lists every use of private records that was "
    "planned, all of which is charged ({length} entries), and shows that these figures follow from "
    "it: it proves consistency, not honesty, for nobody outside can see that the owner's machine "
    "did no more.",
}

_FLOAT_WORDS = (
    "Noise was added in floating-point arithmetic: the figures hold for ideal real numbers, and "
    "attacks on the last bits of what was computed are not covered."
)

_EXACT_WORDS = (
    "Noise was drawn and added in whole numbers (a discrete Gaussian), to sums that were bounded "
    "after rounding: the figures hold for the numbers that were computed, and attacks on the last "
    "bits of floating-point noise do not apply."
)


def claim_in_words(claim: Claim) -> list[str]:
    """Plain sentences; the first says kind, epsilon, delta and unit."""
    return [
        _headline(claim),
        *_guarantee(claim),
        *_of_packages(claim),
        "This covers this release only: every other release made from the same records adds "
        "to what is revealed about them.",
        _assumed_public(claim),
        _randomness(claim),
        *_arithmetic(claim),
        _tuning(claim),
        _public_inputs(claim),
        _SPLIT_WORDS[claim.split],
        *_parts(claim),
        *_soft(claim),
        _soundness(claim),
        _LEDGER_WORDS[claim.format].format(length=claim.ledger.length),
    ]


def unit_in_words(column: str | None) -> str:
    """What one unit is: an image, or everything under one value of a column.

    >>> unit_in_words(None), unit_in_words("patient")
    ('per image, not per person', 'per patient')
    """
    return "per image, not per person" if column is None else f"per {column}"


def epsilon_in_words(epsilon: float) -> str:
    """Two decimals, or two figures below 0.1; rounded up, so that it never flatters.

    >>> epsilon_in_words(1.0), epsilon_in_words(1.0001), epsilon_in_words(0.01234)
    ('1.00', '1.01', '0.013')
    """
    if math.isinf(epsilon):
        return "infinite"
    return f"{_rounded_up(epsilon, figures=2, decimals=2):f}"


def delta_in_words(delta: float) -> str:
    """Three figures, rounded up.

    >>> delta_in_words(1e-5), delta_in_words(1.51487e-6)
    ('1e-05', '1.52e-06')
    """
    return f"{float(_rounded_up(delta, figures=3, decimals=0)):.3g}"


def _rounded_up(value: float, figures: int, decimals: int) -> Decimal:
    """Up to so many significant figures, with at least so many decimals.

    Computed figures wobble in their last bits between machines; the slack keeps 1 plus
    one such bit from reading as 1.01, and is left out where it would show by itself.
    """
    with localcontext(prec=_DIGITS):
        exact = Decimal(value)
        slack = exact * _ROUNDING_SLACK
        places = max(decimals, figures - 1 - (exact - slack).adjusted()) if value else decimals
        step = Decimal(1).scaleb(-places)
        return (exact - slack if slack < step else exact).quantize(step, rounding=ROUND_CEILING)


def _headline(claim: Claim) -> str:
    unit = unit_in_words(claim.unit)
    if claim.kind == "empirical":
        return f"Empirical, no formal privacy guarantee: epsilon is infinite, {unit}."
    name = "Differentially private" if claim.kind == "central" else "Locally differentially private"
    return (
        f"{name}: epsilon {epsilon_in_words(claim.epsilon)}, "
        f"delta {delta_in_words(claim.delta)}, {unit}."
    )


def _guarantee(claim: Claim) -> list[str]:
    if claim.kind == "empirical":
        revealed = [s.name for s in claim.spending if math.isinf(s.epsilon_alone)]
        how = f": {_listed(revealed)} hands them out without protection" if revealed else ""
        return [f"No figure bounds what this release reveals about private records{how}."]
    unit = "one image" if claim.unit is None else f"all images with one value of {claim.unit!r}"
    return [
        f"It bounds how much the release can depend on any one unit, which is {unit} "
        f"(neighbouring relation: {claim.relation}).",
        "Epsilon was computed from everything that was planned or done with private records "
        f"(accountant: {claim.accountant}); stopping early never lowered it.",
    ]


def _of_packages(claim: Claim) -> list[str]:
    """Nothing where all mechanisms are built in, so that words of earlier claims stay."""
    foreign = [s for s in claim.spending if s.shipped_by is not None]
    if not foreign:
        return []
    named = _listed(f"{s.name!r} ({s.kind!r} of {s.shipped_by})" for s in foreign)
    return [
        f"Mechanisms that other packages ship: {named}. How far one unit moves what they release, "
        "and so what they cost, is the word of those packages."
    ]


def _assumed_public(claim: Claim) -> str:
    if not claim.assumed_public:
        return "Nothing about the private records was assumed to be public."
    return f"Assumed to be public, and so not protected: {_listed(claim.assumed_public)}."


def _randomness(claim: Claim) -> str:
    if claim.randomness.insecure_seed:
        return (
            "Noise and sampling came from a seed that can be repeated, so the figures above do "
            "not protect anybody: this is for testing only."
        )
    return f"Noise and sampling came from a secret source: {claim.randomness.source}."


def _arithmetic(claim: Claim) -> list[str]:
    if claim.kind == "empirical":
        return []
    return [_EXACT_WORDS if claim.randomness.noise == EXACT else _FLOAT_WORDS]


def _tuning(claim: Claim) -> str:
    tuning = claim.tuning
    if not tuning.among:
        return (
            "The owner states that no setting was selected by looking at private records."
            if tuning.covered
            else "Tuning is not covered: how the settings were chosen is not stated."
        )
    chosen = f"Settings were selected among {_listed(tuning.among)}"
    by = f" by {tuning.by}" if tuning.by else ""
    if tuning.covered:
        return f"{chosen}{by}; by the owner's account the figures above cover that selection."
    return f"Tuning is not covered: {chosen[0].lower()}{chosen[1:]}{by}, which is not in epsilon."


def _public_inputs(claim: Claim) -> str:
    if not claim.public_inputs:
        return "No public data and no pretrained weights were used."
    inputs = _listed(_input_in_words(p) for p in claim.public_inputs)
    return f"Public inputs, treated as not private: {inputs}."


def _input_in_words(one: PublicInput) -> str:
    if one.facts is None:
        return f"{one.name} ({one.provenance})"
    licence = "unknown" if one.facts.licence is None else one.facts.licence
    return (
        f"{one.name}, {one.facts.kind} used as {one.facts.use!r} ({one.provenance}; "
        f"licence: {licence})"
    )


def _parts(claim: Claim) -> list[str]:
    if not claim.parts:
        return []
    shares = [f"{name} ({count:,} declared)" for name, count in sorted(claim.parts.items())]
    return [
        f"The records to learn from were divided by a keyed hash into parts: {_listed(shares)}; "
        "what was spent on each is added up."
    ]


def _soft(claim: Claim) -> list[str]:
    """Nothing where every value is one class, so that words of earlier claims stay as they were."""
    if not claim.records.soft:
        return []
    return [
        "Labels are soft, a probability for each class instead of one class: "
        f"{_listed(claim.records.soft)}."
    ]


def _soundness(claim: Claim) -> str:
    changes = claim.method.changed_for_soundness
    source = f"{claim.method.name} ({claim.method.paper})"
    if not changes:
        return f"Method: {source}; no change to the published form is recorded."
    return f"Method: {source}; changed for soundness: {_listed(c.rstrip('.') for c in changes)}."


def _listed(items: Iterable[str]) -> str:
    return "; ".join(items)
