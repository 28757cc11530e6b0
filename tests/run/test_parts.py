"""Parts of a method: a keyed hash puts each unit into one, and declared numbers follow shares."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests import drawing
from tests.contract.toys.soft_labels import SoftLabels
from tests.data.samples import make_records
from tests.data.test_splits import contents_by_part, moved_by_adding
from tests.workplace import Workplace
from understudy.audit.check_method import check_method
from understudy.data.records import Records
from understudy.data.splits import keyed_split, part_split
from understudy.progress import Silent
from understudy.release.claim import Claim
from understudy.release.verify import verify
from understudy.run.config import RunConfig
from understudy.run.prepare import Prepared, prepare, run_facts, sample_count

KEY = bytes(range(32))
SHARES = {"teacher": 0.75, "statistics": 0.25}
TOY = f"{SoftLabels.__module__}:SoftLabels"


class Lopsided(SoftLabels):
    """One part is too small for the data."""

    info = replace(SoftLabels.info, parts={"statistics": 0.01, "teacher": 0.99})


class Misnamed(SoftLabels):
    """Its plan uses a part that it does not have."""

    info = replace(SoftLabels.info, parts={"teachers": 0.75, "statistics": 0.25})


class Sizeless(SoftLabels):
    """It does not say how large its fixed set will be."""

    size = None  # type: ignore[assignment]


@pytest.mark.parametrize("units", [None, 40])
def test_adding_one_unit_moves_no_other(units: int | None) -> None:
    records, added = make_records(500, 1, units), make_records(1, 2, units)
    assert moved_by_adding(lambda r: part_split(r, SHARES, KEY), records, added) == 0


def test_each_record_is_in_one_part_by_its_share() -> None:
    records = make_records(4000, 1, None)
    parts = part_split(records, SHARES, KEY)
    assert sum(len(part) for part in parts.values()) == 4000
    assert len(contents_by_part(parts)) == 4000
    assert abs(len(parts["teacher"]) / 4000 - 0.75) < 0.03


def test_all_records_of_a_unit_are_in_one_part() -> None:
    parts = part_split(make_records(500, 1, 40), SHARES, KEY)
    teacher, statistics = (set(np.asarray(parts[name].units).tolist()) for name in SHARES)
    assert not teacher & statistics
    assert len(teacher | statistics) == 40


def test_parts_do_not_follow_from_what_was_held_out() -> None:
    """Under the same subkey all of the first 85% would be in the first part."""
    records = make_records(4000, 1, None)
    kept = keyed_split(records, {"train": 0.75, "test": 0.25}, KEY)["train"]
    share = len(part_split(kept, SHARES, KEY)["teacher"]) / len(kept)
    assert abs(share - 0.75) < 0.03


def test_one_part_is_everything_whatever_the_key() -> None:
    records = make_records(20, 1, None)
    assert part_split(records, {"train": 1.0}, b"") == {"train": records}


def prepared(place: Workplace, **more: object) -> Prepared:
    config = RunConfig(
        *(str(place / "photos"), TOY, 5.0),
        **{"label": "kind", "public": (str(place / "open"),), "time": None, **more},
    )  # type: ignore[arg-type]
    return prepare(config, place.home, Silent())


@pytest.fixture
def place(workplace: Workplace) -> Workplace:
    drawing.metadata_folder(workplace / "photos", count=80)
    drawing.class_folder(workplace / "open", count=12, seed=5)
    return workplace


def test_facts_ledger_and_records_follow_the_shares(place: Workplace) -> None:
    found = prepared(place, count=400)
    assert found.facts.count == 400
    assert found.facts.counts == {"teacher": 255, "statistics": 85}
    assert run_facts(found, _noise()).parts == {"teacher": 255, "statistics": 85}
    assert set(found.parts) == set(SHARES)
    assert sum(len(part) for part in found.parts.values()) == len(found.material.private)


def test_a_limit_is_shared_out_too(place: Workplace) -> None:
    found = prepared(place, limit=40)
    assert found.facts.counts == {"teacher": 30, "statistics": 10}
    assert sum(len(part) for part in found.parts.values()) < 60
    assert sample_count(found) == 20, "a fixed set is as large as its method says"


def test_persons_are_whole_in_their_parts(place: Workplace) -> None:
    found = prepared(place, unit="person")
    persons = [set(np.asarray(part.units).tolist()) for part in found.parts.values()]
    assert not persons[0] & persons[1]


def test_the_same_records_are_in_the_same_parts_in_every_run(place: Workplace) -> None:
    first, second = (contents_by_part(prepared(place).parts) for _ in range(2))
    assert first == second


def words(place: Workplace, *more: str) -> tuple[str, ...]:
    del place
    common = ("--label", "kind", "--public", "open", "--epsilon", "5", "--delta", "1e-3")
    return ("synthesize", "photos", "--method", TOY, *common, *more)


def test_a_claim_names_the_parts_and_adds_up_what_they_cost(place: Workplace) -> None:
    place.run(*words(place, "-o", "out")).succeeded()
    found = verify(place / "out")
    assert found.ok, found.problems
    assert found.claim is not None
    said = " ".join(found.claim.statement)
    assert "into parts: statistics (17 declared); teacher (51 declared); what was spent" in said
    alone = [one.epsilon_alone for one in found.claim.spending]
    assert found.claim.epsilon > max(alone), "parts are no discount"


def test_a_claim_with_other_parts_than_its_ledger_does_not_verify(place: Workplace) -> None:
    place.run(*words(place, "-o", "out")).succeeded()
    path = place / "out/claim.json"
    claim = Claim.from_bytes(path.read_bytes())
    path.write_bytes(replace(claim, parts={"teacher": 17, "statistics": 51}).to_bytes())
    assert any("the claim's parts is" in problem for problem in verify(place / "out").problems)


def test_claims_of_one_part_say_nothing_of_parts(place: Workplace) -> None:
    merf = ("--method", "dp-merf", "--set", "steps=2", "--set", "features=40", "--samples", "9")
    place.run(
        "synthesize", "photos", "--label", "kind", "--epsilon", "5", *merf, "-o", "out"
    ).succeeded()
    assert "parts" not in json.loads((place / "out/claim.json").read_text())


def test_a_count_that_leaves_a_part_empty_is_refused(place: Workplace) -> None:
    lopsided = ("--method", f"{Lopsided.__module__}:Lopsided", "-o", "out")
    told = place.run(*words(place, *lopsided))
    told.refused("a count of 68 leaves part 'statistics'", "larger --count")
    assert not (place / "runs").exists()


@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
def test_a_plan_on_a_part_that_is_not_there_is_refused(
    place: Workplace, dry: tuple[str, ...]
) -> None:
    misnamed = ("--method", f"{Misnamed.__module__}:Misnamed", "--unit", "person", "-o", "out")
    told = place.run(*words(place, *misnamed, *dry))
    told.refused("plans 'means' on part 'teacher'", "did you mean teachers?")
    assert not (place / "runs").exists()
    failed = [r.problem for r in check_method(Misnamed()) if not r.passed]
    assert len(failed) == 1
    assert "did you mean teachers?" in str(failed[0])


def test_a_fixed_set_of_a_size_that_nobody_said_is_refused(place: Workplace) -> None:
    sizeless = ("--method", f"{Sizeless.__module__}:Sizeless", "-o", "out")
    place.run(*words(place, *sizeless)).refused("does not say how large", "size(config, facts)")
    assert not (place / "runs").exists()


def test_a_part_that_no_record_fell_into_is_said_to_the_owner_and_stops_nothing(
    workplace: Workplace,
) -> None:
    """Whether a release exists depends on declared facts alone."""
    one_person(workplace / "photos")
    drawing.class_folder(workplace / "open", count=12, seed=5)
    more = ("--unit", "person", "--count", "80", "--classes", "left,right", "-o", "out")
    told = workplace.run(*words(workplace, *more)).succeeded()
    assert told.err.count("warning: no record fell into the") == 2
    assert verify(workplace / "out").ok


def one_person(folder: Path) -> None:
    """All pictures are of one person, who falls into one part, or into the test part."""
    drawing.metadata_folder(folder, count=20)
    with (folder / "metadata.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    with (folder / "metadata.csv").open("w", newline="") as file:
        csv.writer(file).writerows([rows[0], *([*row[:-1], "anna"] for row in rows[1:])])


def _noise():  # type: ignore[no-untyped-def]
    from understudy.privacy.noise.source import NoiseSource

    return NoiseSource()


def test_the_toys_shares_are_those_of_this_file() -> None:
    assert dict(SoftLabels.info.parts) == SHARES
    assert isinstance(make_records(1, 0, None), Records)
