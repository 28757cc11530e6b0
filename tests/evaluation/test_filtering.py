"""Readers trained afresh: every figure with interval, chance and the raw reference."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.filters.latent_cases import mixture
from understudy.errors import UserError
from understudy.evaluation.attackers.attributes import Answers
from understudy.evaluation.filtering import (
    Readers,
    View,
    confusion,
    information_row,
    parity_gap,
    parity_row,
    reading_rows,
    strongest,
)
from understudy.evaluation.protocol import Protocol, load_protocol

NAMES = ("linear", "mlp-15")


@pytest.fixture(scope="module")
def quick() -> Protocol:
    protocol = load_protocol("reduced")
    training = replace(protocol.training, epochs=2, least_steps=60)
    return replace(protocol, training=training, seeds=1)


@pytest.fixture(scope="module")
def raw() -> View:
    return View(mixture(1500), mixture(1500, seed=1))


@pytest.fixture(scope="module")
def sent(raw: View) -> View:
    """Without the coordinate that holds `hide`."""
    parts = [
        r.features * np.array([0, 1, 1, 1, 1, 1], np.float32) for r in (raw.learned, raw.asked)
    ]
    return raw.with_features(*parts)


@pytest.fixture(scope="module")
def readers(quick: Protocol) -> Readers:
    return Readers(quick)


def test_a_hidden_label_is_at_chance_and_its_reference_is_not(
    readers: Readers, sent: View, raw: View
) -> None:
    rows = reading_rows(readers, sent, raw, "hide", "hidden", NAMES)
    assert {row.direction for row in rows} == {"lower"}
    for words in ("accuracy", "balanced accuracy", "AUROC of scores", "AUROC of hard labels"):
        row = strongest(rows, f"hidden hide {words}")
        assert row.value is not None
        assert row.low is not None
        assert row.high is not None
        assert row.low <= row.value <= row.high
        assert row.value < 0.56
        assert row.reference is not None
        assert row.reference > 0.8
        assert row.chance == pytest.approx(0.5, abs=0.03)


def test_a_kept_label_stays_and_its_information_with_it(
    readers: Readers, sent: View, raw: View
) -> None:
    rows = reading_rows(readers, sent, raw, "keep", "kept", NAMES)
    assert {row.direction for row in rows} == {"higher"}
    assert (strongest(rows, "kept keep accuracy").value or 0) > 0.88
    told = strongest(rows, "kept keep information, at least")
    assert told.unit == "nats"
    assert 0.3 < (told.value or 0) <= (told.bounds[1] or 0)


def test_scores_and_hard_labels_are_two_figures(readers: Readers, sent: View, raw: View) -> None:
    rows = reading_rows(readers, sent, raw, "keep", "kept", ("linear",))
    by_name = {row.metric: row.value for row in rows}
    assert by_name["kept keep AUROC of scores"] > by_name["kept keep AUROC of hard labels"]  # type: ignore[operator]


def test_estimated_information(sent: View, raw: View) -> None:
    row = information_row(sent, raw, "hide", "hidden")
    assert (row.value or 0) < 0.05
    assert (row.reference or 0) > 0.3


def test_readers_see_decoded_images_too(readers: Readers, sent: View, raw: View) -> None:
    def decode(latents: np.ndarray) -> np.ndarray:
        pixels = np.clip(128 + 40 * latents[:, :4], 0, 255).astype(np.uint8)
        return pixels.reshape(-1, 1, 2, 2)

    images = sent.decoded(decode), raw.decoded(decode)
    assert images[0].asked.is_images
    rows = reading_rows(readers, *images, "hide", "hidden", ("linear",), "images")
    assert rows[0].variant == "linear, images"
    assert (rows[0].value or 1) < 0.56


def test_a_rate_that_leaves_a_reader_untrained_is_not_kept(quick: Protocol, raw: View) -> None:
    """An untrained attacker would make any filter look good."""

    def accuracy(*rates: float) -> float:
        found = Readers(quick, rates=rates).answers(raw, "hide", "mlp")
        return float((found.scores.argmax(axis=1) == found.truth).mean())

    spoilt, good = accuracy(1e-6), accuracy(0.004)
    assert spoilt < good - 0.1
    assert accuracy(1e-6, 0.004) == good == accuracy(0.004, 1e-6)


def test_confusion_counts_rows_of_true_classes() -> None:
    answers = Answers(np.eye(3)[[0, 0, 1, 2]], np.array([0, 1, 1, 2]))
    assert np.allclose(confusion(answers), [[1, 0, 0], [0.5, 0.5, 0], [0, 0, 1]])


def test_demographic_parity(readers: Readers, sent: View, raw: View) -> None:
    codes = np.array([0, 1] * 500)
    fair = parity_gap(Answers(np.eye(2)[codes], codes), np.repeat([0, 1], 500))
    assert fair.value == pytest.approx(0.0)
    assert fair.low < 0 < fair.high
    unfair = parity_gap(Answers(np.eye(2)[codes], codes), codes)
    assert unfair.value == 1.0
    row = parity_row(readers, sent, raw, "keep", "hide", "linear")
    assert abs(row.value or 1) < 0.1
    assert "true labels" in (row.note or "")
    with pytest.raises(UserError, match="two groups"):
        parity_gap(Answers(np.eye(2)[codes], codes), np.zeros(1000, np.int64))


def test_what_is_missing_is_named(readers: Readers, sent: View, raw: View) -> None:
    with pytest.raises(UserError, match="no attribute 'hid'"):
        reading_rows(readers, sent, raw, "hid", "hidden", NAMES)
    with pytest.raises(UserError, match="no row"):
        strongest((), "accuracy")
