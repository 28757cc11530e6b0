"""The door: what comes out, with what noise, charged when, and never twice."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats

from tests.privacy.noise_checks import ALPHA
from tests.privacy.rig import (
    Silence,
    classify,
    enter,
    handle,
    kinds,
    leave,
    mlp,
    open_door,
    pixels,
    records,
    train_steps,
    vectors,
)
from tests.privacy.test_sgd import fits_noise
from understudy.data.records import Images
from understudy.errors import PrivacyError, UserError
from understudy.privacy.batch import Batch
from understudy.privacy.clipping import Blocks
from understudy.privacy.ledger import read_ledger, spent_events, spent_uses
from understudy.privacy.mechanisms import DPSGD, NoisyHistogram, NoisySum, Reveal
from understudy.privacy.private_records import PrivateRecords
from understudy.privacy.tape import Tape

SUM = NoisySum("sum", clip=1.0, sigma=2.0)
HISTOGRAM = NoisyHistogram("histogram", bins=3, sigma=2.0)
REVEAL = Reveal("look", reason="to test")


def wide(batch: Batch) -> torch.Tensor:
    return torch.zeros(len(batch), 20_000)


def label(batch: Batch) -> torch.Tensor:
    return batch.labels


# What comes out


@pytest.mark.parametrize("count", [0, 1, 300])
def test_a_sum_has_the_planned_noise(tmp_path: Path, count: int) -> None:
    planned = NoisySum("sum", clip=3.0, sigma=2.0)
    private = handle(tmp_path, records(count), planned, count=300)
    values = private.noisy_sum(wide, clip=3.0, sigma=2.0).double().numpy()
    assert values.shape == (20_000,)
    assert fits_noise(values, 6.0)
    assert not fits_noise(values, 6.0 * 1.05)
    assert not fits_noise(values, 6.0 / 1.05)


def test_a_histogram_has_the_planned_noise(tmp_path: Path) -> None:
    planned = NoisyHistogram("histogram", bins=20_000, sigma=2.0)
    private = handle(tmp_path, records(5), planned)
    values = private.noisy_histogram(label, bins=20_000, sigma=2.0).double().numpy()[3:]
    assert fits_noise(values, 2.0)
    assert not fits_noise(values, 2.0 * 1.05)
    assert not fits_noise(values, 2.0 / 1.05)


def test_a_sum_is_that_of_clipped_units(tmp_path: Path) -> None:
    """More records than one chunk, people with many records, and a very long one."""
    rng = np.random.default_rng(0)
    people = [f"p{i}" for i in rng.integers(0, 90, 600)]
    features = rng.normal(size=(600, 5)).astype(np.float32)
    features[17] *= 1e6
    private = handle(tmp_path, vectors(features, people), SUM, noise=Silence())
    released = private.noisy_sum(pixels, clip=1.0, sigma=2.0)
    expected = np.zeros(5)
    for name in set(people):
        vector = features[[p == name for p in people]].astype(np.float64).sum(axis=0)
        expected += vector * min(1.0, 1.0 / np.linalg.norm(vector))
    assert np.allclose(released.numpy(), expected, atol=1e-4)


def test_blocks_and_dense_vectors_come_out_alike(tmp_path: Path) -> None:
    def blocks(batch: Batch) -> Blocks:
        return Blocks(pixels(batch), batch.labels, 3)

    def dense(batch: Batch) -> torch.Tensor:
        return blocks(batch).dense()

    for units in (None, [f"p{i % 7}" for i in range(300)]):
        out = []
        for number, fn in enumerate((blocks, dense)):
            folder = tmp_path / f"{number}{units is None}"
            private = handle(folder, records(300, units=units), SUM, noise=Silence())
            out.append(private.noisy_sum(fn, clip=1.0, sigma=2.0))
        assert torch.allclose(out[0], out[1], atol=1e-4)


def test_a_histogram_counts_and_bounds_each_unit(tmp_path: Path) -> None:
    data = records(9, units=["a"] * 4 + ["b", "c", "d", "e", "f"])
    counts = handle(tmp_path, data, HISTOGRAM, noise=Silence()).noisy_histogram(
        label, bins=3, sigma=2.0
    )
    labels = data.attributes["label"]
    of_a = np.bincount(labels[:4], minlength=3)
    expected = of_a / np.linalg.norm(of_a) + np.bincount(labels[4:], minlength=3)
    assert np.allclose(counts.numpy(), expected, atol=1e-6)


def test_bins_outside_the_declared_ones_cannot_widen_the_histogram(tmp_path: Path) -> None:
    private = handle(tmp_path, records(6), HISTOGRAM, noise=Silence())
    counts = private.noisy_histogram(lambda b: b.labels * 1000 - 500, bins=3, sigma=2.0)
    assert counts.shape == (3,)
    assert float(counts.sum()) == pytest.approx(6.0)


# In the plan or not at all


@pytest.mark.parametrize(
    "ask",
    [
        lambda p: p.noisy_sum(pixels, clip=1.0, sigma=1.9),
        lambda p: p.noisy_sum(pixels, clip=1.1, sigma=2.0),
        lambda p: p.noisy_histogram(label, bins=4, sigma=2.0),
        lambda p: p.noisy_histogram(label, bins=3, sigma=0.1),
        lambda p: p.dp_sgd(p._door.plan),
        lambda p: p.reveal("because"),
        lambda p: p.transform(lambda r: r, "because"),
        lambda p: p.ensemble(3, lambda _: mlp()).noisy_votes(torch.zeros(1, 16)),
    ],
)
def test_what_is_not_planned_is_refused(
    tmp_path: Path, ask: Callable[[PrivateRecords], object]
) -> None:
    private = handle(tmp_path, records(5), SUM, HISTOGRAM)
    with pytest.raises(PrivacyError, match="plan"):
        ask(private)
    assert kinds(tmp_path) == ["plan"]


def test_another_part_does_not_lend_its_plan(tmp_path: Path) -> None:
    door = open_door(tmp_path, NoisySum("sum", clip=1.0, sigma=2.0, part="other"))
    parts = door.handles({"train": records(3), "other": records(3)}, {"train": 3, "other": 3})
    with pytest.raises(PrivacyError, match="part 'train'"):
        parts["train"].noisy_sum(pixels, clip=1.0, sigma=2.0)
    parts["other"].noisy_sum(pixels, clip=1.0, sigma=2.0)


def test_a_release_is_made_once(tmp_path: Path) -> None:
    private = handle(tmp_path, records(5), SUM)
    private.noisy_sum(pixels, clip=1.0, sigma=2.0)
    with pytest.raises(PrivacyError, match="unspent"):
        private.noisy_sum(pixels, clip=1.0, sigma=2.0)
    assert kinds(tmp_path) == ["plan", "reserve", "commit"]


def test_two_releases_alike_are_two_in_the_plan(tmp_path: Path) -> None:
    twin = NoisySum("twin", clip=1.0, sigma=2.0)
    private = handle(tmp_path, records(5), SUM, twin)
    out = [private.noisy_sum(pixels, clip=1.0, sigma=2.0) for _ in range(2)]
    assert not torch.equal(out[0], out[1])
    leave(private._door)
    again = enter(open_door(tmp_path), records(5))
    assert [private_sum.tolist() for private_sum in out] == [
        again.noisy_sum(pixels, clip=1.0, sigma=2.0).tolist() for _ in range(2)
    ]
    assert spent_uses(read_ledger(tmp_path / "ledger.jsonl")) == {"sum": 1, "twin": 1}


def test_after_a_restart_a_release_is_given_back_not_made_again(tmp_path: Path) -> None:
    private = handle(tmp_path, records(5), SUM)
    first = private.noisy_sum(pixels, clip=1.0, sigma=2.0)
    leave(private._door)
    ledger = (tmp_path / "ledger.jsonl").read_bytes()

    def never(_: Batch) -> torch.Tensor:
        raise AssertionError("the records were read again")

    again = enter(open_door(tmp_path), records(9, seed=4))
    assert torch.equal(again.noisy_sum(never, clip=1.0, sigma=2.0), first)
    assert (tmp_path / "ledger.jsonl").read_bytes() == ledger
    with pytest.raises(PrivacyError, match="unspent"):
        again.noisy_sum(pixels, clip=1.0, sigma=2.0)


def test_records_are_revealed_only_as_planned_and_charged_once(tmp_path: Path) -> None:
    data = records(5)
    private = handle(tmp_path, data, REVEAL)
    for empty in ("", "  "):
        with pytest.raises(UserError, match="reason"):
            private.reveal(empty)
    assert kinds(tmp_path) == ["plan"]
    assert private.reveal("to test") is data
    assert private.reveal("to test again") is data
    leave(private._door)
    assert enter(open_door(tmp_path), data).reveal("to test") is data
    assert kinds(tmp_path) == ["plan", "reserve", "commit"]
    (event,) = spent_events(read_ledger(tmp_path / "ledger.jsonl"))
    assert event.kind == "non-private"


def test_the_charge_for_a_reveal_comes_before_the_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    private = handle(tmp_path, records(5), REVEAL)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("understudy.privacy.journal.write_durably", full)
    with pytest.raises(OSError, match="No space"):
        private.reveal("to test")
    with pytest.raises(PrivacyError):
        private.reveal("to test")


def test_a_transform_is_a_reveal(tmp_path: Path) -> None:
    private = handle(tmp_path, records(5), REVEAL)
    assert len(private.transform(lambda r: r.select([0, 1]), "to test")) == 2
    (event,) = spent_events(read_ledger(tmp_path / "ledger.jsonl"))
    assert event.kind == "non-private"


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
        if bool((pixels(batch) > 5).any()):
            raise ValueError("a secret: somebody is there")
        return pixels(batch)

    private = handle(tmp_path, vectors(np.full((4, 3), 9.0)), SUM, HISTOGRAM)
    with pytest.raises(ValueError, match="secret"):
        private.noisy_sum(picky, clip=1.0, sigma=2.0)
    assert kinds(tmp_path) == ["plan", "reserve", "void"]
    for ask in (
        lambda: private.noisy_sum(pixels, clip=1.0, sigma=2.0),
        lambda: private.noisy_histogram(label, bins=3, sigma=2.0),
        lambda: private.map(lambda f: f),
        lambda: private._door.checkpoint(dict),
        lambda: private._door.settle(),
    ):
        with pytest.raises(PrivacyError, match="start the run again"):
            ask()
    assert kinds(tmp_path) == ["plan", "reserve", "void"]


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


# Whose outputs depend on what


def test_a_replay_gives_back_what_was_recorded(tmp_path: Path) -> None:
    """And shows what the door cannot hide: how often a callback was called."""

    def method(door_folder: Path, count: int, tape: Tape) -> tuple[list[float], int]:
        calls = []

        def counting(batch: Batch) -> torch.Tensor:
            calls.append(len(batch))
            return pixels(batch)

        door = open_door(door_folder, SUM, tape=tape)
        private = enter(door, records(count, seed=count), 300)
        out = private.noisy_sum(counting, clip=1.0, sigma=2.0).tolist()
        return out, len(calls)

    tape = Tape()
    first, few = method(tmp_path / "one", 5, tape)
    replay = Tape.replay(tape)
    second, many = method(tmp_path / "two", 800, replay)
    assert first == second
    assert replay.finished
    assert few != many


def test_a_replay_refuses_other_questions(tmp_path: Path) -> None:
    tape = Tape()
    private = enter(open_door(tmp_path / "one", SUM, tape=tape), records(5))
    private.noisy_sum(pixels, clip=1.0, sigma=2.0)
    other = enter(open_door(tmp_path / "two", SUM, tape=Tape.replay(tape)), records(5))
    with pytest.raises(PrivacyError, match="other outputs"):
        other.noisy_sum(lambda b: pixels(b)[:, :3], clip=1.0, sigma=2.0)


def test_noise_of_two_runs_is_independent(tmp_path: Path) -> None:
    out = []
    for name in ("one", "two"):
        private = handle(tmp_path / name, records(5), SUM)
        out.append(private.noisy_sum(wide, clip=1.0, sigma=2.0).double().numpy())
    assert stats.pearsonr(*out).pvalue > ALPHA


def test_steps_and_releases_are_told_apart_after_a_restart(tmp_path: Path) -> None:
    """A resumed run looks for its DP-SGD among blocks that keep no outputs."""
    sgd = DPSGD("sgd", steps=4, rate=0.5, clip=1.0, sigma=1.0)
    private = handle(tmp_path, records(8), sgd, SUM)
    train_steps(private, mlp(), 2)
    leave(private._door)
    again = enter(open_door(tmp_path), records(8))
    session = again.dp_sgd(again._door.plan)
    assert session.steps_left == 4
    session.step([mlp()], classify)
