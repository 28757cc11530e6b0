"""Rule 7: tuning is part of the price, or the claim says that it is not covered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

import understudy
from tests import drawing
from tests.bench.rig import cell, run_all
from tests.workplace import SMALL_MERF, Workplace
from understudy.evaluation.protocol import load_protocol
from understudy.methods.config import ResolvedConfig
from understudy.methods.presets import Preset, Presets
from understudy.privacy.ledger.account_book import Book
from understudy.privacy.plan.mechanisms import NoisySum
from understudy.privacy.plan.plan import LOCAL_RELATION, RELATION, Budget, Plan
from understudy.release.claim import ON_TEST_DATA, Tuning
from understudy.run import claiming, synthesize
from understudy.run import evaluate as evaluation
from understudy.run.config import RunConfig
from understudy.run.tuning import EarlierRuns, tuning_of

NOTHING = "The owner states that no setting was selected by looking at private records."


SHIPPED = Presets(
    (
        Preset("tuned on mnist and fashion-mnist", {"steps": 1}),
        Preset("not tuned", {"width": 2}, dataset="mnist"),
        Preset("a look at its records", {"width": 3}, dataset="portraits", tuned_on_itself=True),
    )
)


def claimed(
    dataset: str | None, earlier: int = 0, evaluated: int = 0, **declared: object
) -> Tuning:
    preset = SHIPPED.choose(dataset, 1.0)
    settings = ResolvedConfig(None, preset.name, preset.tuned_on, (), preset.tuned_on_itself)
    config = RunConfig("any", "dp-merf", 1.0, **declared)  # type: ignore[arg-type]
    return tuning_of(config, settings, EarlierRuns(earlier, evaluated))


def entered(relation: str = RELATION) -> Plan:
    """The plan of one run, as the account book takes it."""
    mechanism = NoisySum("sum", 1.0, 5.0)
    return Plan(Budget(1.0, 1e-5), (mechanism,), 1.0, "any", Plan.new_ident(), relation)


def tuning(place: Workplace, *words: str) -> str:
    """The sentence about tuning in the claim of one more run."""
    name = f"run-{len(place.book('enter'))}"
    run = place.run("synthesize", "photos", *words, "--epsilon", "1", "-o", name, "--json")
    statement = run.succeeded().json()["claim"]["statement"]
    found = [s for s in statement if "selected" in s or "Tuning" in s]
    assert len(found) == 1
    return str(found[0])


@pytest.fixture
def place(workplace: Workplace) -> Workplace:
    drawing.class_folder(workplace / "photos")
    return workplace


def test_settings_changed_by_hand_are_not_covered(place: Workplace) -> None:
    assert tuning(place, *SMALL_MERF) == (
        "Tuning is not covered: how the settings were chosen is not stated."
    )


def test_a_preset_that_the_owner_picked_is_not_covered(place: Workplace) -> None:
    words = ("--method", "dp-merf", "--preset", "digits", "--samples", "30")
    assert tuning(place, *words) == (
        "Tuning is not covered: how the settings were chosen is not stated."
    )


def check_earlier_runs_are_told(place: Workplace) -> None:
    tuning(place, *SMALL_MERF)
    assert tuning(place, *SMALL_MERF).startswith(
        "Tuning is not covered: settings were selected among this and 1 earlier run on the same"
    )


def test_earlier_runs_on_the_same_data_are_told(place: Workplace) -> None:
    check_earlier_runs_are_told(place)
    assert "2 earlier runs" in tuning(place, *SMALL_MERF)


def test_planted_fault_the_best_of_several_runs_claims_to_be_covered(
    place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claiming, "tuning_of", lambda *_: Tuning(covered=True))
    with pytest.raises(AssertionError, match="not covered"):
        check_earlier_runs_are_told(place)


def test_planted_fault_earlier_runs_are_not_counted(
    place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claiming, "tuning_of", lambda c, s, _: tuning_of(c, s, EarlierRuns()))
    with pytest.raises(AssertionError, match="earlier run"):
        check_earlier_runs_are_told(place)


def test_a_run_that_went_on_beside_this_one_is_told(
    place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs that start together see no earlier one; the choice among them is a choice."""
    real, inside = synthesize.enter_and_execute, [False]

    def fit(*arguments: Any) -> None:
        if not inside[0]:
            inside[0] = True
            words = ("synthesize", "photos", *SMALL_MERF, "--epsilon", "1", "-o", "beside")
            place.run(*words).succeeded()
        real(*arguments)

    monkeypatch.setattr(synthesize, "enter_and_execute", fit)
    assert "1 earlier run" in tuning(place, *SMALL_MERF)


