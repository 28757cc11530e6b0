"""DP-SGD: who joins a step, what noise it gets, what comes out, and what is charged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

from tests.privacy.rig import (
    Silence,
    classify,
    enter,
    fits_noise,
    flat_loss,
    frozen,
    gradient,
    handle,
    kinds,
    leave,
    mlp,
    open_door,
    records,
    snapshot_of,
    train_steps,
)
from understudy.audit.noise_tests import ALPHA
from understudy.errors import PrivacyError, UserError
from understudy.privacy.door.batch import Batch, Draws
from understudy.privacy.door.private_records import PrivateRecords
from understudy.privacy.dpsgd.loss import Loss, Models
from understudy.privacy.dpsgd.session import DPSGDSession
from understudy.privacy.dpsgd.speed import Speed
from understudy.privacy.ledger.journal import Journal
from understudy.privacy.ledger.ledger import read_ledger
from understudy.privacy.ledger.owner_log import read_owner_log
from understudy.privacy.ledger.state import State
from understudy.privacy.ledger.story import spent_uses
from understudy.privacy.plan.mechanisms import DPSGD, NoisySum
from understudy.progress import Silent


def planned(**changes: object) -> DPSGD:
    fields = {"steps": 400, "rate": 0.3, "clip": 0.5, "sigma": 2.0, **changes}
    return DPSGD("sgd", **fields)  # type: ignore[arg-type]


FAST = Speed(backend="vmap", block_steps=1000)


def session_of(
    private: PrivateRecords,
    model: nn.Module,
    loss: Loss = classify,
    speed: Speed = FAST,
    draws: Draws | None = None,
) -> DPSGDSession:
    return private.dp_sgd(private._door.plan, [model], loss, draws, speed)


def take(session: DPSGDSession, model: nn.Module, steps: int = 1) -> list[torch.Tensor]:
    """The gradients of some steps at which the model stands still."""
    out = []
    for _ in range(steps):
        session.step()
        out.append(gradient(model))
        session._door.checkpoint(State)
    return out


def joined(private: PrivateRecords, steps: int) -> np.ndarray:
    """Which units took part in each step: watched behind the door."""
    model = mlp()
    session = session_of(private, model, flat_loss)
    seen: list[np.ndarray] = []
    bernoulli = session._door.noise.bernoulli

    def watching(count: int, rate: float, device: torch.device | str = "cpu") -> torch.Tensor:
        seen.append(bernoulli(count, rate, device).numpy())
        return torch.zeros(count, dtype=torch.bool)

    session._door.noise.bernoulli = watching  # type: ignore[method-assign, assignment]
    take(session, model, steps)
    return np.stack(seen).astype(float)


def test_every_unit_joins_every_step_on_its_own(tmp_path: Path) -> None:
    """Mean, spread and pairs of 40 units over 400 steps, as independent draws have them."""
    units = [f"p{i % 40}" for i in range(100)]
    private = handle(tmp_path, records(100, units=units), planned())
    took_part = joined(private, 400)
    assert took_part.shape == (400, 40)
    rate, tests = 0.3, []
    tests.append(stats.binomtest(int(took_part.sum()), took_part.size, rate).pvalue)
    sizes = took_part.sum(axis=1)
    spread = np.sum((sizes - 40 * rate) ** 2) / (40 * rate * (1 - rate))
    tests.append(2 * min(stats.chi2.cdf(spread, 400), stats.chi2.sf(spread, 400)))
    pairs = np.corrcoef(took_part.T)[np.triu_indices(40, k=1)]
    tests.append(pairs.size * 2 * stats.norm.sf(np.abs(pairs).max() * np.sqrt(400)))
    later = [np.corrcoef(took_part[:-1, i], took_part[1:, i])[0, 1] for i in range(40)]
    tests.append(40 * 2 * stats.norm.sf(np.abs(later).max() * np.sqrt(399)))
    assert min(tests) > ALPHA / len(tests)


@pytest.mark.parametrize("rate", [1e-9, 0.3], ids=["nobody joins", "some join"])
def test_noise_has_the_planned_size_also_when_nobody_joins(tmp_path: Path, rate: float) -> None:
    """On a loss without gradient all that comes out is noise."""
    private = handle(tmp_path, records(20), planned(rate=rate, steps=100), count=50)
    model = mlp()
    session = session_of(private, model, flat_loss)
    values = torch.cat(take(session, model, 100)).double().numpy()
    deviation = 2.0 * 0.5 / (rate * 50)
    assert values.size > 15_000
    assert fits_noise(values, deviation)
    assert not fits_noise(values, deviation * 1.1)
    assert not fits_noise(values, deviation / 1.1)


def test_no_records_at_all_give_noise(tmp_path: Path) -> None:
    private = handle(tmp_path, records(0), planned(steps=100), count=50)
    model = mlp()
    values = torch.cat(take(session_of(private, model), model, 100)).double().numpy()
    assert fits_noise(values, 2.0 * 0.5 / (0.3 * 50))


def test_noise_is_fresh_at_every_step_and_coordinate(tmp_path: Path) -> None:
    private = handle(tmp_path, records(20), planned(steps=50))
    model = mlp()
    values = torch.cat(take(session_of(private, model, flat_loss), model, 50))
    assert len(torch.unique(values)) > 0.999 * len(values)


@pytest.mark.parametrize("units", [None, [f"p{i % 3}" for i in range(12)]])
def test_the_step_is_the_clipped_sum_over_the_declared_size(
    tmp_path: Path, units: Sequence[str] | None
) -> None:
    """Without noise and with everybody in: sums over what is there, divided by what is declared."""
    data, model = records(12, units=units), mlp()
    private = handle(tmp_path, data, planned(steps=1), count=1000, noise=Silence())
    (released,) = take(session_of(private, model), model)
    total = torch.zeros(len(released), dtype=torch.float64)
    names = [str(i) for i in range(12)] if units is None else list(units)
    for name in sorted(set(names)):
        vector = torch.zeros_like(total)
        for row in (i for i, n in enumerate(names) if n == name):
            images = torch.from_numpy(data.features[row : row + 1]).float() / 255
            labels = torch.from_numpy(data.attributes["label"][row : row + 1])
            value = nn.functional.cross_entropy(model(images), labels)
            grads = torch.autograd.grad(value, list(model.parameters()))
            vector += torch.cat([g.reshape(-1) for g in grads]).double()
        total += vector * min(1.0, 0.5 / float(vector.norm()))
    assert torch.allclose(released.double(), total / (0.3 * 1000), rtol=1e-4, atol=1e-8)


def test_the_divisor_is_declared_not_realised(tmp_path: Path) -> None:
    """Twice the records under the same declaration: twice the sum, the same divisor."""
    steps = []
    for copies in (1, 2):
        one = records(5)
        data = one.select(np.tile(np.arange(5), copies))
        private = handle(tmp_path / str(copies), data, planned(steps=1), count=7, noise=Silence())
        model = mlp()
        session = session_of(private, model)
        assert session.expected_batch == pytest.approx(0.3 * 7)
        steps += take(session, model)
    assert torch.allclose(2 * steps[0], steps[1], rtol=1e-5)


def test_public_gradients_are_added_outside_clip_and_noise(tmp_path: Path) -> None:
    private = handle(tmp_path, records(5), planned(steps=2), noise=Silence())
    model = mlp()
    session = session_of(private, model)
    public = [torch.full_like(p, 1e6) for p in model.parameters()]
    (without,) = take(session, model)
    session.step(public_grads=public)
    assert torch.allclose(gradient(model), without + 1e6)
    for wrong in (public[:-1], [torch.ones(1) for _ in public]):
        with pytest.raises(UserError, match="public_grads"):
            session.step(public_grads=wrong)


def test_draws_belong_to_rows_and_come_from_the_door(tmp_path: Path) -> None:
    seen: list[torch.Tensor] = []

    @frozen
    def watching(models: Models, batch: Batch) -> torch.Tensor:
        if len(batch) == 12:
            seen.append(
                torch.stack([batch.draws["noise"][:, 0, 0, 0], batch.draws["uniform time"]])
            )
        out = models[0](batch.features + batch.draws["noise"])
        return out.sum(dim=1) + batch.draws["uniform time"]

    private = handle(tmp_path, records(4), planned(steps=3, multiplicity=3), count=14, noise=None)
    private._door.noise.bernoulli = lambda n, *_: torch.ones(n, dtype=torch.bool)  # type: ignore
    draws: Draws = {"noise": (1, 4, 4), "uniform time": ()}
    session = session_of(private, mlp(), watching, Speed(backend="expanded"), draws)
    session._engine.run_trials({})
    session._engine.run_trials = lambda _: None  # type: ignore[method-assign]
    seen.clear()
    for _ in range(2):
        torch.manual_seed(0)
        session.step()
        private._door.checkpoint(State)
    drawn = torch.cat([s[0] for s in seen])
    assert len(drawn) == 24
    assert len(torch.unique(drawn)) == len(drawn)
    times = torch.cat([s[1] for s in seen])
    assert float(times.min()) >= 0
    assert float(times.max()) < 1


def test_a_plan_cannot_be_overdrawn(tmp_path: Path) -> None:
    private = handle(tmp_path, records(5), planned(steps=3))
    model = mlp()
    session = session_of(private, model)
    take(session, model, steps=3)
    assert session.steps_done == session.mechanism.steps == 3
    with pytest.raises(PrivacyError, match="beyond the plan"):
        session.step()
    assert list(session.steps()) == []
    assert spent_uses(read_ledger(tmp_path / "ledger.jsonl")) == {"sgd": 3}


def test_a_failing_checkpoint_buys_no_extra_step(tmp_path: Path) -> None:
    """A block that is full is committed before another step, whatever the method catches."""
    private = handle(tmp_path, records(5), planned(steps=3))
    model = mlp()
    session = session_of(private, model)

    def broken() -> State:
        raise RuntimeError("the method's own fault")

    for _ in range(2):
        take(session, model)
    session.step()
    with pytest.raises(RuntimeError, match="own fault"):
        private._door.checkpoint(broken)
    with pytest.raises((PrivacyError, RuntimeError)):
        session.step()
    private._door.abandon()
    assert spent_uses(read_ledger(tmp_path / "ledger.jsonl")) == {"sgd": 3}


def test_every_step_needs_its_checkpoint(tmp_path: Path) -> None:
    private = handle(tmp_path, records(5), planned())
    session = session_of(private, mlp())
    session.step()
    with pytest.raises(PrivacyError, match="checkpoint"):
        session.step()
    with pytest.raises(PrivacyError, match="checkpoint"):
        private._door.settle()
    private._door.checkpoint(State)
    session.step()


def test_training_goes_on_from_the_last_commit(tmp_path: Path) -> None:
    """Killed in a block: the state of the last commit, its steps charged, the rest not."""
    speed = Speed(backend="vmap", block_steps=4)
    private = handle(tmp_path, records(8), planned(steps=10))
    model = mlp()
    train_steps(private, model, 4, speed=speed)
    kept = {k: v.clone() for k, v in model.state_dict().items()}
    train_steps(private, model, 3, speed=speed)
    leave(private._door)

    again = enter(open_door(tmp_path), records(8))
    assert kinds(tmp_path)[-1] == "void"
    state = again._door.restore()
    assert state is not None
    assert all(torch.equal(kept[k], state.tensors[k]) for k in kept)
    session = session_of(again, model, speed=speed)
    assert (session.steps_done, session.mechanism.steps) == (4, 10)
    model.load_state_dict(dict(state.tensors))
    train_steps(again, model, 6, speed=speed)
    again._door.settle()
    assert spent_uses(read_ledger(tmp_path / "ledger.jsonl")) == {"sgd": 10}
    assert kinds(tmp_path).count("void") == 1


def test_a_finished_training_can_be_opened_and_has_nothing_to_do(tmp_path: Path) -> None:
    private = handle(tmp_path, records(8), planned(steps=2))
    train_steps(private, mlp(), 2, speed=FAST)
    leave(private._door)
    again = enter(open_door(tmp_path), records(8))
    assert list(session_of(again, mlp()).steps()) == []
    assert again._door.restore() is not None


def test_stopping_early_leaves_the_plan_as_it_was(tmp_path: Path) -> None:
    private = handle(tmp_path, records(8), planned(steps=10))
    before = private._door.plan
    train_steps(private, mlp(), 3, speed=FAST)
    private._door.settle()
    entries = read_ledger(tmp_path / "ledger.jsonl")
    assert spent_uses(entries) == {"sgd": 3}
    assert private._door.plan == before
    assert before.events()[0].count == 10  # type: ignore[union-attr]


def test_two_phases_share_a_door(tmp_path: Path) -> None:
    """A release between steps settles the open block first."""
    private = handle(tmp_path, records(8), planned(steps=10), NoisySum("sum", clip=1.0, sigma=1.0))
    train_steps(private, mlp(), 3, speed=FAST)
    private.noisy_sum(lambda b: b.features.flatten(1), clip=1.0, sigma=1.0)
    train_steps(private, mlp(), 7, speed=FAST)
    private._door.settle()
    assert kinds(tmp_path) == ["plan", *["reserve", "commit"] * 3]
    assert spent_uses(read_ledger(tmp_path / "ledger.jsonl")) == {"sgd": 10, "sum": 1}


def test_a_plan_of_another_run_is_refused(tmp_path: Path) -> None:
    private = handle(tmp_path / "one", records(5), planned())
    other = handle(tmp_path / "two", records(5), planned())
    with pytest.raises(PrivacyError, match="not the run's plan"):
        private.dp_sgd(other._door.plan, [mlp()], classify)


def test_a_refused_loss_touches_nothing(tmp_path: Path) -> None:
    private = handle(tmp_path, records(5), planned())
    model = mlp()
    calls: list[int] = []

    @frozen
    def mean_loss(models: Models, batch: Batch) -> torch.Tensor:
        calls.append(len(batch))
        return classify(models, batch, {}).mean().expand(len(batch))

    with pytest.raises(PrivacyError, match="mixes"):
        session_of(private, model, mean_loss).step()
    assert calls, "it was tried on random data"
    assert kinds(tmp_path) == ["plan"]
    assert all(p.grad is None for p in model.parameters())
    take(session_of(private, model), model)


def test_block_lengths_do_not_follow_the_time_that_private_steps_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Time tells how many records were drawn, and the ledger shows the blocks."""
    monkeypatch.setattr("understudy.privacy.door.steps._BLOCK_SECONDS", 1.0)
    monkeypatch.setattr("understudy.privacy.dpsgd.engine.time_of", lambda work, _: work() and 0.25)
    clock = iter(range(10**6))
    for module in ("time.monotonic", "time.perf_counter", "time.time"):
        monkeypatch.setattr(module, lambda: 100.0 * next(clock))
    blocks = []
    for seed in (1, 2):
        folder = tmp_path / str(seed)
        private = handle(folder, records(10 * seed, seed=seed), planned(steps=9), count=10)
        speed = Speed(backend="vmap", micro_batch=3)
        train_steps(private, mlp(), 9, speed=speed)
        entries = read_ledger(folder / "ledger.jsonl")
        blocks.append([e.body["uses"] for e in entries if e.kind == "commit"])
    assert blocks[0] == blocks[1] == [4, 4, 1]


