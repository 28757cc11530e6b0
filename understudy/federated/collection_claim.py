"""`collection.json`: what a collection says of itself, and whether its terms support it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from understudy.encoders.citation import Citation
from understudy.encoders.encoder import Encoder
from understudy.federated.collected_table import sent_attributes
from understudy.federated.contribution import CONTENTS
from understudy.federated.merging import NOT_SENT, Merged
from understudy.federated.terms import CollectedClaim, Term
from understudy.privacy.plan.plan import number_from_json
from understudy.release.build import VERSIONED, current_versions
from understudy.release.claim import SCOPE
from understudy.release.claim_check import close
from understudy.release.strict_json import readable_bytes

CLAIM = "collection.json"
FORMAT = "understudy-collection/1"
_FIGURES = ("epsilon", "user_epsilon")
_BESIDE = {"format", "statement", "scope", "terms", "users", "records", "versions"}
_RECORDS = ("count", "content", "shape", "labels")
_VERSION = re.compile(r"[0-9][0-9a-z.+]{0,40}")
_ACCOUNTANT_VERSION = re.compile(rf"(?<=, dp_accounting ){_VERSION.pattern}\Z")
_LABEL = ("name", "classes", "sent")


def claim_of(merged: Merged) -> dict[str, Any]:
    """The claim of a collection; what its encoder learnt from is the agreement's to say."""
    found = CollectedClaim.of(merged.terms, merged.agreement.encoder)
    records = {
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
    }
    return _written(found, merged.terms, records, current_versions())


def _written(
    found: CollectedClaim,
    terms: Sequence[Term],
    records: Mapping[str, Any],
    versions: Mapping[str, str],
) -> dict[str, Any]:
    users = sum(term.users for term in terms)
    return {
        "format": FORMAT,
        "statement": found.words(users),
        **found.to_json(),
        "scope": SCOPE,
        "terms": [term.to_json() for term in terms],
        "users": users,
        "records": dict(records),
        "versions": dict(versions),
    }


def form_problems(data: bytes, claim: Mapping[str, Any]) -> list[str]:
    """Whether the file is the one form of its claim: no word, space or order is anybody's own."""
    terms = [Term.from_json(term) for term in claim["terms"]]
    found = _stated(claim, CollectedClaim.of(terms, Citation.from_json(claim["encoder"])))
    labels = [{name: label[name] for name in _LABEL} for label in _labels(claim)]
    records = {name: claim["records"][name] for name in _RECORDS} | {"labels": labels}
    versions = {name: claim["versions"][name] for name in VERSIONED if name in claim["versions"]}
    problems = []
    if readable_bytes(_written(found, terms, records, versions)) != data:
        problems.append(f"{CLAIM} is not in its canonical form.")
    if [term.order for term in terms] != sorted({term.order for term in terms}):
        problems.append("its terms are not listed once each, in their order.")
    said = [claim["records"]["count"], *claim["records"]["shape"], *(a["sent"] for a in labels)]
    if claim["records"]["content"] not in CONTENTS or any(type(n) is not int for n in said):
        problems.append("its records are not described in the agreed words.")
    if not all(_VERSION.fullmatch(version) for version in versions.values()):
        problems.append("its versions are not all plain versions.")
    return problems


def label_problems(claim: Mapping[str, Any], terms: Sequence[Term]) -> list[str]:
    """Labels that no term covers, and labels of terms that are not there.

    A local channel names the labels that it sends, for every record. A filter may send any.
    """
    free = sum(term.records for term in terms if term.channel is None)
    named: Counter[str] = Counter()
    for term in terms:
        if term.channel is not None:
            labels = {*term.channel.label_epsilons, *term.channel.public_labels}
            named.update(dict.fromkeys(labels, term.records))
    sent = {label["name"]: label["sent"] for label in _labels(claim)}
    problems = [
        f"label {name!r} was sent under its terms, and is not among its labels."
        for name in sorted(named)
        if name not in sent
    ]
    problems += [
        f"label {name!r} is there for {count} records; its terms cover {named[name]} to "
        f"{named[name] + free}."
        for name, count in sent.items()
        if not max(1, named[name]) <= count <= named[name] + free
    ]
    if len(sent) != len(_labels(claim)):
        problems.append("a label is listed twice.")
    return problems


def claim_problems(claim: Mapping[str, Any]) -> list[str]:
    """Where a claim says something else than follows from its terms and its encoder."""
    terms = [Term.from_json(term) for term in claim["terms"]]
    found = CollectedClaim.of(terms, Citation.from_json(claim["encoder"]))
    users = sum(term.users for term in terms)
    expected = {**found.to_json(), "format": FORMAT, "scope": SCOPE, "users": users}
    strange = sorted(set(claim) ^ (set(expected) | _BESIDE))
    strange += sorted(set(claim["records"]) ^ set(_RECORDS))
    strange += sorted({word for label in _labels(claim) for word in set(label) ^ set(_LABEL)})
    strange += sorted(set(claim["versions"]) - set(VERSIONED))
    problems = [f"its claim has or lacks {name!r}." for name in strange]
    problems += [
        f"its {name} does not follow from the terms that users sent under."
        for name, value in expected.items()
        if name in claim and not _same(name, claim[name], value)
    ]
    if claim["statement"] != _stated(claim, found).words(users):
        problems.append("its statement does not follow from the terms that users sent under.")
    if sum(term.records for term in terms) != claim["records"]["count"]:
        problems.append("its records are not as many as its terms say.")
    return problems + label_problems(claim, terms)


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


def _stated(claim: Mapping[str, Any], found: CollectedClaim) -> CollectedClaim:
    """What was found, with the figures and the accountant's version as the claim has them."""
    epsilon, user_epsilon = (number_from_json(claim[name]) for name in _FIGURES)
    accountant = str(claim["accountant"])
    return replace(found, epsilon=epsilon, user_epsilon=user_epsilon, accountant=accountant)


def _labels(claim: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    labels: Sequence[Mapping[str, Any]] = claim["records"]["labels"]
    return labels


def _same(name: str, said: Any, expected: Any) -> bool:
    """Figures to the last digits that another machine may change; all else as it is."""
    if name in _FIGURES:
        return close(number_from_json(said), number_from_json(expected))
    if name == "accountant":
        return bool(_ACCOUNTANT_VERSION.sub("", said) == _ACCOUNTANT_VERSION.sub("", expected))
    return bool(said == expected)
