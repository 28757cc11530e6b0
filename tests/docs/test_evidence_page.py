"""The formats page lists the fields of an evidence file: none missing, none made up."""

from __future__ import annotations

from tests.docs.test_formats_page import first_column, section
from understudy.bench.evidence.json_schema import evidence_schema


def test_every_field_of_evidence_is_listed() -> None:
    kinds = evidence_schema()["$defs"]
    fields = {*kinds["run"]["properties"], *kinds["measurement"]["properties"]}
    assert first_column(section("Evidence")) == fields
    assert fields > set(evidence_schema()["required"]) - {"result"}
