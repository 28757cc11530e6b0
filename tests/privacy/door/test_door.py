"""The door: what comes out, with what noise, charged when, and never twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats

from tests.privacy.rig import (
    Silence,
    classify,
    enter,
    fits_noise,
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
from understudy.audit.noise_tests import ALPHA
from understudy.errors import PrivacyError, UserError
from understudy.privacy.door.batch import Batch
from understudy.privacy.door.private_records import PrivateRecords
from understudy.privacy.door.replay_tape import Tape
from understudy.privacy.dpsgd.speed import Speed
from understudy.privacy.ledger.ledger import read_ledger
from understudy.privacy.ledger.story import spent_events, spent_uses
from understudy.privacy.noise.source import NoiseSource
from understudy.privacy.plan.mechanisms import DPSGD, NoisyHistogram, NoisySum, Reveal
from understudy.privacy.sums.clipping import Blocks

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
    assert not fits_noise(values, 6.0 * 1.1)
    assert not fits_noise(values, 6.0 / 1.1)


def test_a_histogram_has_the_planned_noise(tmp_path: Path) -> None:
    planned = NoisyHistogram("histogram", bins=20_000, sigma=2.0)
    private = handle(tmp_path, records(5), planned)
    values = private.noisy_histogram(label, bins=20_000, sigma=2.0).double().numpy()[3:]
    assert fits_noise(values, 2.0)
    assert not fits_noise(values, 2.0 * 1.1)
    assert not fits_noise(values, 2.0 / 1.1)


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
        lambda p: p.dp_sgd(p._door.plan, [mlp()], classify),
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

    monkeypatch.setattr("understudy.privacy.ledger.journal.write_durably", full)
    with pytest.raises(OSError, match="No space"):
        private.reveal("to test")
    with pytest.raises(PrivacyError):
        private.reveal("to test")


def test_a_transform_is_a_reveal(tmp_path: Path) -> None:
    private = handle(tmp_path, records(5), REVEAL)
    assert len(private.transform(lambda r: r.select([0, 1]), "to test")) == 2
    (event,) = spent_events(read_ledger(tmp_path / "ledger.jsonl"))
    assert event.kind == "non-private"


# Whose outputs depend on what


def test_a_replay_gives_back_what_was_kept(tmp_path: Path) -> None:
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


def memory_of(source: NoiseSource) -> dict[str, object]:
    """What a snapshot of the machine holds of it."""
    ready = {name: words.clone() for name, words in source._ready.items()}
    return {**vars(source), "_ready": ready}


def test_a_machine_that_is_restored_from_a_snapshot_draws_other_noise(tmp_path: Path) -> None:
    """The same memory twice, and two releases from it: else their difference has no noise."""
    source, out = NoiseSource(), []
    source.normal(3)
    snapshot = memory_of(source)
    for name in ("one", "two"):
        vars(source).update({**snapshot, "_ready": dict(snapshot["_ready"])})  # type: ignore
        private = handle(tmp_path / name, records(5), SUM, noise=source)
        out.append(private.noisy_sum(wide, clip=1.0, sigma=2.0).double().numpy())
    assert stats.pearsonr(*out).pvalue > ALPHA, "the noise of the snapshot was drawn again"


def test_every_block_of_steps_has_a_key_of_its_own(tmp_path: Path) -> None:
    private = handle(tmp_path, records(8), DPSGD("sgd", 4, rate=0.5, clip=1.0, sigma=1.0))
    keys = [private._door.noise._key]
    for _ in range(4):
        train_steps(private, mlp(), 1, speed=Speed(backend="vmap", block_steps=1))
        keys.append(private._door.noise._key)
    assert len(set(keys)) == 5, "a block draws by the key of another"


def test_a_public_seed_goes_on_as_it_is(tmp_path: Path) -> None:
    out = []
    for name in ("one", "two"):
        noise = NoiseSource.insecure(3)
        private = handle(tmp_path / name, records(5), SUM, noise=noise)
        out.append(private.noisy_sum(pixels, clip=1.0, sigma=2.0))
    assert torch.equal(*out)


def test_steps_and_releases_are_told_apart_after_a_restart(tmp_path: Path) -> None:
    """A resumed run looks for its DP-SGD among blocks that keep no outputs."""
    sgd = DPSGD("sgd", steps=4, rate=0.5, clip=1.0, sigma=1.0)
    private = handle(tmp_path, records(8), sgd, SUM)
    train_steps(private, mlp(), 2)
    leave(private._door)
    again = enter(open_door(tmp_path), records(8))
    session = again.dp_sgd(again._door.plan, [mlp()], classify)
    assert session.mechanism.steps - session.steps_done == 4
    session.step()
