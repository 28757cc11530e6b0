import copy
import json
import math
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.release.forge import make_claim, planned
from understudy.data.records import Images
from understudy.data.schema import Attribute, Schema
from understudy.errors import UserError
from understudy.privacy.plan.mechanisms import Reveal
from understudy.release.claim import Claim, RecordsSummary
from understudy.release.facts import InputFacts, PublicInput

Change = Callable[[dict[str, Any]], Any]


def test_claim_survives_its_file(claim: Claim) -> None:
    assert Claim.from_bytes(claim.to_bytes()) == claim
    assert Claim.from_bytes(claim.to_bytes()).to_bytes() == claim.to_bytes()


def test_empirical_claim_writes_infinity_as_a_word(records: Images) -> None:
    story = planned(Reveal("peek", "to copy")).block(0, "peek", 1).add("close")
    claim = make_claim(story, records)
    assert json.loads(claim.to_bytes())["epsilon"] == "infinity"
    assert math.isinf(Claim.from_bytes(claim.to_bytes()).epsilon)


def test_file_has_the_documented_fields(claim: Claim) -> None:
    data = claim.to_json()
    assert data["format"] == "understudy-claim/2"
    assert data["unit"] == {"column": None, "words": "per image, not per person"}
    assert data["scope"] == "this release only"
    assert data["randomness"]["insecure_seed"] is False
    assert set(data["spending"][0]) == {
        "name", "kind", "planned", "spent", "sigma", "epsilon_alone",
    }  # fmt: skip
    assert set(data) == {
        "format", "statement", "kind", "epsilon", "delta", "accountant", "unit", "relation",
        "scope", "assumed_public", "randomness", "tuning", "public_inputs", "split", "method",
        "ledger", "spending", "versions", "records",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda d: d.pop("delta"), "delta is missing"),
        (lambda d: d.update(format="understudy-claim/3"), "field format"),
        (lambda d: d.update(kind="magic"), "field kind"),
        (lambda d: d.update(epsilon="1"), "field epsilon"),
        (lambda d: d.update(epsilon=-1), "field epsilon"),
        (lambda d: d.update(scope="everything"), "field scope"),
        (lambda d: d.update(split="somehow"), "field split"),
        (lambda d: d.update(note="hello"), "unknown field note"),
        (lambda d: d["unit"].update(words="per person"), r"field unit\.words"),
        (lambda d: d["unit"].update(column="patient"), r"field unit\.words"),
        (lambda d: d["tuning"].update(covered="yes"), r"field tuning\.covered"),
        (lambda d: d["tuning"].update(extra=1), r"unknown field tuning\.extra"),
        (lambda d: d["ledger"].update(head="xyz"), r"field ledger\.head"),
        (lambda d: d["spending"][0].update(spent=-1), r"field spending\[0\]\.spent"),
        (lambda d: d["records"].update(count="24"), r"field records\.count"),
        (lambda d: d["records"]["schema"].pop("label"), r"records\.schema\.label is missing"),
        (lambda d: d["randomness"].update(noise="magic"), r"field randomness\.noise"),
        (lambda d: d.update(delta=0), "delta of a claim"),
        (lambda d: d.update(epsilon="infinity"), "epsilon is infinite exactly when"),
        (lambda d: d.update(kind="empirical"), "epsilon is infinite exactly when"),
    ],
)
def test_wrong_fields_are_refused_by_name(claim: Claim, change: Change, named: str) -> None:
    data = copy.deepcopy(claim.to_json())
    change(data)
    with pytest.raises(UserError, match=named):
        Claim.from_json(data)


def test_words_that_differ_from_figures_are_refused(claim: Claim) -> None:
    data = claim.to_json()
    data["epsilon"] = claim.epsilon / 2
    with pytest.raises(UserError, match="sentence 1 of the statement"):
        Claim.from_json(data)
    data = claim.to_json()
    data["statement"] = data["statement"][:-1]
    with pytest.raises(UserError, match="the statement has 11 sentences"):
        Claim.from_json(data)


def test_words_change_with_every_figure_they_speak_of(claim: Claim) -> None:
    for change in ({"epsilon": 7.0}, {"delta": 1e-6}, {"unit": "patient"}, {"split": "given"}):
        assert replace(claim, **change).statement != claim.statement


def test_reading_claims_is_cheap() -> None:
    """A report or a command reads claims without the heavy packages."""
    code = (
        "import sys, understudy.release.claim; "
        "print([m for m in ('torch', 'pyarrow', 'jinja2', 'dp_accounting', 'PIL') "
        "if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert found.stdout.strip() == b"[]"


@pytest.mark.parametrize("shape", [(4, 8, 8), (8, 8), (1, 0, 8)])
def test_only_images_are_claimed_about(shape: tuple[int, ...]) -> None:
    with pytest.raises(UserError, match="a release holds images"):
        RecordsSummary(1, shape, Schema((Attribute("a", ("x",)),)))


INPUT = PublicInput("taef2", "by a test", InputFacts("encoder", "weights", "MIT", "ab" * 32))


def test_public_inputs_come_back_with_all_that_is_known_of_them(claim: Claim) -> None:
    told = replace(claim, public_inputs=(INPUT,))
    (written,) = told.to_json()["public_inputs"]
    assert written == {
        "name": "taef2",
        "provenance": "by a test",
        "use": "encoder",
        "kind": "weights",
        "licence": "MIT",
        "sha256": "ab" * 32,
    }
    assert Claim.from_bytes(told.to_bytes()) == told


def test_public_inputs_of_version_0_1_come_back_as_they_were(claim: Claim) -> None:
    old = replace(claim, public_inputs=(PublicInput("faces", "drawn by code"),))
    assert old.to_json()["public_inputs"] == [{"name": "faces", "provenance": "drawn by code"}]
    assert Claim.from_bytes(old.to_bytes()) == old


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda d: d.pop("licence"), r"public_inputs\[0\]\.licence is missing"),
        (lambda d: d.pop("sha256"), r"public_inputs\[0\]\.sha256 is missing"),
        (lambda d: d.update(kind="notes"), r"public_inputs\[0\]\.kind must be records or weights"),
        (lambda d: d.update(sha256="x"), r"public_inputs\[0\]\.sha256 must be 64"),
        (lambda d: d.pop("use"), r"unknown field public_inputs\[0\]\.kind"),
    ],
)
def test_a_public_input_is_stated_whole_or_as_version_0_1_did(
    claim: Claim, change: Change, named: str
) -> None:
    data = json.loads(replace(claim, public_inputs=(INPUT,)).to_bytes())
    change(data["public_inputs"][0])
    with pytest.raises(UserError, match=named):
        Claim.from_json(data)
