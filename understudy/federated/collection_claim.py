"""`collection.json`: what a collection says of itself, and whether its terms support it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from understudy.encoders.citation import Citation
from understudy.encoders.encoder import Encoder
from understudy.federated.collected_table import sent_attributes
from understudy.federated.merging import NOT_SENT, Merged
from understudy.federated.terms import CollectedClaim, Term
from understudy.privacy.plan import number_from_json
from understudy.release.build import current_versions
from understudy.release.claim import SCOPE
from understudy.release.claim_check import accountant_method, close

CLAIM = "collection.json"
FORMAT = "understudy-collection/1"
_FIGURES = ("epsilon", "user_epsilon")
_BESIDE = {"format", "statement", "scope", "terms", "users", "records", "versions"}
_RECORDS = {"count", "content", "shape", "labels"}


def claim_of(merged: Merged) -> dict[str, Any]:
    """The claim of a collection; what its encoder learnt from is the agreement's to say."""
    found = CollectedClaim.of(merged.terms, merged.agreement.encoder)
    return {
        "format": FORMAT,
        "statement": found.words(merged.users),
        **found.to_json(),
        "scope": SCOPE,
        "terms": [term.to_json() for term in merged.terms],
        "users": merged.users,
        "records": {
            "count": len(merged),
            "content": merged.agreement.content,
            "shape": list(merged.agreement.shape),
            "labels": [
                {
                    "name": a.name,
                    "classes": list(a.classes),
                    "sent": int((merged.labels[a.name] != NOT_SENT).sum()),
                }
                for a in sent_attributes(merged)
            ],
        },
        "versions": current_versions(),
    }


def claim_problems(claim: Mapping[str, Any]) -> list[str]:
    """Where a claim says something else than follows from its terms and its encoder."""
    terms = [Term.from_json(term) for term in claim["terms"]]
    found = CollectedClaim.of(terms, Citation.from_json(claim["encoder"]))
    users = sum(term.users for term in terms)
    expected = {**found.to_json(), "format": FORMAT, "scope": SCOPE, "users": users}
    strange = sorted(set(claim) ^ (set(expected) | _BESIDE))
    strange += sorted(set(claim["records"]) ^ _RECORDS)
    problems = [f"its claim has or lacks {name!r}." for name in strange]
    problems += [
        f"its {name} does not follow from the terms that users sent under."
        for name, value in expected.items()
        if name in claim and not _same(name, claim[name], value)
    ]
    epsilon, user_epsilon = (number_from_json(claim[name]) for name in _FIGURES)
    stated = replace(found, epsilon=epsilon, user_epsilon=user_epsilon)
    if claim["statement"] != stated.words(users):
        problems.append("its statement does not follow from the terms that users sent under.")
    if sum(term.records for term in terms) != claim["records"]["count"]:
        problems.append("its records are not as many as its terms say.")
    return problems


def encoder_problems(claim: Mapping[str, Any], encoder: Encoder) -> list[str]:
    """Where a claim says something else of its encoder than the encoder's own file."""
    cited = Citation.from_json(claim["encoder"])
    problems = [f"{problem}." for problem in cited.problems(encoder)]
    channels = [Term.from_json(term).channel for term in claim["terms"]]
    if any(c is not None and c.radius != encoder.radius for c in channels):
        problems.append("its noise is for another radius than the encoder's.")
    declared = {a.name: a.classes for a in encoder.schema.attributes}
    problems += [
        f"label {label['name']!r} is not as the encoder's file declares it."
        for label in _labels(claim)
        if declared.get(label["name"]) != tuple(label["classes"])
    ]
    return problems


def _labels(claim: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    labels: Sequence[Mapping[str, Any]] = claim["records"]["labels"]
    return labels


def _same(name: str, said: Any, expected: Any) -> bool:
    """Figures to the last digits that another machine may change; all else as it is."""
    if name in _FIGURES:
        return close(number_from_json(said), number_from_json(expected))
    if name == "accountant":
        return accountant_method(said) == accountant_method(expected)
    return bool(said == expected)
