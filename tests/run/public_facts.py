"""What everybody sees of a release, in a form that can be compared between two runs."""

from __future__ import annotations

import json
from typing import Any

from tests.workplace import Workplace

NOISE_AND_CHAIN = {"ident", "hash", "previous", "head"}
"""What differs between any two runs: a plan's random name, and hashes over it."""


def comparable(value: Any) -> Any:
    """A JSON value without what differs between any two runs."""
    if isinstance(value, dict):
        return {k: comparable(v) for k, v in value.items() if k not in NOISE_AND_CHAIN}
    if isinstance(value, list):
        return [comparable(item) for item in value]
    return value


def public_facts(place: Workplace, name: str) -> list[Any]:
    """The released ledger and claim, and the card and metadata but for hashes of tables."""
    lines = (place / name / "ledger.jsonl").read_text().splitlines()
    claim = json.loads((place / name / "claim.json").read_text())
    card = (place / name / "README.md").read_text()
    return [comparable([json.loads(line) for line in lines]), comparable(claim), card]
