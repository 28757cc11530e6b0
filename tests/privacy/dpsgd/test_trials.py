"""What is tried on made-up records before private ones meet it: company, extremes, every block."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from tests.privacy.dpsgd.test_engine import (
    BACKENDS,
    CASES,
    Case,
    Traced,
    TwoLayers,
    engine_of,
)
from tests.privacy.rig import classify, frozen, handle, kinds, mlp, records
from understudy.errors import PrivacyError, RunFailed, UserError
from understudy.nets.per_example import choice as choice_module
from understudy.nets.per_example import functions
from understudy.privacy.door.batch import TRIAL_ROWS, Batch, extreme_batch
from understudy.privacy.dpsgd import trials as trials_module
from understudy.privacy.dpsgd.loss import Models, Values
from understudy.privacy.dpsgd.speed import Speed
from understudy.privacy.dpsgd.trials import RESERVE
from understudy.privacy.ledger.state import State
from understudy.privacy.plan.mechanisms import DPSGD

CPU = torch.device("cpu")


class Mixing(TwoLayers):
    """Adds so much of the batch's mean, in the precision of private steps alone."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        seen = self.first(images.flatten(1))
        if seen.dtype == torch.bfloat16:
            seen = seen + self.share * seen.float().mean(dim=0)
        return self.last(torch.tanh(seen))


