"""Ctrl-C, exceptions and full disks: at every moment the ledger tells what was shown."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from tests.privacy.ledger.deaths import every_death
from tests.privacy.rig import (
    classify,
    enter,
    frozen,
    handle,
    kinds,
    leave,
    mlp,
    open_door,
    pixels,
    records,
    snapshot_of,
    train_steps,
)
from understudy.errors import LostConnectionError, PrivacyError, RunFailed
from understudy.privacy.door.batch import Batch
from understudy.privacy.door.door import Door
from understudy.privacy.door.interrupts import DeferredInterrupt
from understudy.privacy.dpsgd.loss import Models
from understudy.privacy.dpsgd.speed import Speed
from understudy.privacy.ledger.ledger import read_ledger
from understudy.privacy.ledger.state import State
from understudy.privacy.ledger.story import spent_uses
from understudy.privacy.plan.mechanisms import DPSGD, NoisySum
from understudy.progress import Silent

SUM = NoisySum("sum", clip=1.0, sigma=2.0)
SGD = DPSGD("sgd", steps=20, rate=0.5, clip=1.0, sigma=1.0)
FAST = Speed(backend="vmap", block_steps=10)


@pytest.fixture(autouse=True)
def handler_is_put_back() -> Iterator[None]:
    before = signal.getsignal(signal.SIGINT)
    yield
    after = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, before)
    assert after == before, "the handler of SIGINT was not put back"


def ctrl_c() -> None:
    signal.raise_signal(signal.SIGINT)


def spent(folder: Path) -> dict[str, int]:
    return spent_uses(read_ledger(folder / "ledger.jsonl"))


def interrupted(work: Callable[[], object]) -> None:
    with pytest.raises(KeyboardInterrupt):
        work()


def test_the_first_waits_and_the_second_comes_through() -> None:
    deferred = DeferredInterrupt()
    deferred.begin()
    deferred.begin()
    ctrl_c()
    assert deferred.pending
    interrupted(ctrl_c)
    with deferred.uninterrupted():
        ctrl_c()
    deferred.end()
    deferred.end()
    interrupted(deferred.raise_if_pending)
    deferred.raise_if_pending()
    interrupted(ctrl_c)


def test_a_release_is_finished_and_kept_before_ctrl_c_counts(tmp_path: Path) -> None:
    def pressing(batch: Batch) -> torch.Tensor:
        if kinds(tmp_path)[-1] == "reserve":  # on private records, not in a trial
            ctrl_c()
        return pixels(batch)

    private = handle(tmp_path, records(5), SUM)
    interrupted(lambda: private.noisy_sum(pressing, clip=1.0, sigma=2.0))
    private._door.abandon()
    assert kinds(tmp_path) == ["plan", "reserve", "commit"]
    leave(private._door)
    again = enter(open_door(tmp_path), records(5))
    assert len(again.noisy_sum(pixels, clip=1.0, sigma=2.0)) == 16
    assert spent(tmp_path) == {"sum": 1}


def test_a_second_ctrl_c_stops_a_release_of_which_nothing_was_shown(tmp_path: Path) -> None:
    def pressing(batch: Batch) -> torch.Tensor:
        if kinds(tmp_path)[-1] == "reserve":  # on private records, not in a trial
            ctrl_c()
            ctrl_c()
        return pixels(batch)

    private = handle(tmp_path, records(5), SUM)
    interrupted(lambda: private.noisy_sum(pressing, clip=1.0, sigma=2.0))
    private._door.abandon()
    assert kinds(tmp_path) == ["plan", "reserve", "void"]
    leave(private._door)
    enter(open_door(tmp_path), records(5)).noisy_sum(pixels, clip=1.0, sigma=2.0)
    assert spent(tmp_path) == {"sum": 1}


def test_ctrl_c_between_steps_commits_them_at_the_next_checkpoint(tmp_path: Path) -> None:
    private, model = handle(tmp_path, records(8), SGD), mlp()
    train_steps(private, model, 3, speed=FAST)
    ctrl_c()
    session = private.dp_sgd(private._door.plan, [model], classify, speed=FAST)
    session.step()
    interrupted(lambda: private._door.checkpoint(snapshot_of(model)))
    private._door.abandon()
    assert spent(tmp_path) == {"sgd": 4}
    assert kinds(tmp_path) == ["plan", "reserve", "commit"]
    state = private._door.restore()
    assert state is not None
    assert torch.equal(state.tensors["1.weight"], model.state_dict()["1.weight"])


def test_a_second_ctrl_c_in_a_step_commits_the_steps_before_it(tmp_path: Path) -> None:
    private, model = handle(tmp_path, records(8), SGD), mlp()
    train_steps(private, model, 3, speed=FAST)
    ctrl_c()

    @frozen
    def pressing(models: Models, batch: Batch) -> torch.Tensor:
        if armed:
            ctrl_c()
        return classify(models, batch, {})

    armed = torch.tensor(False)
    session = private.dp_sgd(private._door.plan, [model], pressing, speed=FAST)
    session._engine.run_trials({})
    armed.fill_(True)
    private._door.noise.bernoulli = lambda n, *_: torch.ones(n, dtype=torch.bool)  # type: ignore
    interrupted(session.step)
    private._door.abandon()
    assert spent(tmp_path) == {"sgd": 3}
    assert kinds(tmp_path) == ["plan", "reserve", "commit"]
    state = private._door.restore()
    assert state is not None, "three steps are paid for and lost"
    assert torch.equal(state.tensors["1.weight"], model.state_dict()["1.weight"])
    with pytest.raises(PrivacyError):
        session.step()


def test_no_ctrl_c_comes_through_a_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pressed again and again while the disk is written: the commit is whole."""
    from understudy.privacy.ledger import journal, state

    private, model = handle(tmp_path, records(8), SGD), mlp()
    session = private.dp_sgd(private._door.plan, [model], classify, speed=FAST)
    session.step()
    for module, name in (
        (journal, "sync_folder"),
        (journal, "write_durably"),
        (state, "save_state"),
    ):
        original = getattr(module, name)

        def pressing(*arguments: object, original: Callable[..., object] = original) -> object:
            ctrl_c()
            return original(*arguments)

        monkeypatch.setattr(module, name, pressing)
    private._door._interrupt.pending = True
    interrupted(lambda: private._door.checkpoint(snapshot_of(model)))
    assert spent(tmp_path) == {"sgd": 1}
    assert kinds(tmp_path) == ["plan", "reserve", "commit"]


