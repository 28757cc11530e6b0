"""`--noise`: what a run does with it, from the command line to the verified release."""

from __future__ import annotations

import json

import pytest

from tests import drawing
from tests.workplace import SMALL_GAN, SMALL_MERF, Workplace
from understudy.privacy.ledger.ledger import read_ledger
from understudy.privacy.ledger.story import ledger_plan
from understudy.release.verify import verify


def synthesize(place: Workplace, name: str, *more: str) -> dict[str, object]:
    if not (place / "photos").exists():
        drawing.class_folder(place / "photos", count=40, seed=1)
    words = ("synthesize", "photos", *SMALL_MERF, "--epsilon", "1", "--count", "40")
    place.run(*words, *more, "-o", name).succeeded()
    claim: dict[str, object] = json.loads((place / name / "claim.json").read_text())
    return claim


@pytest.mark.parametrize(
    ("more", "noise", "accountant"),
    [((), "exact", "RDP"), (("--noise", "float"), "float", "PLD in closed form")],
)
def test_a_one_shot_run_is_exact_unless_float_is_asked_for(
    workplace: Workplace, more: tuple[str, ...], noise: str, accountant: str
) -> None:
    claim = synthesize(workplace, "out", *more)
    assert claim["randomness"]["noise"] == noise  # type: ignore[index]
    assert str(claim["accountant"]).startswith(accountant)
    assert 0.99 <= float(claim["epsilon"]) <= 1.0  # type: ignore[arg-type]
    (mechanism,) = ledger_plan(read_ledger(workplace / "out" / "ledger.jsonl")).mechanisms
    assert mechanism.noise == noise  # type: ignore[union-attr]
    found = verify(workplace / "out")
    assert found.ok, found.problems


def test_dp_sgd_with_exact_noise_is_refused_with_the_reason(workplace: Workplace) -> None:
    drawing.class_folder(workplace / "photos", count=40, seed=1)
    words = ("synthesize", "photos", *SMALL_GAN, "--set", "steps=3", "--epsilon", "1")
    refused = workplace.run(*words, "--noise", "exact", "-o", "out")
    refused.refused("--noise exact", "dp-gan", "dp-sgd", "--noise float")
    assert not (workplace / "out").exists()
    assert not (workplace / "runs").exists()
    workplace.run(*words, "--noise", "float", "--dry-run").succeeded()


def test_a_word_that_is_neither_is_refused(workplace: Workplace) -> None:
    drawing.class_folder(workplace / "photos", count=40, seed=1)
    words = ("synthesize", "photos", *SMALL_MERF, "--epsilon", "1", "--noise", "discrete")
    workplace.run(*words, "-o", "out").refused("--noise", "exact or float")


def test_a_dry_run_tells_the_arithmetic(workplace: Workplace) -> None:
    drawing.class_folder(workplace / "photos", count=40, seed=1)
    words = ("synthesize", "photos", *SMALL_MERF, "--epsilon", "1", "--dry-run")
    shown = workplace.run(*words).succeeded().out
    assert "noise exact" in shown
    assert "RDP" in shown


def test_a_run_cannot_be_resumed_with_another_arithmetic(workplace: Workplace) -> None:
    synthesize(workplace, "out")
    words = ("synthesize", "photos", *SMALL_MERF, "--epsilon", "1", "--count", "40")
    refused = workplace.run(*words, "--noise", "float", "--resume", "-o", "out")
    refused.refused("noise")
