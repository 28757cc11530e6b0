"""The formats page lists the fields of an evidence file: none missing, none made up."""

from __future__ import annotations

import json
from typing import Any

from tests.docs.pages import REPOSITORY
from tests.docs.test_formats_page import first_column, section
from understudy.bench.evidence.json_schema import evidence_schema

EVIDENCE = "benchmarks/evidence"


def test_every_field_of_evidence_is_listed() -> None:
    kinds = evidence_schema()["$defs"]
    fields = {*kinds["run"]["properties"], *kinds["measurement"]["properties"]}
    assert first_column(section("Evidence")) == fields
    assert fields > set(evidence_schema()["required"]) - {"result"}


def test_every_phase_of_our_evidence_comes_from_a_clean_commit() -> None:
    """A fit on another machine carries the state of the checkout that packed it."""
    told = {f.name: json.loads(f.read_text()) for f in (REPOSITORY / EVIDENCE).glob("*.json")}
    phases = {(name, phase): held for name, d in told.items() for phase, held in _phases(d)}
    assert len(phases) > 100
    assert [place for place, held in phases.items() if held["dirty"]] == []


def _phases(evidence: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [("", evidence), *evidence.get("phases", {}).items()]