def tell_runs_of_every_end(place: Workplace) -> str:
    """One of each: released, kept back, never begun, sent, limited, audited."""
    for words in (("-o", "out"), ("--insecure-noise-seed", "7", "-o", "kept-back")):
        place.run("synthesize", "digits", *SMALL_MERF, "--epsilon", "1", *words).succeeded()
    book = Book.open("digits", place.home)
    never_begun, local = entered(), entered(LOCAL_RELATION)
    book.enter(never_begun.ident, never_begun)
    book.enter(local.ident, local)
    book.mark_released(local.ident, "ab" * 32)
    assert run_all(place, cell(place))[0].ok
    small = ("--set", "steps=2", "--set", "features=40", "--set", "width=16", "--set", "latent=4")
    audit = ("audit", "dp-merf", *small, "--set", "batch=20", "--canaries", "300")
    place.run(*audit, "--confidence", "0.999999").succeeded()
    last = ("synthesize", "digits", *SMALL_MERF, "--epsilon", "1", "-o", "last", "--json")
    return " ".join(place.run(*last).succeeded().json()["claim"]["statement"])


def test_every_run_that_was_entered_is_counted_whatever_became_of_it(workplace: Workplace) -> None:
    """The run that was kept back is just the one that a choice may have been among."""
    assert (
        "Tuning is not covered: settings were selected among this and 6 earlier runs on the same "
        "data (released or not) by a criterion that was not stated"
    ) in tell_runs_of_every_end(workplace)
    assert len(workplace.book("enter")) == 7
    assert understudy.verify(workplace / "last").ok


def test_an_owner_who_selected_nothing_may_say_so(place: Workplace) -> None:
    tuning(place, *SMALL_MERF)
    assert tuning(place, *SMALL_MERF, "--selected-by", "nothing") == NOTHING


def test_a_declared_choice_is_repeated(place: Workplace) -> None:
    words = ("--selected-among", "steps=3", "--selected-among", "steps=9", "--selected-by", "eye")
    assert tuning(place, *SMALL_MERF, *words) == (
        "Tuning is not covered: settings were selected among steps=3; steps=9 by eye, "
        "which is not in epsilon."
    )
    covered = tuning(place, *SMALL_MERF, *words, "--selection-covered")
    assert covered.endswith("the figures above cover that selection.")


def test_selection_on_test_data_cannot_be_released(place: Workplace) -> None:
    words = ("synthesize", "photos", *SMALL_MERF, "--epsilon", "1", "-o", "out")
    said = place.run(*words, "--selected-among", "a", "--selected-by", "test data").succeeded()
    assert "selected on test data" in said.out
    assert not (place / "out").exists()


def test_another_dataset_has_no_part_in_it(place: Workplace) -> None:
    drawing.class_folder(place / "others", seed=3)
    words = ("synthesize", "others", *SMALL_MERF, "--epsilon", "1", "-o", "others-out")
    place.run(*words).succeeded()
    assert "earlier" not in tuning(place, *SMALL_MERF)


@pytest.mark.parametrize("dataset", ["mnist", "fashion-mnist", "portraits"])
def test_a_preset_tuned_on_this_very_data_is_never_covered(dataset: str) -> None:
    """Also where the default preset was tuned on it, and whatever the owner declares."""
    for declared in ({}, {"selected_by": "nothing"}):
        found = claimed(dataset, **declared)
        assert not found.covered
        assert found.among
    words = {"selected_among": ("a", "b"), "selected_by": "x", "selection_covered": True}
    assert not claimed(dataset, **words).covered