@pytest.mark.parametrize("backend", ["expanded", "compiled"])
@pytest.mark.parametrize("share", [0.3, 0.03, 0.003, 3e-4])
def test_records_that_mix_a_little_in_low_precision_are_refused(
    backend: str, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tolerance on gradients lets one in twenty through; what one record moves others by does
    not."""
    monkeypatch.setattr(choice_module, "CompiledBackend", Traced)
    engine_of(Case(lambda: [Mixing(0.0)], classify), backend, records(6), precision="bfloat16")
    engine = engine_of(
        Case(lambda: [Mixing(share)], classify), backend, records(6), precision="bfloat16"
    )
    with pytest.raises(PrivacyError, match=r"each record's own|moves what the others add"):
        engine.run_trials({})


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("backend", ["expanded", "compiled"])
@pytest.mark.parametrize("share", [1e-2, 1e-4])
def test_a_kernel_that_adds_a_little_of_its_neighbour_is_refused(
    backend: str, precision: str, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choice_module, "CompiledBackend", Traced)
    right = functions.Linear.backward

    def leaking(ctx: Any, *slopes: torch.Tensor) -> Any:
        onwards, moved, shifted = right(ctx, *slopes)
        if moved is not None:
            moved = moved + (share * moved.float().roll(1, 0)).to(moved.dtype)
        return onwards, moved, shifted

    engine_of(CASES["mlp"], backend, records(6), precision=precision).run_trials({})
    monkeypatch.setattr(functions.Linear, "backward", staticmethod(leaking))
    engine = engine_of(CASES["mlp"], backend, records(6), precision=precision)
    with pytest.raises(PrivacyError, match=r"each record's own|moves what the others add"):
        engine.run_trials({})


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", ["mlp", "critic", "two models", "multiplicity"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_changing_one_record_moves_nothing_that_the_others_add(
    backend: str, name: str, precision: str
) -> None:
    """Bit for bit, as private steps compute it."""
    case = CASES[name]
    engine = engine_of(case, backend, records(13), precision=precision)
    engine.run_trials({})
    batch = engine._subject.random_rows(4)
    for changed in range(4):
        used = torch.arange(4) != changed
        other = trials_module.with_record_replaced(batch, changed, case.multiplicity)
        before = engine._others_sum(batch, {}, used).clone()
        assert torch.equal(engine._others_sum(other, {}, used), before)
        everybody = torch.ones(4, dtype=torch.bool)
        moved = engine._others_sum(other, {}, everybody) - engine._others_sum(batch, {}, everybody)
        assert 0 < float(moved.norm()) <= 2, "the changed record itself is summed"


@pytest.mark.parametrize(("moved", "refused"), [(RESERVE / 4, False), (RESERVE, True)])
def test_what_others_may_move_by_is_left_free_by_the_clip(moved: float, refused: bool) -> None:
    """Kernels may add in another order each time, within what the clip leaves free."""
    engine = engine_of(CASES["mlp"], "vmap", records(6))
    assert engine._clip == 0.5 * (1 - RESERVE)
    engine.run_trials({})
    right, calls = engine._others_sum, [0]

    def shaken(batch: Batch, values: Values, used: torch.Tensor) -> torch.Tensor:
        calls[0] += 1
        total = right(batch, values, used).clone()
        total[0] += moved * (calls[0] % 2)
        return total

    engine._others_sum = shaken  # type: ignore[method-assign]
    if refused:
        with pytest.raises(PrivacyError, match="moves what the others add"):
            engine.run_trials({})
    else:
        engine.run_trials({})
    assert calls[0] == 2


@pytest.mark.parametrize("share", [0, 0.5, 1])
def test_the_first_trial_changes_records_at_both_ends_and_between(share: float) -> None:
    """A kernel may mix in one place alone: in the last rows of a micro-batch, say."""
    engine = engine_of(CASES["mlp"], "vmap", records(6))
    right, place = engine._others_sum, min(int(share * engine._rows), engine._rows - 1)

    def mixing(batch: Batch, values: Values, used: torch.Tensor) -> torch.Tensor:
        own = right(batch, values, used)
        return own + 0.01 * batch.features[place].mean()

    engine._others_sum = mixing  # type: ignore[method-assign]
    with pytest.raises(PrivacyError, match="moves what the others add"):
        engine.run_trials({})


@pytest.mark.parametrize(("moved", "refused"), [(RESERVE / 4, False), (RESERVE, True)])
def test_others_that_move_a_little_everywhere_move_by_the_whole_length(
    moved: float, refused: bool
) -> None:
    """Each coordinate moves by far less than the reserve; the clip bounds their length together."""
    engine = engine_of(CASES["mlp"], "vmap", records(6))
    right, calls = engine._others_sum, [0]

    def shaken(batch: Batch, values: Values, used: torch.Tensor) -> torch.Tensor:
        calls[0] += 1
        total = right(batch, values, used).clone()
        return total + calls[0] % 2 * moved / len(total) ** 0.5

    engine._others_sum = shaken  # type: ignore[method-assign]
    if refused:
        with pytest.raises(PrivacyError, match="moves what the others add"):
            engine.run_trials({})
    else:
        engine.run_trials({})


def test_every_block_tries_other_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[torch.Tensor] = []
    check = trials_module.check_loss

    def watched(loss_of: Any, parameters: Any, batch: Batch) -> None:
        tried.append(batch.features)
        check(loss_of, parameters, batch)

    monkeypatch.setattr(trials_module, "check_loss", watched)
    planned = DPSGD("sgd", 8, rate=0.5, clip=0.5, sigma=1.0)
    private = handle(tmp_path, records(8), planned)
    model = mlp()
    session = private.dp_sgd(
        private._door.plan, [model], classify, speed=Speed(backend="vmap", block_steps=3)
    )
    for _ in session.steps():
        session.step()
        private._door.checkpoint(State)
    assert kinds(tmp_path).count("reserve") == 3
    assert [len(rows) for rows in tried] == [TRIAL_ROWS, 3, 3]
    assert not torch.equal(tried[1], tried[2])


@dataclass(frozen=True)
class Picky:
    """Cannot take a record that is one colour all over."""

    level: float

    def __call__(self, models: Models, batch: Batch, values: Values) -> torch.Tensor:
        if not torch._C._functorch.is_batchedtensor(batch.features):
            flat = batch.features.flatten(1)
            if bool(((flat - self.level).abs().amax(dim=1) < 1e-6).any()):
                raise ZeroDivisionError("no contrast")
        return classify(models, batch, values)


@pytest.mark.parametrize("level", [0.0, 1.0, 0.5])
def test_a_loss_that_fails_on_an_extreme_record_is_refused_beforehand(
    level: float, tmp_path: Path
) -> None:
    planned = DPSGD("sgd", 8, rate=0.5, clip=0.5, sigma=1.0)
    private = handle(tmp_path, records(8), planned)
    session = private.dp_sgd(private._door.plan, [mlp()], Picky(level))
    with pytest.raises(UserError, match=r"extreme record.*no contrast"):
        session.step()
    assert kinds(tmp_path) == ["plan"]


def test_extreme_records_are_black_white_grey_and_noise() -> None:
    batch = extreme_batch(records(3), 8, CPU)
    flat = batch.features.flatten(1)
    assert [float(row[0]) for row in flat[:3]] == [0.0, 1.0, 0.5]
    assert all(len(row.unique()) == 1 for row in flat[:3])
    assert len(flat[3].unique()) > 8
    assert torch.equal(flat[:3], flat[4:7])


def test_a_loss_that_fails_on_private_records_all_the_same_ends_the_run(tmp_path: Path) -> None:
    """It is charged, and neither resumed nor released; the method learns no more."""
    fails_at = [10**9]

    @frozen
    def failing(models: Models, batch: Batch) -> torch.Tensor:
        if len(batch) == fails_at[0]:
            raise ZeroDivisionError("somebody's picture")
        return classify(models, batch, {})

    planned = DPSGD("sgd", 8, rate=1.0, clip=0.5, sigma=1.0)
    private = handle(tmp_path, records(8), planned)
    speed = Speed(backend="expanded", micro_batch=5, block_steps=4)
    session = private.dp_sgd(private._door.plan, [mlp()], failing, speed=speed)
    session.step()
    private._door.checkpoint(State)
    fails_at[0] = 5
    with pytest.raises(RunFailed, match="ZeroDivisionError: somebody's picture"):
        session.step()
    with pytest.raises(PrivacyError, match="start a new run"):
        session.step()
    private._door.abandon()
    assert kinds(tmp_path) == ["plan", "reserve", "fail"]


def test_memory_that_runs_out_is_no_failure_of_a_callback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = DPSGD("sgd", 8, rate=1.0, clip=0.5, sigma=1.0)
    private = handle(tmp_path, records(8), planned)
    speed = Speed(backend="expanded", micro_batch=1)
    session = private.dp_sgd(private._door.plan, [mlp()], classify, speed=speed)
    session.step()
    private._door.checkpoint(State)

    def full(*_: object) -> Any:
        raise torch.OutOfMemoryError("a test")

    monkeypatch.setattr(type(session._engine._backend), "per_example", full)
    with pytest.raises(torch.OutOfMemoryError):
        session.step()
    assert "fail" not in kinds(tmp_path)


class Pooled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.inner = nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(16, 3)
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.inner(images)
        return found


def test_pooling_passes_its_trials_time_after_time() -> None:
    engine = engine_of(Case(lambda: [Pooled()], classify), "expanded", records(6))
    for _ in range(20):
        engine.run_trials({})
    assert engine.clipped_sum(np.arange(6), {}).units == 6