def test_what_the_owner_may_see_goes_to_the_owner_when_committed(tmp_path: Path) -> None:
    private = handle(tmp_path, records(8), planned(steps=10))
    model = mlp()
    take(session_of(private, model), model, steps=3)
    assert list(read_owner_log(tmp_path / "owner.jsonl")) == []
    private._door.settle()
    rows = list(read_owner_log(tmp_path / "owner.jsonl"))
    assert [row["step"] for row in rows] == [0, 1, 2]
    assert set(rows[0]) == {"mechanism", "step", "loss", "units", "clipped"}
    assert (tmp_path / "owner.jsonl").stat().st_mode & 0o777 == 0o600


def test_the_bar_moves_with_commits_only(tmp_path: Path) -> None:
    class Bar:
        def __init__(self) -> None:
            self.at = 0
            self.opened: list[tuple[str, int | None]] = []

        def task(self, description: str, total: int | None = None) -> Bar:
            self.opened.append((description, total))
            return self

        def __enter__(self) -> Bar:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def advance(self, steps: int = 1) -> None:
            self.at += steps

    private = handle(tmp_path, records(8), planned(steps=6))
    bar = private._door.progress = Bar()  # type: ignore[assignment]
    model = mlp()
    session = session_of(private, model, speed=Speed(backend="vmap", block_steps=3))
    shown = []
    for _ in session.steps():
        session.step()
        private._door.checkpoint(snapshot_of(model))
        shown.append(bar.at)  # type: ignore[attr-defined]
    assert shown == [0, 0, 3, 3, 3, 6]
    # One bar more while the loss is new, which is once.
    assert bar.opened == [("training", 6), ("checking the loss", None)]  # type: ignore[attr-defined]


