"""The gate of a device: filtered records that are nearly the raw ones do not leave."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.data.samples import refused
from tests.federated.scene import QUICK, encoder, records, user
from understudy.errors import PrivacyError
from understudy.federated.agreement import Agreement
from understudy.federated.copies import CopyCheck, check_copies, refuse_copies
from understudy.federated.user import encoded, filtered, noised
from understudy.filters.choice import Choice
from understudy.filters.distortion import Distortion
from understudy.filters.filter import Filter, fit_filter
from understudy.privacy.ledger.account_book import Book
from understudy.privacy.local.channel import LocalChannel
from understudy.privacy.noise.source import NoiseSource
from understudy.progress import Silent


class Told(Silent):
    """Progress that remembers what it was told."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, line: str) -> None:
        self.said.append(line)


@pytest.fixture(scope="module")
def world():
    made = encoder()
    latents = encoded(made, records(200))
    mine = fit_filter(latents, Choice(("tone",), ("row",)), Distortion(), made, QUICK)
    return made, latents, mine


def changed(mine: Filter, *, noise: float = 1.0, shift: float = 1.0) -> Filter:
    """The same filter with its noise and its shift scaled."""
    model = mine.model.shape.build()
    model.load_state_dict(mine.model.state_dict())
    with torch.no_grad():
        model.noise.mul_(noise)
        model.labels.mul_(shift)
    return replace(mine, model=model)


def sent_by(world, mine: Filter):
    made, latents, _ = world
    return filtered(made, latents, mine, Agreement.of(made), NoiseSource())


def test_a_filter_that_changes_records_passes(world):
    _, latents, mine = world
    made = mine.apply(latents, NoiseSource()).features
    found = check_copies(latents, made, mine)
    assert found.count == 200
    assert found.near <= 10
    assert found.passed
    assert len(sent_by(world, mine).records) == 200


@pytest.mark.parametrize("scale", [1e-3, 0.0])
def test_a_filter_that_hardly_changes_them_sends_nothing(world, scale):
    with pytest.raises(PrivacyError, match="200 of 200 filtered records are near copies"):
        sent_by(world, changed(world[2], noise=scale, shift=scale))


def test_a_shift_without_noise_is_told_to_its_user(world):
    """It may hide a label, so it is let through; but it can be taken back."""
    made, latents, mine = world
    bare = changed(mine, noise=0.0, shift=30.0)
    for one, warned in ((bare, True), (changed(mine, noise=20.0), False)):
        told = Told()
        filtered(made, latents, one, Agreement.of(made), NoiseSource(), progress=told)
        assert any("next to no noise to 200 of 200" in word for word in told.said) == warned


def test_a_budget_next_to_nothing_is_refused(world):
    made, latents, _ = world
    tiny = fit_filter(latents, Choice(("tone",), ("row",)), Distortion("kl", 1e-6), made, QUICK)
    with refused("near copies", "larger --budget"):
        sent_by(world, tiny)


def test_some_copies_are_enough(world):
    """One class left as it is: most records are changed, and the rest leave raw."""
    _, latents, mine = world
    made = mine.apply(latents, NoiseSource()).features.copy()
    few = np.arange(len(made)) < 16
    made[few] = latents.features[few]
    with refused("of 200"):
        refuse_copies(latents, made, mine)
    made[4:16] += 1.0
    refuse_copies(latents, made, mine)


def test_one_record_is_compared_too(world):
    _, latents, mine = world
    alone = latents.select(np.arange(1))
    refuse_copies(alone, alone.features + np.float32(1.0), mine)
    with refused("1 of 1"):
        refuse_copies(alone, alone.features, mine)


@pytest.mark.parametrize(
    ("near", "count", "passed"),
    [
        *((0, 1, True), (1, 1, False), (1, 2, True), (2, 2, False)),
        *((1, 10, True), (2, 10, False), (5, 100, True), (6, 100, False), (100, 100, False)),
    ],
)
def test_a_single_one_among_several_is_chance(near, count, passed):
    assert CopyCheck(count, near, 0).passed == passed


def test_nothing_but_the_sentence_says_what_was_found(world, tmp_path):
    """No file, no entry in the book: the folder to send is not begun."""
    made, latents, mine = world
    book = Book.open("mine", tmp_path)
    still = changed(mine, noise=0.0, shift=0.0)
    with refused("near copies"):
        filtered(made, latents, still, Agreement.of(made), NoiseSource(), None, book)
    assert book.runs() == ()


def test_a_local_mechanism_has_no_gate(world, tmp_path, monkeypatch):
    """Whether a private release goes out must not depend on raw records."""
    made, latents, _ = world

    def never(*words: object) -> None:
        del words
        raise AssertionError("the gate looked at a local release")

    monkeypatch.setattr("understudy.federated.user.refuse_copies", never)
    channel = LocalChannel(made.radius, 1e4, 0.5)
    book = Book.open("mine", tmp_path)
    assert len(noised(made, latents, channel, Agreement.of(made), NoiseSource(), book).records)


def test_a_user_of_such_a_filter_sends_nothing(world):
    made, _, _ = world
    mine = replace(user(), distortion=Distortion("kl", 1e-6))
    with refused("near copies"):
        mine.contribute(made, Agreement.of(made))
