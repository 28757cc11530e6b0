"""Callbacks that treat rows together are refused; honest ones pass."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

from tests.privacy.rig import mlp, records
from understudy.data.records import Records
from understudy.data.schema import Attribute, Schema
from understudy.errors import PrivacyError
from understudy.privacy.door.batch import TRIAL_ROWS, Batch, random_batch
from understudy.privacy.door.row_independence import (
    check_loss,
    check_rows,
    raise_unless_rounding,
    zeros_randomised,
)
from understudy.privacy.dpsgd.models import refuse_mixing_layers

CPU = torch.device("cpu")


@pytest.fixture
def batch() -> Batch:
    return random_batch(records(3), TRIAL_ROWS, CPU)


def pixels(batch: Batch) -> torch.Tensor:
    return batch.features.flatten(1)


def class_means(batch: Batch) -> torch.Tensor:
    """Centres each row by the rows of its own class."""
    same = (batch.labels[:, None] == batch.labels[None, :]).float()
    return pixels(batch) - (same @ pixels(batch)) / same.sum(dim=1, keepdim=True)


GOOD: dict[str, Callable[[Batch], torch.Tensor]] = {
    "pixels": pixels,
    "tiny": lambda b: 1e-9 * pixels(b),
    "large": lambda b: 1e9 * pixels(b),
    "constant": lambda b: torch.ones(len(b), 3),
    "one number": lambda b: pixels(b).sum(dim=1),
    "group norm": lambda b: nn.functional.group_norm(b.features, 1).flatten(1),
}
BAD: dict[str, Callable[[Batch], torch.Tensor]] = {
    "batch mean": lambda b: pixels(b) - pixels(b).mean(dim=0),
    "tiny batch mean": lambda b: 1e-9 * (pixels(b) - pixels(b).mean(dim=0)),
    "class mean": class_means,
    "batch size": lambda b: pixels(b) / len(b),
    "batch norm": lambda b: nn.functional.batch_norm(b.features, None, None, training=True),
    "flipped": lambda b: pixels(b).flip(0),
    "rolled": lambda b: pixels(b).roll(1, 0),
    "position": lambda b: pixels(b) * torch.arange(len(b))[:, None],
    "own noise": lambda b: pixels(b) + torch.randn(len(b), 16),
    "dropout": lambda b: nn.functional.dropout(pixels(b), 0.5, training=True),
}


@pytest.mark.parametrize("fn", GOOD.values(), ids=GOOD.keys())
def test_callbacks_that_treat_rows_alone_pass(
    batch: Batch, fn: Callable[[Batch], torch.Tensor]
) -> None:
    assert torch.equal(check_rows(fn, batch, "vector_of"), fn(batch))


@pytest.mark.parametrize("fn", BAD.values(), ids=BAD.keys())
def test_callbacks_that_mix_rows_are_refused(
    batch: Batch, fn: Callable[[Batch], torch.Tensor]
) -> None:
    with pytest.raises(PrivacyError, match="vector_of"):
        check_rows(fn, batch, "vector_of")


@pytest.mark.parametrize(
    "fn",
    [
        lambda b: pixels(b).sum(),
        lambda b: pixels(b)[:1],
        lambda b: pixels(b).repeat(2, 1),
        lambda b: pixels(b).squeeze(0),
        lambda b: pixels(b)[:, : len(b)],
    ],
    ids=["a number", "first row", "twice", "squeezed", "width follows rows"],
)
def test_values_of_another_form_are_refused(
    batch: Batch, fn: Callable[[Batch], torch.Tensor]
) -> None:
    with pytest.raises(PrivacyError):
        check_rows(fn, batch, "vector_of")


def test_values_that_are_not_finite_are_named_as_that(batch: Batch) -> None:
    with pytest.raises(PrivacyError, match="not finite"):
        check_rows(lambda b: pixels(b) / 0.0, batch, "vector_of")


def per_row(model: nn.Module, batch: Batch) -> torch.Tensor:
    return nn.functional.cross_entropy(model(batch.features), batch.labels, reduction="none")


LOSSES: dict[str, Callable[[nn.Module, Batch], torch.Tensor]] = {
    "cross entropy": per_row,
    "small": lambda m, b: 1e-7 * per_row(m, b),
    "large": lambda m, b: 1e7 * per_row(m, b),
    "no gradient": lambda _, b: pixels(b).sum(dim=1),
    "flat": lambda m, b: 0.0 * per_row(m, b),
}
MIXING: dict[str, Callable[[nn.Module, Batch], torch.Tensor]] = {
    "mean": lambda m, b: per_row(m, b).mean().expand(len(b)),
    "small mean": lambda m, b: 1e-7 * per_row(m, b).mean().expand(len(b)),
    "mean over batch": lambda m, b: per_row(m, b) / len(b),
    "contrast": lambda m, b: (m(b.features) @ m(b.features).T).sum(dim=1),
    # The values agree and only the gradients differ: company enters behind a detach.
    "gradient only": lambda m, b: (
        per_row(m, b) + (per_row(m, b).mean() - per_row(m, b).mean().detach())
    ),
    "own noise": lambda m, b: per_row(m, b) + torch.randn(len(b)),
    "scalar": lambda m, b: per_row(m, b).mean(),
    "two numbers": lambda m, b: m(b.features),
    "scalar alone": lambda m, b: per_row(m, b).squeeze(),
}


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES.keys())
def test_losses_by_row_pass(batch: Batch, loss: Callable[[nn.Module, Batch], torch.Tensor]) -> None:
    model = mlp()
    check_loss(lambda b: loss(model, b), list(model.parameters()), batch)
    assert all(p.grad is None for p in model.parameters())


@pytest.mark.parametrize("loss", MIXING.values(), ids=MIXING.keys())
def test_losses_over_the_batch_are_refused(
    batch: Batch, loss: Callable[[nn.Module, Batch], torch.Tensor]
) -> None:
    model = mlp()
    with pytest.raises(PrivacyError, match="the loss"):
        check_loss(lambda b: loss(model, b), list(model.parameters()), batch)


@pytest.mark.parametrize(
    "layer",
    [nn.BatchNorm1d(4), nn.BatchNorm2d(4), nn.SyncBatchNorm(4), nn.LazyBatchNorm2d()],
    ids=lambda layer: type(layer).__name__,
)
def test_batch_norm_is_refused_by_name(layer: nn.Module) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ModuleDict({"inner": layer}))
    with pytest.raises(PrivacyError, match=r"'1\.inner' .*GroupNorm"):
        refuse_mixing_layers([nn.Linear(1, 1), model])


def test_layers_that_keep_statistics_are_refused_by_name() -> None:
    with pytest.raises(PrivacyError, match=r"'0' .*track_running_stats=False"):
        refuse_mixing_layers([nn.Sequential(nn.InstanceNorm2d(4, track_running_stats=True))])
    refuse_mixing_layers([nn.InstanceNorm2d(4), nn.GroupNorm(1, 4), nn.LayerNorm(4)])


@pytest.mark.parametrize("rows", [2, TRIAL_ROWS, 64])
@pytest.mark.parametrize("soft", [False, True])
def test_random_rows_have_the_form_of_the_records_and_nothing_of_them(
    rows: int, soft: bool
) -> None:
    batches = [random_batch(records(5, seed=s, soft=soft), rows, CPU) for s in (1, 2)]
    assert torch.equal(batches[0].features, batches[1].features)
    assert torch.equal(batches[0].labels, batches[1].labels)
    assert batches[0].features.shape == (rows, 1, 4, 4)
    assert batches[0].labels.shape == ((rows, 3) if soft else (rows,))
    assert torch.equal(batches[0].labels[0], batches[0].labels[1])


@pytest.mark.parametrize("classes", [2, 3, 10])
@pytest.mark.parametrize("size", [4, 8, 32])
def test_random_rows_do_not_come_in_the_order_of_their_classes(classes: int, size: int) -> None:
    """Else a callback that sorts by class would leave them where they are, and pass."""
    schema = Schema((Attribute("label", tuple("abcdefghij"[:classes])),), label="label")
    like = Records(np.zeros((1, 3, size, size), np.uint8), {"label": np.zeros(1, int)}, schema)
    labels = random_batch(like, TRIAL_ROWS, CPU).labels
    assert not torch.equal(labels, labels.sort().values)
    assert not torch.equal(labels, labels.sort(descending=True).values)


def test_parameters_that_sleep_are_awake_for_a_while_only() -> None:
    layer = nn.Linear(4, 3)
    for dull in (0.0, 1e-9):
        asleep, lively = nn.Parameter(torch.full((3, 4), dull)), layer.weight.detach().clone()
        with zeros_randomised([asleep, layer.weight, nn.Parameter(torch.zeros(0))]):
            assert 0.05 < float(asleep.detach().std()) < 1.5
            assert torch.equal(layer.weight, lively), "this one shows enough as it is"
        assert torch.equal(asleep, torch.full((3, 4), dull)), "to the bit"
    with pytest.raises(KeyError), zeros_randomised([asleep]):
        raise KeyError
    assert torch.equal(asleep, torch.full((3, 4), dull)), "after an error too"


class Trials:
    """Trials that go as they are told to, and the numbers of the rows that were tried."""

    def __init__(self, *going_well: bool) -> None:
        self._going_well = list(going_well)
        self.made: list[int] = []

    def rows(self, number: int) -> Batch:
        return Batch(torch.full((1, 1), float(number)), {}, {}, None)

    def __call__(self, rows: Batch) -> None:
        self.made.append(int(rows.features))
        if not self._going_well[len(self.made) - 1]:
            raise PrivacyError("mixes")


def test_one_trial_is_enough_where_it_goes_well() -> None:
    trials = Trials(True)
    raise_unless_rounding(trials, trials.rows)
    assert trials.made == [0]


def test_what_fails_on_the_same_rows_alone_was_rounding() -> None:
    for going_well in ((True, True, True), (True, False, True)):
        trials = Trials(False, False, *going_well)
        raise_unless_rounding(trials, trials.rows)
        assert trials.made == [0, 0, 1, 2, 3]


def test_what_fails_two_more_trials_is_refused() -> None:
    for going_well in ((True, False, False), (False, True, False), (False, False, False)):
        trials = Trials(False, False, *going_well)
        with pytest.raises(PrivacyError, match="mixes"):
            raise_unless_rounding(trials, trials.rows)


def test_what_fails_now_and_then_is_refused() -> None:
    """Rounding would fail again on the same rows; a loss that mixes rows at times does not."""
    trials = Trials(False, True, True, True)
    with pytest.raises(PrivacyError, match="mixes"):
        raise_unless_rounding(trials, trials.rows)
    assert trials.made == [0, 0]
