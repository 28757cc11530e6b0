"""Canaries: fair coins, where they are planted, and which are guessed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from understudy.audit import black_box
from understudy.audit.black_box import density_scores
from understudy.audit.canaries import blank_records, extremes, plant, random_records, toss
from understudy.audit.rehearsal import made_up_records
from understudy.privacy.sums.units import UnitIndex

RECORDS = made_up_records(30, 0)
COINS = np.arange(10) % 3 == 0


def test_coins_are_fair_and_independent() -> None:
    """Six standard deviations for the mean and for agreement with the neighbour."""
    coins = toss(100_001)
    assert coins.shape == (100_001,)
    for share in (coins.mean(), (coins[1:] == coins[:-1]).mean()):
        assert abs(share - 0.5) < 6 * 0.5 / np.sqrt(100_000)
    assert not np.array_equal(coins[:64], toss(64))


def test_only_canaries_whose_coin_says_so_are_planted() -> None:
    canaries = random_records(RECORDS, 10, seed=1)
    planting = plant(RECORDS, canaries, COINS)
    assert planting.joined.tolist() == [0, 3, 6, 9]
    assert len(planting.records) == 34
    assert np.array_equal(planting.records.features[30:], canaries.features[COINS])
    assert np.array_equal(planting.others.features, RECORDS.features)


def test_a_canary_is_a_unit_of_its_own() -> None:
    people = replace(RECORDS, units=np.repeat(["zoe", "ann", "bob"], 10))
    planting = plant(people, random_records(RECORDS, 10, seed=1), COINS)
    assert len(UnitIndex(planting.records)) == 3 + 4


def test_canaries_have_the_form_of_the_records() -> None:
    blank, noise = blank_records(RECORDS, 5), random_records(RECORDS, 500, seed=2)
    for made in (blank, noise):
        assert made.schema == RECORDS.schema
        assert made.shape == RECORDS.shape
        assert made.features.dtype == RECORDS.features.dtype
    assert not blank.features.any()
    assert set(noise.labels.tolist()) == {0, 1, 2}
    assert len({image.tobytes() for image in noise.features}) == 500


def test_soft_labels_stay_soft() -> None:
    soft = replace(RECORDS, attributes={"label": np.full((30, 3), 1 / 3, np.float32)})
    made = random_records(soft, 8, seed=2).attributes["label"]
    assert made.shape == (8, 3)
    assert (made.sum(axis=1) == 1).all()


def test_guesses_are_the_extremes() -> None:
    guesses = extremes(np.array([0.1, 5.0, -3.0, 0.2, 4.0, -9.0]), 3)
    assert guesses.about.tolist() == [1, 4, 5]
    assert guesses.said_in.tolist() == [True, True, False]
    assert guesses.correct(np.array([False, True, True, True, False, False])) == 2


@pytest.mark.parametrize("count", [1, 2, 5, 6])
def test_every_canary_is_guessed_at_most_once(count: int) -> None:
    about = extremes(np.arange(6.0), count).about
    assert len(set(about.tolist())) == count


@pytest.mark.parametrize("joined", [12, 30, 48])
@pytest.mark.parametrize("blur", [0, 40])
def test_a_release_that_repeats_canaries_gives_them_away(joined: int, blur: int) -> None:
    """Copies, or copies with every pixel off by up to a sixth, among strangers."""
    canaries = random_records(RECORDS, 60, seed=3)
    coins = np.random.default_rng(4).permutation(60) < joined
    leaky = plant(made_up_records(200, 4), canaries, coins).records
    off = np.random.default_rng(5).integers(-blur, blur + 1, leaky.features.shape)
    blurred = np.clip(leaky.features.astype(np.int64) + off, 0, 255).astype(np.uint8)
    scores = density_scores(canaries, replace(leaky, features=blurred))
    assert np.isfinite(scores).all()
    assert extremes(scores, 20).correct(coins) == 20


def test_scores_do_not_depend_on_how_many_canaries_are_looked_at_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    canaries, released = random_records(RECORDS, 70, seed=3), made_up_records(90, 4)
    together = density_scores(canaries, released)
    monkeypatch.setattr(black_box, "_ROWS_AT_ONCE", 16)
    assert density_scores(canaries, released) == pytest.approx(together)


def test_a_release_that_knows_nothing_of_them_does_not() -> None:
    canaries = random_records(RECORDS, 2000, seed=3)
    coins = toss(2000)
    right = extremes(density_scores(canaries, made_up_records(200, 4)), 1000).correct(coins)
    assert abs(right - 500) < 6 * np.sqrt(250)


@pytest.mark.parametrize("seed", range(8))
def test_scores_of_identical_and_few_released_records_are_finite(seed: int) -> None:
    """Whether squared lengths and products of copies cancel to the last bit is the processor's
    choice, and no distance."""
    canaries = random_records(RECORDS, 5, seed=seed)
    same = canaries.select(np.zeros(3, dtype=np.int64))
    assert np.isfinite(density_scores(canaries, same)).all()
    assert density_scores(same, same) == pytest.approx(np.zeros(3))


def test_the_smallest_change_of_a_large_image_is_a_distance() -> None:
    light = np.full((2, 3, 64, 64), 255, dtype=np.uint8)
    light[1, 0, 0, 0] = 254
    records = replace(RECORDS.select(np.zeros(2, dtype=np.int64)), features=light)
    scores = density_scores(records, records.select(np.zeros(1, dtype=np.int64)))
    assert scores[0] == pytest.approx(0.0)
    assert scores[1] < -1.0
