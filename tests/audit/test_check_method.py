"""check-method: honest methods pass, and each mistake is caught by the check meant for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.audit import bad_methods as bad
from tests.run.public_method import Tinted, TintedByDefault, write_tint
from understudy.audit.check_method import CheckResult, check_method
from understudy.data.weights import given_weights
from understudy.errors import UserError

FIT = "fits within its plan"
REPLAY = "depends on records only through the door (replay)"
BARE = "needs only torch, numpy and safetensors"
SPEND = "plans what it spends; more noise costs less"

MISTAKES = {
    bad.KeepsARecord: (REPLAY, "own attributes"),
    bad.SavesARecord: (REPLAY, "saved files"),
    bad.CheckpointsARecord: (REPLAY, "checkpoints"),
    bad.WritesARecord: (REPLAY, "scratch files"),
    bad.ReadsALoss: (REPLAY, "differ on other records"),
    bad.MixesRecords: (FIT, "mixes the records"),
    bad.MixesInTheSum: (FIT, "mixes the records"),
    bad.CountsCalls: (REPLAY, "own attributes"),
    bad.KeepsAMeanInTheClass: (REPLAY, "records differ on other records"),
    bad.KeepsANumpyNumber: (REPLAY, "own attributes"),
    bad.KeepsAQueue: (REPLAY, "own attributes"),
    bad.DrawsInTheCallback: (REPLAY, "differ on other records"),
    bad.ImportsScipy: (BARE, "scipy"),
    bad.Overspends: (FIT, "no unspent"),
    bad.TakesMoreSteps: (FIT, "beyond the plan"),
    bad.PlansAndDoesNot: (FIT, "'unused' is planned and never used"),
    bad.LessNoiseCostsLess: (SPEND, ""),
    bad.IgnoresLabels: ("makes the records that it says", "ignores the conditions on 'label'"),
    bad.ForgetsWhenSaved: ("saves and loads", "other records"),
}


def failures(results: list[CheckResult]) -> dict[str, str]:
    return {result.name: str(result.problem) for result in results if not result.passed}


@pytest.mark.parametrize("method", [bad.Honest, bad.HonestSteps], ids=lambda m: m.__name__)
def test_honest_methods_pass(method: type[bad.Honest]) -> None:
    results = check_method(method())
    assert failures(results) == {}
    assert [r.name for r in results][-2:] == [REPLAY, BARE]


@pytest.mark.parametrize("method", MISTAKES, ids=lambda m: m.__name__)
def test_each_mistake_fails_the_check_meant_for_it(
    method: type[bad.Honest], monkeypatch: pytest.MonkeyPatch
) -> None:
    check, words = MISTAKES[method]
    if check != BARE:  # a process of its own for each would take long and tell nothing more
        monkeypatch.setattr("understudy.audit.check_method._Examination._check_bare", _pass)
    found = failures(check_method(method()))
    assert list(found) == [check]
    assert words in found[check]


def _pass(self: object) -> None:
    del self


class TestPublicWeights:
    """Public records are made up; weights are the author's."""

    def test_they_are_given_by_name(self, tmp_path: Path) -> None:
        warm = given_weights(str(write_tint(tmp_path / "warm.npz", 0.5)))
        results = check_method(Tinted(), weights={"warm": warm})
        assert failures(results) == {}
        assert [r.name for r in results][-2:] == [REPLAY, BARE]

    def test_those_that_are_needed_cannot_be_made_up(self) -> None:
        found = failures(check_method(Tinted()))
        assert list(found) == [FIT]
        assert "cannot be made up; name them with --weights warm=FILE." in found[FIT]

    def test_the_methods_own_choice_is_taken_from_the_catalog(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("UNDERSTUDY_WEIGHTS", str(tmp_path))
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        with pytest.raises(UserError, match=r"weights lenet_mnist\.npz were not found"):
            check_method(TintedByDefault())