def test_a_journal_is_the_same_whichever_backend_ran(tmp_path: Path) -> None:
    told = []
    for backend in ("vmap", "expanded"):
        folder = tmp_path / backend
        private = handle(folder, records(8), planned(steps=4))
        train_steps(private, mlp(), 4, speed=Speed(backend=backend))
        leave(private._door)
        told.append([(e.kind, e.body) for e in Journal.open(folder).ledger.entries[1:]])
    assert told[0] == told[1]


class Heard(Silent):
    """Progress that keeps all that it is told."""

    def __init__(self) -> None:
        self.told: list[object] = []

    @contextmanager
    def task(self, description: str, total: int | None = None) -> Iterator[Heard]:
        self.told.append((description, total))
        yield self

    def advance(self, steps: int = 1) -> None:
        self.told.append(steps)

    def note(self, text: str) -> None:
        self.told.append(text)

    def say(self, line: str) -> None:
        self.told.append(line)


@frozen
def refuses_white(models: Models, batch: Batch) -> torch.Tensor:
    """Not a number for a picture that is white all over."""
    white = batch.features.flatten(1).amin(dim=1) >= batch.features.new_tensor(1.0)
    return classify(models, batch, {}) * torch.where(white, torch.nan, 1.0)


@pytest.mark.parametrize("backend", ["vmap", "expanded"])
def test_how_many_gradients_are_not_finite_is_told_to_nobody(tmp_path: Path, backend: str) -> None:
    """Neither in words nor in the ledger; and they add nothing."""
    heard, ledgers, released = [], [], []
    for white in (0, 1, 3):
        data, folder = records(8), tmp_path / str(white)
        data.features[:white] = 255
        private = handle(folder, data, planned(steps=2), noise=Silence())
        door, model = private._door, mlp()
        door.progress = Heard()
        session = session_of(private, model, refuses_white, Speed(backend=backend, block_steps=2))
        for _ in session.steps():
            session.step()
            door.checkpoint(snapshot_of(model))
        released.append(gradient(model))
        heard.append(door.progress.told)
        ledgers.append([(e.kind, sorted(e.body)) for e in read_ledger(folder / "ledger.jsonl")])
        door.settle()
    assert heard[0] == heard[1] == heard[2], "somebody heard of gradients that are not finite"
    assert ledgers[0] == ledgers[1] == ledgers[2]
    assert all(torch.isfinite(gradients).all() for gradients in released)
    assert float((released[0] - released[1]).norm()) * 0.3 * 8 <= 0.5
