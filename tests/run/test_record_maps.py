"""Methods whose records leave one by one: local where privacy draws the noise, else empirical."""

from __future__ import annotations

import multiprocessing
import os
from unittest import mock

import numpy as np
import pytest

from tests import drawing
from tests.run import map_methods
from tests.workplace import Workplace
from understudy.audit.check_method import check_method
from understudy.methods.registry import get_method
from understudy.privacy.accounting.accountants import local_price
from understudy.privacy.ledger.ledger import read_ledger
from understudy.privacy.ledger.story import spent_events
from understudy.privacy.plan.plan import LOCAL_RELATION
from understudy.release.verify import verify
from understudy.run.folder import RunFolder

HERE = map_methods.__name__
COMMON = ("--label", "kind", "-o", "out")


def synthesize(name: str, *words: str) -> tuple[str, ...]:
    return ("synthesize", "photos", "--method", f"{HERE}:{name}", *words, *COMMON)


@pytest.fixture
def place(workplace: Workplace) -> Workplace:
    """Whose a picture is stands in no column, so that nothing is said of it."""
    table = drawing.metadata_folder(workplace / "photos", count=80) / "metadata.csv"
    table.write_text(table.read_text().replace(",person", ",film", 1))
    return workplace


@pytest.mark.slow
@pytest.mark.parametrize("name", ["LocalCopies", "DarkCopies"])
def test_it_passes_every_check(name: str) -> None:
    results = check_method(get_method(f"{HERE}:{name}"))
    assert {r.name: r.problem for r in results if not r.passed} == {}


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("SaysTooLate", "info.maps names a part if, and only if, fit returns a RecordMap"),
        ("CountsItsRecords", "size() says 64 records and fit made 60"),
        ("NumbersLeave", "what apply() lets out must be images (us.Images, uint8)"),
    ],
)
def test_what_was_not_said_beforehand_fails_a_check(name: str, problem: str) -> None:
    found = {r.name: r.problem for r in check_method(get_method(f"{HERE}:{name}"))}
    assert problem in str(found["makes the records that it says"])


def test_privacys_own_noise_makes_a_local_claim(place: Workplace) -> None:
    place.run(*synthesize("LocalCopies", "--epsilon", "5")).succeeded()
    found = verify(place / "out")
    assert found.ok, found.problems
    claim = found.claim
    assert claim is not None
    assert (claim.kind, claim.relation) == ("local", LOCAL_RELATION)
    events = spent_events(read_ledger(place / "out/ledger.jsonl"))
    assert local_price(events, claim.delta).epsilon == pytest.approx(claim.epsilon)
    assert 4.95 <= claim.epsilon <= 5
    images = RunFolder(place / "runs/out").load_samples().features
    assert len(images) == claim.records.count
    assert images.std() > 60, "noise at epsilon 5 drowns a picture"


def test_any_other_map_is_a_reveal_and_empirical(place: Workplace) -> None:
    """The gate for near copies is there for these: darker copies are copies."""
    told = place.run(*synthesize("DarkCopies"))
    assert told.code == 2
    assert "are copies of private ones" in told.err
    (event,) = spent_events(read_ledger(place / "runs/out/ledger.jsonl"))
    assert event.kind == "non-private"
    assert not (place / "out").exists()


def test_only_the_part_that_is_mapped_leaves(place: Workplace) -> None:
    place.run(*synthesize("DarkCopies"))
    left = RunFolder(place / "runs/out").load_samples()
    assert 30 < len(left) < 68, "about three quarters of the records to learn from"


def test_a_central_budget_is_refused(place: Workplace) -> None:
    place.run(*synthesize("DarkCopies", "--epsilon", "5")).refused("the plan reveals records")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("SaysTooLate", "info.maps names a part"),
        ("CountsItsRecords", "records where its size() said"),
    ],
)
def test_a_run_stops_at_what_was_not_said(place: Workplace, name: str, words: str) -> None:
    """So many are declared that the split cannot give as many by chance."""
    place.run(*synthesize(name, "--count", "400")).refused(words)
    assert not (place / "out").exists()


def test_how_many_records_is_not_the_callers(place: Workplace) -> None:
    words = synthesize("LocalCopies", "--epsilon", "5", "--samples", "3")
    place.run(*words).refused("local-copies", "leave --samples out")
    assert not (place / "runs").exists()


def test_a_dry_run_says_how_many_are_declared(place: Workplace) -> None:
    words = synthesize("LocalCopies", "--epsilon", "5", "--dry-run", "--json")
    assert place.run(*words).json()["records"] == 68


def _dies(place: Workplace, words: tuple[str, ...]) -> None:
    with mock.patch.object(RunFolder, "save_samples", side_effect=lambda _: os._exit(9)):
        os._exit(place.run(*words).code)


def test_killed_while_records_leave_they_leave_once(place: Workplace) -> None:
    """What left is given back as it was: noise drawn twice would halve its variance."""
    words = synthesize("LocalCopies", "--epsilon", "5")
    child = multiprocessing.get_context("fork").Process(target=_dies, args=(place, words))
    child.start()
    child.join()
    assert child.exitcode == 9
    kept = place / "runs/out/checkpoints/block-000000/outputs.safetensors"
    before = kept.read_bytes()
    place.run(*words, "--resume").succeeded()
    assert kept.read_bytes() == before
    kinds = [entry.kind for entry in read_ledger(place / "runs/out/ledger.jsonl")]
    assert kinds == ["plan", "reserve", "commit", "close"]
    images = RunFolder(place / "runs/out").load_samples().features
    assert np.unique(images.reshape(len(images), -1), axis=0).shape[0] == len(images)