def test_ctrl_c_in_the_last_block_is_heard_after_it_is_kept(tmp_path: Path) -> None:
    private = handle(tmp_path, records(8), SGD)
    train_steps(private, mlp(), 3, speed=FAST)
    ctrl_c()
    interrupted(private._door.settle)
    assert spent(tmp_path) == {"sgd": 3}


def test_an_exhausted_plan_leaves_ctrl_c_as_it_was(tmp_path: Path) -> None:
    private = handle(tmp_path, records(8), DPSGD("sgd", 1, rate=0.5, clip=1.0, sigma=1.0))
    train_steps(private, mlp(), 1)
    with pytest.raises(PrivacyError, match="beyond the plan"):
        train_steps(private, mlp(), 1)
    interrupted(ctrl_c)


def test_an_exception_in_the_method_charges_the_steps_shown(tmp_path: Path) -> None:
    private, model = handle(tmp_path, records(8), SGD), mlp()
    train_steps(private, model, 2, speed=FAST)
    session = private.dp_sgd(private._door.plan, [model], classify, speed=FAST)
    session.step()  # shown, and the method fails before its checkpoint
    heard = private._door.progress = Heard()
    private._door.abandon()
    assert spent(tmp_path) == {"sgd": 3}
    assert kinds(tmp_path) == ["plan", "reserve", "commit"]
    assert heard.lines == [
        "the last 3 private steps are charged, and what they taught is lost: a resumed run goes "
        "on from before them."
    ]
    assert private._door.restore() is None
    private._door.abandon()
    assert kinds(tmp_path) == ["plan", "reserve", "commit"]


@pytest.mark.parametrize("failure", [KeyboardInterrupt, SystemExit, MemoryError])
def test_whatever_a_snapshot_raises_the_steps_shown_are_charged(
    tmp_path: Path, failure: type[BaseException]
) -> None:
    private, model = handle(tmp_path, records(8), SGD), mlp()
    train_steps(private, model, 3, speed=FAST)

    def failing() -> State:
        raise failure

    private._door.checkpoint(failing)
    if issubclass(failure, Exception):
        private._door.abandon()
    else:
        with pytest.raises(failure):
            private._door.abandon()
    assert kinds(tmp_path) == ["plan", "reserve", "commit"], "shown, and free in the next process"
    assert spent(tmp_path) == {"sgd": 3}