@pytest.mark.parametrize("dataset", [None, "digits"])
def test_a_preset_tuned_elsewhere_is_covered(dataset: str | None) -> None:
    found = claimed(dataset)
    assert found.covered
    assert found.by is not None
    assert found.by.startswith("what they were made on (tuned on mnist")
    assert found.by.endswith("as far as the owner's account book shows")
    assert not claimed(dataset, earlier=1).covered
    assert claimed(dataset, earlier=1, selected_by="nothing").covered
    assert claimed(dataset, earlier=2, evaluated=1).by == "private evaluation"


def test_a_protocol_file_that_chooses_on_test_data_is_test_data_too(tmp_path: Path) -> None:
    """A copy of a shipped protocol under a name of the owner's own."""
    for name, expected in (("dpimagebench-test-selected", ON_TEST_DATA), ("standard", None)):
        path = tmp_path / f"{name}-of-mine.yaml"
        content = {k: v for k, v in load_protocol(name).to_json().items() if k != "name"}
        path.write_text(yaml.safe_dump(content))
        found = claimed(None, selected_among=("a", "b"), selected_by=str(path))
        assert found.by == (expected or str(path))
    missing = claimed(None, selected_among=("a", "b"), selected_by="votes.yaml")
    assert missing.by == "votes.yaml", "any words may be stated"


def evaluate(place: Workplace, *words: str) -> None:
    place.run("evaluate", *words, "--protocol", place.quick_protocol()).succeeded()


SELECTED = (
    "Tuning is not covered: settings were selected among this and {} on the same data "
    "(released or not) by private evaluation, which is not in epsilon."
)


def test_after_an_evaluated_run_private_evaluation_is_what_selected(place: Workplace) -> None:
    tuning(place, *SMALL_MERF)
    evaluate(place, "--run", "runs/run-0")
    assert tuning(place, *SMALL_MERF) == SELECTED.format("1 earlier run")
    assert understudy.verify(place / "run-1").ok
    assert [body["protocol"] for body in place.book("evaluate")] == ["reduced"]
    evaluate(place, "--run", "runs/run-0")
    assert len(place.book("evaluate")) == 1


def test_an_owners_look_at_a_release_is_noted_like_one_at_a_run(place: Workplace) -> None:
    tuning(place, *SMALL_MERF)
    drawing.class_folder(place / "elsewhere", seed=4)
    evaluate(place, "run-0", "--test", "elsewhere")
    assert tuning(place, *SMALL_MERF) == SELECTED.format("1 earlier run")


def test_the_note_stands_before_anything_is_measured(
    place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An evaluation that fails shows something too; whether it fails may hang on a record."""
    tuning(place, *SMALL_MERF)

    def fails(*_: Any, **__: Any) -> None:
        raise understudy.UserError("no figures today.")

    monkeypatch.setattr(evaluation, "measure", fails)
    words = ("evaluate", "--run", "runs/run-0", "--protocol", place.quick_protocol())
    place.run(*words).refused("no figures today")
    assert place.book("evaluate"), "not noted before measuring"


def test_nothing_was_selected_is_questioned_after_an_evaluation(place: Workplace) -> None:
    nothing = ("--selected-by", "nothing")
    tuning(place, *SMALL_MERF, *nothing)
    evaluate(place, "--run", "runs/run-0")
    again = ("synthesize", "photos", *SMALL_MERF, "--epsilon", "1", *nothing, "-o")
    for words in ((*again, "next"), (*again, "next", "--dry-run")):
        place.run(*words).refused("--selected-by nothing", "a run", "--selection-covered")
    assert len(place.book("enter")) == 1, "nothing was spent"
    place.run(*again, "run-0", "--resume").succeeded()  # its own evaluation chose nothing of it
    assert tuning(place, *SMALL_MERF, *nothing, "--selection-covered") == NOTHING
