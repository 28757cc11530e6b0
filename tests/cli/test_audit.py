"""`understudy audit` as a user meets it: its words, its book, and what it refuses."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.drawing import class_folder, metadata_folder
from tests.workplace import Workplace
from understudy.errors import PrivacyError
from understudy.privacy.ledger.account_book import Book
from understudy.privacy.ledger.ledger import read_ledger
from understudy.release.build import run_facts

TINY = (
    *("audit", "dp-merf", "--set", "steps=2", "--set", "features=40"),
    *("--set", "width=16", "--set", "latent=4", "--set", "batch=20"),
)
SURE = ("--canaries", "300", "--confidence", "0.999999")
"""An honest audit may contradict the claim with the rest of its confidence; no test may."""


def test_it_prints_bound_claim_and_ceiling(workplace: Workplace) -> None:
    said = workplace.run(*TINY, *SURE).succeeded().out
    for words in ("lower bound  epsilon", "claim        epsilon 0.99", "ceiling      epsilon"):
        assert words in said
    assert "confidence 0.999999 (f-dp)" in said
    assert "of 120 right, about 300 canaries" in said
    assert "cannot be released" in said


def test_an_audit_is_in_the_book_and_can_never_be_released(workplace: Workplace) -> None:
    found = workplace.run(*TINY, *SURE, "-o", "kept", "--json").succeeded().json()
    assert json.loads((workplace / "kept" / "audit.json").read_text()) == found
    page = (Path(__file__).parents[2] / "docs" / "audits.md").read_text()
    table = page.partition("## The file")[2].partition("\n## ")[0]
    cells = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    assert set(re.findall(r"`(\w+)`", " ".join(cells))) == set(found)
    assert workplace.tree() == {"kept", "kept/audit.json", "kept/ledger.jsonl"}
    assert found["lower_bound"] <= found["claim"] <= 1.0
    (entered,) = workplace.book("enter")
    assert entered["purpose"] == "audit"
    assert entered["plan"]["epsilon"] == found["claim"]
    assert run_facts(read_ledger(workplace / "kept" / "ledger.jsonl")).audited
    with pytest.raises(PrivacyError, match="not for release"):
        Book.open("digits", workplace.home).mark_released(entered["run"], "0" * 64)
    total = workplace.run("spent", "digits", "--json").succeeded().json()
    assert total["released"] == 0
    assert total["all_runs"] == pytest.approx(found["claim"])


def test_more_canaries_than_bins_are_refused_and_blame_no_callback(workplace: Workplace) -> None:
    toy = "tests.contract.toys.evolution:Evolution"
    said = workplace.run("audit", toy, "--canaries", "100").refused("too many", "at most 10")
    assert "callback" not in said.err


def test_records_of_another_size_are_refused_for_a_black_box(workplace: Workplace) -> None:
    class_folder(workplace / "open", count=12)
    toy = "tests.contract.toys.soft_labels:SoftLabels"
    words = ("audit", toy, "--canaries", "60", "--public", "canvas=open", "--channels")
    workplace.run(*words, "1", "--black-box").succeeded()
    workplace.run(*words[:-1], "--data", "portraits", "--label", "hair", "--black-box").refused(
        "makes records of shape", "--black-box"
    )


def test_a_method_that_hides_is_audited_with_what_it_hides(workplace: Workplace) -> None:
    metadata_folder(workplace / "photos")
    toy = "tests.contract.toys.hidden_attribute:HiddenAttribute"
    words = ("audit", toy, "--data", "photos", "--label", "kind", *SURE, "--canaries", "60")
    workplace.run(*words).refused("--hide")
    workplace.run(*words, "--hide", "iris").refused("iris", "eyes")
    found = workplace.run(*words, "--hide", "eyes", "--json").succeeded().json()
    assert [m["name"] for m in found["mechanisms"]] == ["kind", "eyes"]


def test_a_twin_without_noise_is_found_out(workplace: Workplace) -> None:
    told = workplace.run(*TINY, "--canaries", "300", "--noise-factor", "0", "--json")
    assert told.code == 1
    found = told.json()
    assert found["contradicted"]
    assert found["lower_bound"] > found["claim"]
    (entered,) = workplace.book("enter")
    assert entered["plan"]["epsilon"] == "infinity"


def test_a_black_box_audit_says_what_it_cannot_see(workplace: Workplace) -> None:
    words = (*TINY, "--black-box", "--canaries", "20", "--guesses", "8", "--confidence", "0.99")
    found = workplace.run(*words, "--estimator", "one-run", "--json").succeeded().json()
    assert found["view"] == "black-box"
    assert not found["has_power"]
    assert "No power" in found["verdict"]
    assert found["needed"] > 20


@pytest.mark.parametrize(
    ("words", "reasons"),
    [
        (("--canaries", "3"), ("--canaries 3 is too few", "15 or more")),
        (("--canaries", "0"), ("--canaries",)),
        (("--canaries", "300", "--guesses", "301"), ("--guesses", "300")),
        (("--estimator", "one-rum"), ("one-rum", "did you mean one-run?")),
        (("--confidence", "1"), ("--confidence",)),
        (("--canaries", "300", "--guesses", "1"), ("--guesses 1 is too few", "5 or more")),
        (("--epsilon", "0"), ("epsilon",)),
        (("--epsilon", "inf"), ("--epsilon must be a finite number",)),
        (("--noise-factor", "2"), ("--noise-factor", "between 0 and 1")),
        (("--noise-factor", "nan"), ("--noise-factor",)),
        (("--data", "photos", "--noise-factor", "0"), ("--noise-factor", "public dataset")),
        (("--device", "tpu"), ("--device",)),
        (("-o", "photos"), ("photos", "exists")),
    ],
)
def test_refused_before_the_first_record(
    workplace: Workplace, words: tuple[str, ...], reasons: tuple[str, ...]
) -> None:
    class_folder(workplace / "photos")
    before = workplace.tree()
    workplace.run(*TINY, *words).refused(*reasons)
    assert workplace.tree() == before
    assert workplace.book("enter") == []


def test_more_canaries_than_fit_are_refused_and_nothing_is_left(workplace: Workplace) -> None:
    workplace.run(*TINY, "--canaries", "9000", "-o", "kept").refused("too many", "at most 410")
    assert workplace.tree() == set()


def test_a_stopped_audit_keeps_nothing_and_says_that_it_counts(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("understudy.run.audit.run_audit", stopped)
    workplace.run(*TINY, *SURE, "-o", "kept").refused("Ctrl-C", "account book", "counted again")
    assert workplace.tree() == set()
    assert len(workplace.book("enter")) == 1


def test_a_file_without_a_class_is_told_how_to_name_one(workplace: Workplace) -> None:
    workplace.run("audit", "mine.py").refused("mine.py is a file", "mine.py:Class")


def test_an_unknown_method_is_named(workplace: Workplace) -> None:
    workplace.run("audit", "dp-merv").refused("dp-merv", "did you mean dp-merf?")
