"""Handles: what they tell, what callbacks may do, and maps."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.privacy.rig import (
    Silence,
    handle,
    kinds,
    pixels,
    records,
    vectors,
)
from understudy.data.records import Images
from understudy.errors import PrivacyError, RunFailed, UserError
from understudy.privacy.door.batch import Batch
from understudy.privacy.door.private_records import PrivateRecords
from understudy.privacy.plan.mechanisms import NoisyHistogram, NoisySum, Reveal
from understudy.privacy.sums.clipping import Blocks

SUM = NoisySum("sum", clip=1.0, sigma=2.0)
HISTOGRAM = NoisyHistogram("histogram", bins=3, sigma=2.0)
REVEAL = Reveal("look", reason="to test")


def wide(batch: Batch) -> torch.Tensor:
    return torch.zeros(len(batch), 20_000)


def label(batch: Batch) -> torch.Tensor:
    return batch.labels


# What a handle tells


def test_a_handle_tells_declared_facts_only(tmp_path: Path) -> None:
    private = handle(tmp_path, records(5), SUM, count=70)
    assert (private.count, private.shape, private.part) == (70, (1, 4, 4), "train")
    assert private.schema.classes == ("a", "b", "c")


@pytest.mark.parametrize(
    "look",
    [
        len,
        iter,
        list,
        bool,
        pickle.dumps,
        copy.copy,
        copy.deepcopy,
        lambda p: 3 in p,
        lambda p: [*p],
    ],
)
def test_a_handle_cannot_be_counted_walked_or_copied(
    tmp_path: Path, look: Callable[[PrivateRecords], object]
) -> None:
    with pytest.raises(PrivacyError):
        look(handle(tmp_path, records(5), SUM))


def test_a_declared_count_must_be_one(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="declared count"):
        handle(tmp_path, records(5), SUM, count=0)


def test_bars_do_not_tell_how_many_records_there_are(tmp_path: Path) -> None:
    class Bar:
        def __init__(self) -> None:
            self.totals: list[int | None] = []
            self.at = 0

        def task(self, description: str, total: int | None = None) -> Bar:
            del description
            self.totals.append(total)
            return self

        def __enter__(self) -> Bar:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def advance(self, steps: int = 1) -> None:
            self.at += steps

    shown = []
    for count in (1, 700):
        private = handle(tmp_path / str(count), records(count), SUM, count=300)
        bar = Bar()
        private._door.progress = bar  # type: ignore[assignment]
        private.noisy_sum(pixels, clip=1.0, sigma=2.0)
        shown.append((bar.totals, bar.at))
    assert shown[0] == shown[1] == ([100], 100)


@pytest.mark.parametrize("count", [0, 3, 600])
def test_generators_tell_nothing_of_the_records(tmp_path: Path, count: int) -> None:
    """A callback that draws (and is harmless) leaves every generator as it was."""

    def drawing(batch: Batch) -> torch.Tensor:
        np.random.rand(len(batch))
        return 0.0 * torch.rand(len(batch), 4)

    torch.manual_seed(5)
    np.random.seed(5)
    handle(tmp_path, records(count), SUM, count=9).noisy_sum(drawing, clip=1.0, sigma=2.0)
    after = torch.rand(1).item(), np.random.rand()
    torch.manual_seed(5)
    np.random.seed(5)
    assert after == (torch.rand(1).item(), np.random.rand())


# Callbacks


@pytest.mark.parametrize(
    "fn",
    [
        lambda b: pixels(b) - pixels(b).mean(dim=0),
        lambda b: pixels(b).sum(dim=1),
        lambda b: b.features,
        lambda b: pixels(b).sum(),
        lambda b: Blocks(pixels(b).mean(dim=0, keepdim=True).expand(len(b), -1), b.labels, 3),
    ],
    ids=["mixes", "numbers", "images", "a number", "mixing blocks"],
)
def test_a_vector_callback_is_checked_first(
    tmp_path: Path, fn: Callable[[Batch], torch.Tensor]
) -> None:
    private = handle(tmp_path, records(5), SUM)
    with pytest.raises(PrivacyError, match="vector_of"):
        private.noisy_sum(fn, clip=1.0, sigma=2.0)
    assert "commit" not in kinds(tmp_path)


def test_a_width_that_follows_the_records_is_refused(tmp_path: Path) -> None:
    """It would tell something by its length, or be broadcast and count many times."""

    def by_content(batch: Batch) -> torch.Tensor:
        dark = bool((pixels(batch) < 0.5).all())
        return pixels(batch)[:, :1] if dark else pixels(batch)

    dark = vectors(np.zeros((5, 4)))
    private = handle(tmp_path, dark, SUM)
    with pytest.raises(PrivacyError, match="another shape"):
        private.noisy_sum(by_content, clip=1.0, sigma=2.0)


def test_bins_must_be_one_a_row(tmp_path: Path) -> None:
    private = handle(tmp_path, records(5), HISTOGRAM)
    with pytest.raises(PrivacyError, match="one block number a row"):
        private.noisy_histogram(lambda b: b.labels.unsqueeze(1), bins=3, sigma=2.0)


def test_a_failing_callback_shuts_the_door(tmp_path: Path) -> None:
    """Whether it failed is a fact about the records: a method that catches it gets no more."""

    def picky(batch: Batch) -> torch.Tensor:
        if bool((pixels(batch) == 9).any()):
            raise ValueError("a secret: somebody is there")
        return pixels(batch)

    private = handle(tmp_path, vectors(np.full((4, 3), 9.0)), SUM, HISTOGRAM)
    with pytest.raises(RunFailed, match="secret"):
        private.noisy_sum(picky, clip=1.0, sigma=2.0)
    assert kinds(tmp_path) == ["plan", "reserve", "fail"]
    for ask in (
        lambda: private.noisy_sum(pixels, clip=1.0, sigma=2.0),
        lambda: private.noisy_histogram(label, bins=3, sigma=2.0),
        lambda: private.map(lambda f: f),
        lambda: private._door.checkpoint(dict),
        lambda: private._door.settle(),
    ):
        with pytest.raises(PrivacyError, match="start a new run"):
            ask()
    assert kinds(tmp_path) == ["plan", "reserve", "fail"]


@pytest.mark.parametrize("level", [0.0, 1.0, 0.5])
@pytest.mark.parametrize("what", ["vector_of", "map"])
def test_a_callback_that_fails_on_an_extreme_record_is_refused_beforehand(
    tmp_path: Path, what: str, level: float
) -> None:
    def picky(features: torch.Tensor) -> torch.Tensor:
        flat = features.flatten(1)
        if bool((flat == level).all(dim=1).any()):
            raise ZeroDivisionError("no contrast")
        return flat

    private = handle(tmp_path, records(5), SUM)
    asked: dict[str, Callable[[], object]] = {
        "map": lambda: private.map(picky),
        "vector_of": lambda: private.noisy_sum(lambda b: picky(b.features), clip=1.0, sigma=2.0),
    }
    with pytest.raises(UserError, match=f"{what} fails on an extreme record"):
        asked[what]()
    assert kinds(tmp_path) == ["plan"]
    assert len(private.noisy_sum(pixels, clip=1.0, sigma=2.0)) == 16


@pytest.mark.parametrize("share", [1e-2, 1e-6])
def test_a_vector_that_holds_a_little_of_another_row_is_refused(
    tmp_path: Path, share: float
) -> None:
    """Within any tolerance of a row alone, and yet one record reaches all others."""

    def leaking(batch: Batch) -> torch.Tensor:
        flat = pixels(batch)
        return flat + share * flat.mean(dim=0)

    private = handle(tmp_path, records(5), SUM)
    with pytest.raises(PrivacyError, match="mixes"):
        private.noisy_sum(leaking, clip=1.0, sigma=2.0)
    assert kinds(tmp_path) == ["plan"]


# Maps


def test_a_map_keeps_every_record_in_its_place_and_is_free(tmp_path: Path) -> None:
    people = [f"p{i % 40}" for i in range(300)]
    data = records(300, units=people)
    private = handle(tmp_path, data, SUM, count=17, noise=Silence())
    mapped = private.map(lambda f: f.flatten(1) * 2 + 1)
    assert kinds(tmp_path) == ["plan"]
    assert (mapped.shape, mapped.count) == ((16,), 17)
    expected = data.features.reshape(300, 16).astype(np.float32) / 255 * 2 + 1
    assert np.allclose(mapped._records.features, expected, atol=1e-5)
    assert mapped._records.attributes is data.attributes
    assert mapped._records.units is data.units


def test_a_map_works_on_images_and_on_nothing(tmp_path: Path) -> None:
    some = records(3)
    images = Images(some.features, some.attributes, some.schema)
    mapped = handle(tmp_path / "images", images, SUM).map(lambda f: f.flatten(1)[:, :2])
    none = handle(tmp_path / "none", records(0), SUM, count=3).map(lambda f: f.flatten(1)[:, :2])
    assert mapped.shape == none.shape == (2,)


def test_a_map_that_mixes_rows_is_refused(tmp_path: Path) -> None:
    private = handle(tmp_path, records(5), SUM)
    with pytest.raises(PrivacyError, match="map gives a row another value"):
        private.map(lambda f: f - f.mean(dim=0))
