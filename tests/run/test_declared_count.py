"""Rule 3: plan, claim and ledger follow the declared count, never the realised one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests import drawing
from tests.run.public_facts import public_facts
from tests.workplace import SMALL_GAN, SMALL_MERF, Workplace

RUNS = {
    "one-shot": (*SMALL_MERF, "--epsilon", "1", "--classes", "cross,round"),
    "DP-SGD": (*SMALL_GAN, "--set", "steps=3", "--epsilon", "1", "--classes", "cross,round"),
}


def release(place: Workplace, kind: str, records: int, *more: str) -> list[Any]:
    name = f"{records}-{len(more)}"
    drawing.class_folder(place / f"photos-{name}", count=records, seed=records)
    words = ("synthesize", f"photos-{name}", *RUNS[kind], "--title", "A stand-in")
    place.run(*words, *more, "-o", name).succeeded()
    return public_facts(place, name)


@pytest.mark.parametrize("kind", RUNS)
def test_the_realised_number_shows_nowhere(workplace: Workplace, kind: str) -> None:
    """Fewer, as many, and more records than declared: the same words and figures."""
    first = release(workplace, kind, 40, "--count", "40")
    assert release(workplace, kind, 37, "--count", "40") == first
    assert release(workplace, kind, 61, "--count", "40") == first


def test_without_a_declaration_the_count_is_said_to_be_assumed(workplace: Workplace) -> None:
    """The other side: an inferred count is in the claim, among what is assumed public."""
    declared = release(workplace, "one-shot", 40, "--count", "40")
    inferred = release(workplace, "one-shot", 41)
    assert inferred != declared
    assert "the declared number of private images (41)" in inferred[1]["assumed_public"]
    assert "that the declared count is the true one" in inferred[1]["assumed_public"]
    assert "that the declared count is the true one" not in declared[1]["assumed_public"]


def test_how_often_a_class_occurs_shows_nowhere(workplace: Workplace) -> None:
    """Only 'cross' occurs in the second folder; labels of samples are uniform all the same."""
    even = release(workplace, "one-shot", 40, "--count", "40")
    drawing.class_folder(workplace / "lopsided", count=40, classes=("cross",))
    words = ("synthesize", "lopsided", *RUNS["one-shot"], "--title", "A stand-in")
    workplace.run(*words, "--count", "40", "-o", "lopsided-out").succeeded()
    assert public_facts(workplace, "lopsided-out") == even


def test_duplicates_do_not_change_the_declared_count(workplace: Workplace) -> None:
    folder = drawing.class_folder(workplace / "photos", count=40)
    for path in list((folder / "cross").iterdir())[:5]:
        path.with_name(f"copy-{path.name}").write_bytes(path.read_bytes())
    words = ("synthesize", "photos", *RUNS["one-shot"], "--count", "40", "-o", "out")
    workplace.run(*words).succeeded()
    lines = (workplace / "out/ledger.jsonl").read_text().splitlines()
    assert json.loads(lines[0])["body"]["run"]["count"] == 40
    assert "duplicates dropped" in (workplace / "runs/out/report.html").read_text()
    assert "duplicates dropped" not in (workplace / "runs/out/report-public.html").read_text()
