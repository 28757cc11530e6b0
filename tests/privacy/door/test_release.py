"""`release`: a mechanism says what is done to a sum over units, and the door does it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from tests.privacy.rig import Silence, handle, vectors
from tests.privacy.stretched import HalfSum, StretchedSum, UnderstatedSum, install
from understudy.audit.noise_tests import SAMPLES, fits_normal
from understudy.errors import PrivacyError, UserError
from understudy.privacy.door.batch import Batch
from understudy.privacy.ledger.story import spent_uses
from understudy.privacy.plan.mechanisms import (
    DPSGD,
    Mechanism,
    NoisySum,
    mechanism_from_json,
    mechanism_to_json,
)
from understudy.privacy.plan.mechanisms.foreign import ForeignMechanism

CLIP, SIGMA = 3.0, 2.0
PLANNED = StretchedSum("wide", CLIP, SIGMA, stretch=5.0)
ROWS = np.asarray([[1.0, 2.0], [30.0, 40.0]])


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)


def features(batch: Batch) -> torch.Tensor:
    return batch.features


def test_each_unit_is_clipped_and_the_result_is_finished(tmp_path: Path) -> None:
    private = handle(tmp_path, vectors(ROWS), PLANNED, noise=Silence())
    told = private.release("wide", features)
    clipped = ROWS[0] + CLIP * ROWS[1] / np.linalg.norm(ROWS[1])
    torch.testing.assert_close(told.double(), torch.from_numpy(clipped), rtol=1e-5, atol=1e-5)


def test_the_door_adds_the_noise_that_the_mechanism_declares(tmp_path: Path) -> None:
    private = handle(tmp_path, vectors(np.ones((3, 1))), PLANNED)
    told = private.release("wide", lambda batch: torch.zeros(len(batch), SAMPLES)).numpy()
    # `finished` divides by the stretch, which leaves what a plain sum's noise would be.
    for factor, fits in ((1.0, True), (0.95, False), (1.05, False)):
        assert fits_normal(told, factor * SIGMA * CLIP) is fits, "noise of another scale"


def test_a_planned_sum_of_ours_can_be_released_by_name(tmp_path: Path) -> None:
    private = handle(tmp_path, vectors(ROWS[:1]), NoisySum("a", CLIP, SIGMA), noise=Silence())
    assert private.release("a", features).tolist() == [1.0, 2.0]


def test_a_use_is_charged_once_and_there_is_no_second(tmp_path: Path) -> None:
    private = handle(tmp_path, vectors(ROWS), PLANNED)
    private.release("wide", features)
    assert spent_uses(private._door._journal.ledger.entries) == {"wide": 1}
    with pytest.raises(PrivacyError, match="no unspent 'wide'"):
        private.release("wide", features)


@pytest.mark.parametrize(
    ("planned", "name", "words"),
    [
        (PLANNED, "wider", "did you mean wide"),
        (StretchedSum("b", 1.0, 1.0, part="other"), "b", "no unspent 'b' on part 'train'"),
        (DPSGD("sgd", 3, 0.5, 1.0, 1.0), "sgd", "is no sum over units"),
        (HalfSum("half", sigma=1.0), "half", "the least multiple is 1"),
        (UnderstatedSum("low", CLIP, SIGMA), "low", "the least multiple is 1"),
    ],
)
def test_what_release_cannot_do_is_refused_before_it_is_charged(
    tmp_path: Path, planned: Mechanism, name: str, words: str
) -> None:
    private = handle(tmp_path, vectors(ROWS), planned)
    with pytest.raises(PrivacyError, match=words):
        private.release(name, features)
    assert spent_uses(private._door._journal.ledger.entries) == {}


def test_a_subclass_is_not_taken_for_the_sum_that_the_door_knows(tmp_path: Path) -> None:
    """Its noise would be for the sensitivity that the subclass states."""
    private = handle(tmp_path, vectors(ROWS), UnderstatedSum("low", CLIP, SIGMA))
    with pytest.raises(PrivacyError, match="no unspent noisy-sum"):
        private.noisy_sum(features, CLIP, SIGMA)
    assert spent_uses(private._door._journal.ledger.entries) == {}


def test_a_width_that_the_mechanism_does_not_sum_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StretchedSum, "width", 3)
    with pytest.raises(PrivacyError, match="sums vectors of 3 numbers"):
        handle(tmp_path, vectors(ROWS), PLANNED).release("wide", features)


def test_a_form_that_depends_on_the_sum_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StretchedSum, "shaped", lambda _, total: total[total != 1.0])
    with pytest.raises(PrivacyError, match="another form for a sum than for zeros"):
        handle(tmp_path, vectors(ROWS[:1]), PLANNED, noise=Silence()).release("wide", features)


def test_a_mechanism_that_is_not_installed_is_read_and_never_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = mechanism_to_json(PLANNED)
    monkeypatch.undo()
    absent = mechanism_from_json(written)
    assert isinstance(absent, ForeignMechanism)
    with pytest.raises(PrivacyError, match="package that is not installed here"):
        handle(tmp_path, vectors(ROWS), absent).release("wide", features)


def test_bad_numbers_are_named() -> None:
    with pytest.raises(UserError, match="unit_norm of 'wide' must be a positive number"):
        StretchedSum("wide", -1.0, 1.0).check()