def test_a_third_ctrl_c_does_not_come_between_state_and_charge(tmp_path: Path) -> None:
    private, model = handle(tmp_path, records(8), SGD), mlp()
    train_steps(private, model, 3, speed=FAST)
    ctrl_c()

    def pressing() -> State:
        ctrl_c()
        return snapshot_of(model)()

    private._door._snapshot = pressing
    private._door.abandon()
    assert kinds(tmp_path) == ["plan", "reserve", "commit"]
    assert private._door.restore() is not None


class Cancelled(BaseException):
    """As asyncio raises one of its own: no Exception, and nobody's Ctrl-C."""


def test_whatever_a_callback_raises_ends_the_run(tmp_path: Path) -> None:
    """What is no Exception passes by those who catch one; a method must not go on after it."""
    private = handle(tmp_path, records(8), NoisySum("sum", 1.0, 1.0), NoisySum("next", 1.0, 1.0))

    def failing(batch: Batch) -> torch.Tensor:
        if len(batch) > 200 and private._door._journal.ledger.open_block is not None:
            raise Cancelled("on private records")
        return pixels(batch)

    with pytest.raises(RunFailed, match="Cancelled: on private records"):
        private.noisy_sum(failing, 1.0, 1.0)
    assert kinds(tmp_path) == ["plan", "reserve", "fail"]
    with pytest.raises(PrivacyError, match="start a new run"):
        private.noisy_sum(pixels, 1.0, 1.0)


def test_an_exception_in_a_loss_ends_the_run_and_its_block_is_charged(tmp_path: Path) -> None:
    private, model = handle(tmp_path, records(8), SGD), mlp()
    train_steps(private, model, 2, speed=FAST)
    armed = torch.tensor(False)

    @frozen
    def failing(models: Models, batch: Batch) -> torch.Tensor:
        if armed:
            raise ArithmeticError("on private records")
        return classify(models, batch, {})

    session = private.dp_sgd(private._door.plan, [model], failing, speed=FAST)
    session._engine.run_trials({})
    armed.fill_(True)
    private._door.noise.bernoulli = lambda n, *_: torch.ones(n, dtype=torch.bool)  # type: ignore
    before = {k: v.clone() for k, v in model.state_dict().items()}
    with pytest.raises(RunFailed, match="ArithmeticError: on private records"):
        session.step()
    assert kinds(tmp_path) == ["plan", "reserve", "fail"]
    assert spent(tmp_path) == {"sgd": 10}, "a block that was reserved is spent"
    assert all(torch.equal(before[k], v) for k, v in model.state_dict().items())
    with pytest.raises(PrivacyError, match="start a new run"):
        private._door.settle()


@pytest.mark.parametrize(
    "failure", [OSError, FileNotFoundError, TimeoutError, ConnectionError, BrokenPipeError]
)
def test_trouble_outside_that_one_record_met_is_a_callbacks_failure(
    failure: type[Exception], tmp_path: Path
) -> None:
    """Only the team's own lost connection is not: whether a callback reads a file or asks another
    machine may depend on the record before it."""
    private = handle(tmp_path, records(5), SUM)

    def failing(batch: Batch) -> torch.Tensor:
        if kinds(tmp_path)[-1] == "reserve":  # on private records, not in a trial
            raise failure("on private records")
        return pixels(batch)

    with pytest.raises(RunFailed, match="on private records"):
        private.noisy_sum(failing, clip=1.0, sigma=2.0)
    private._door.abandon()
    assert kinds(tmp_path) == ["plan", "reserve", "fail"], "a run that can be resumed"


def test_a_process_that_ends_is_no_failure_of_a_callback(tmp_path: Path) -> None:
    private = handle(tmp_path, records(5), SUM)

    def lost() -> torch.Tensor:
        raise LostConnectionError("a process of the team has ended")

    with pytest.raises(LostConnectionError):
        private._door.release(SUM, 1, lost, 2.0)
    private._door.abandon()
    assert kinds(tmp_path) == ["plan", "reserve", "void"]


class Heard(Silent):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)


class FullDisk:
    """Refuses the n-th durable write of a journal, and every one after it."""

    def __init__(self, patch: pytest.MonkeyPatch, after: int) -> None:
        self.left = after
        for place in ("journal.write_durably", "state.write_durably", "ledger.append_durably"):
            original = _find(place)
            patch.setattr(f"understudy.privacy.ledger.{place}", self._limited(original))

    def _limited(self, write: Callable[..., None]) -> Callable[..., None]:
        def limited(*arguments: object, **named: object) -> None:
            if self.left <= 0:
                raise OSError(28, "No space left on device")
            self.left -= 1
            write(*arguments, **named)

        return limited


def _find(place: str) -> Callable[..., None]:
    from understudy.privacy.ledger import journal, ledger, state

    module, name = place.split(".")
    found: Callable[..., None] = getattr(
        {"journal": journal, "ledger": ledger, "state": state}[module], name
    )
    return found


@pytest.mark.parametrize("writes", range(6))
def test_a_full_disk_at_any_write_of_a_release(tmp_path: Path, writes: int) -> None:
    """Reserve, two files of outputs, the commit, the ledger line: refused at each of them."""
    private = handle(tmp_path, records(5), SUM)
    shown = None
    with pytest.MonkeyPatch.context() as patch:
        FullDisk(patch, writes)
        try:
            shown = private.noisy_sum(pixels, clip=1.0, sigma=2.0)
        except OSError:
            with pytest.raises(PrivacyError):
                private.noisy_sum(pixels, clip=1.0, sigma=2.0)
        private._door.abandon()
    leave(private._door)
    again = enter(open_door(tmp_path), records(5))
    assert not list((tmp_path / "checkpoints").glob(".pending*"))
    out = again.noisy_sum(pixels, clip=1.0, sigma=2.0)
    assert shown is None or torch.equal(shown, out)
    assert (shown is not None) == (writes == 5)
    assert spent(tmp_path) == {"sum": 1}


@pytest.mark.parametrize("writes", range(5))
def test_a_full_disk_at_any_write_of_a_block_of_steps(tmp_path: Path, writes: int) -> None:
    """The method cannot go on and cannot finish; a new process can."""
    private, model = handle(tmp_path, records(8), SGD), mlp()
    speed = Speed(backend="vmap", block_steps=2)
    session = private.dp_sgd(private._door.plan, [model], classify, speed=speed)
    with pytest.MonkeyPatch.context() as patch:
        FullDisk(patch, writes)
        with pytest.raises(OSError, match="No space"):
            _two_steps(session, private._door, model)
        for ask in (lambda: _two_steps(session, private._door, model), private._door.settle):
            if writes:
                with pytest.raises(PrivacyError, match=r"saved|settle"):
                    ask()
        private._door.abandon()
    leave(private._door)
    again = enter(open_door(tmp_path), records(8))
    session = again.dp_sgd(again._door.plan, [model], classify)
    left = session.mechanism.steps - session.steps_done
    train_steps(again, model, left)
    again._door.settle()
    assert spent(tmp_path) == {"sgd": 20}


def _two_steps(session: object, door: Door, model: torch.nn.Module) -> None:
    for _ in range(2):
        session.step()  # type: ignore[attr-defined]
        door.checkpoint(snapshot_of(model))


def test_a_state_that_cannot_be_written_still_charges_its_steps(tmp_path: Path) -> None:
    """The model was shown; a notebook may still hold it."""
    private, model = handle(tmp_path, records(8), SGD), mlp()
    speed = Speed(backend="vmap", block_steps=1)
    session = private.dp_sgd(private._door.plan, [model], classify, speed=speed)
    session.step()
    with pytest.raises(TypeError):
        private._door.checkpoint(lambda: State(values={"not json": object()}))
    private._door.abandon()
    assert spent(tmp_path) == {"sgd": 1}
    assert kinds(tmp_path) == ["plan", "reserve", "commit"]


def test_dying_anywhere_in_a_run_and_resuming_ends_at_the_plan(tmp_path: Path) -> None:
    """One release and four steps, dead at every touch of the disk, then resumed to the end."""
    folder = tmp_path / "run"
    four = DPSGD("sgd", steps=4, rate=0.5, clip=1.0, sigma=1.0)
    living: list[Door] = []

    def work() -> None:
        door = open_door(folder, SUM, four)
        living.append(door)
        private = enter(door, records(8))
        private.noisy_sum(pixels, clip=1.0, sigma=2.0)
        speed = Speed(backend="vmap", block_steps=2)
        session = private.dp_sgd(door.plan, [mlp()], classify, speed=speed)
        left = session.mechanism.steps - session.steps_done
        train_steps(private, mlp(), left, speed=speed)
        door.settle()

    def bury() -> None:
        while living:
            door = living.pop()
            door._interrupt.end()
            leave(door)

    def fresh() -> None:
        bury()
        shutil.rmtree(folder, ignore_errors=True)

    voids = 0
    for _ in every_death(work, fresh, stride=4):
        bury()
        work()
        assert spent(folder) == {"sum": 1, "sgd": 4}
        assert not list((folder / "checkpoints").glob(".pending*"))
        voids += kinds(folder).count("void")
    assert voids > 0
    bury()
