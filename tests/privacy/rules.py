"""Checks of the rules, each a function from an empty folder to whether the rule holds.

They look at what runs through the door do, not at how; so each passes on the house as
it is and fails when one of the faults in `tests/mutants` is planted in it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from tests.privacy.rig import (
    Silence,
    classify,
    enter,
    flat_loss,
    frozen,
    gradient,
    handle,
    mlp,
    open_door,
    pixels,
    plan,
    records,
)
from understudy.data.records import Records
from understudy.privacy.door.batch import Batch
from understudy.privacy.door.door import Door
from understudy.privacy.door.replay_tape import Tape
from understudy.privacy.dpsgd.loss import Models
from understudy.privacy.dpsgd.speed import Speed
from understudy.privacy.ledger.account_book import Book
from understudy.privacy.ledger.ledger import read_ledger
from understudy.privacy.ledger.state import State
from understudy.privacy.noise.source import NoiseSource
from understudy.privacy.plan.mechanisms import (
    DPSGD,
    NoisySum,
)
from understudy.progress import Silent

Rule = Callable[[Path], bool]

CLIP = 0.5
SUM = NoisySum("sum", clip=CLIP, sigma=1.0)


def sgd(**changes: Any) -> DPSGD:
    fields = {"steps": 6, "rate": 0.5, "clip": CLIP, "sigma": 1.0, **changes}
    return DPSGD("sgd", **fields)


# Rule 1: secret randomness


def noise_is_secret(folder: Path) -> bool:
    """Two runs under one user's seed share no noise, no sample and no callback draw."""
    seen = []
    for name in ("one", "two"):
        torch.manual_seed(0)
        drawn: list[float] = []

        @frozen
        def loss(models: Models, batch: Batch, drawn: list[float] = drawn) -> torch.Tensor:
            drawn.append(torch.rand(1, dtype=torch.float64).item())
            return flat_loss(models, batch, {})

        planned = sgd(rate=0.5)
        private = handle(folder / name, records(64), planned, SUM, count=64)
        model = mlp()
        speed = Speed(backend="expanded")
        session = private.dp_sgd(private._door.plan, [model], loss, speed=speed)
        torch.manual_seed(0)
        session.step()
        who = private._door.noise.bernoulli(64, 0.5).tolist()
        private._door.checkpoint(State)
        total = private.noisy_sum(pixels, clip=CLIP, sigma=1.0)
        seen.append((set(gradient(model).tolist() + total.tolist()), who, set(drawn)))
    (noise, who, draws), (noise_too, who_too, draws_too) = seen
    # Of some hundred float32 values a few may meet by chance, never more than three.
    return len(noise & noise_too) < 4 and who != who_too and not draws & draws_too


def noise_differs_after_a_fork(folder: Path) -> bool:
    """A child process does not repeat the noise that its parent is about to draw."""
    door = open_door(folder, SUM)
    door.noise.normal(3)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, door.noised(torch.zeros(32), 1.0).numpy().tobytes())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        theirs = np.frombuffer(pipe.read())
    os.waitpid(child, 0)
    ours = door.noised(torch.zeros(32), 1.0).numpy()
    return theirs.size == 32 and not np.intersect1d(ours, theirs).size


# Rule 2: nothing leaks sideways


def method_sees_outputs_only(folder: Path) -> bool:
    """Replayed on other records, and more of them, a run looks the same to its method."""
    tape = Tape()
    first = _everything_a_method_sees(folder / "one", records(8, seed=1), tape)
    second = _everything_a_method_sees(folder / "two", records(40, seed=2), Tape.replay(tape))
    return first == second


class _Watching(Silent):
    """Progress that remembers what it was told to show."""

    def __init__(self) -> None:
        self.shown: list[object] = []

    def task(self, description: str, total: int | None = None) -> Any:
        self.shown.append((description, total))
        return self

    def __enter__(self) -> _Watching:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def advance(self, steps: int = 1) -> None:
        self.shown.append(steps)


def _everything_a_method_sees(folder: Path, data: Records, tape: Tape) -> list[object]:
    @frozen
    def drawing(models: Models, batch: Batch) -> torch.Tensor:
        return classify(models, batch, {}) + 0.0 * torch.rand(len(batch))

    torch.manual_seed(0)
    door = open_door(folder, sgd(), SUM, tape=tape)
    watching = _Watching()
    door.progress = watching  # type: ignore[assignment]
    private = enter(door, data, count=20)
    model, speed = mlp(), Speed(backend="expanded", micro_batch=4)
    session = private.dp_sgd(door.plan, [model], drawing, speed=speed)
    seen: list[object] = [str(private.noisy_sum(pixels, clip=CLIP, sigma=1.0).tolist())]
    for step in session.steps():
        seen += [step, session.step()]
        seen.append([(sorted(vars(p)), p.grad.tolist()) for p in model.parameters()])  # type: ignore
        door.checkpoint(State)
    public = sorted(k for k in (*vars(session), *vars(model)) if not k.startswith("_"))
    seen += [public, torch.rand(1).item(), [s for s in watching.shown if s != 0][:2]]
    return seen


def ledger_tells_no_more_than_the_plan(folder: Path) -> bool:
    """Two runs of one plan, on other records and at another pace, write the same lines."""
    told = []
    for name, count in (("one", 8), ("two", 40)):
        private = handle(folder / name, records(count), sgd(), count=20)
        speed = Speed(backend="vmap", micro_batch=4)
        session = private.dp_sgd(private._door.plan, [mlp()], classify, speed=speed)
        for _ in session.steps():
            session.step()
            private._door.checkpoint(State)
        entries = read_ledger(folder / name / "ledger.jsonl")
        told.append([(e.kind, e.body) for e in entries[1:]])
    return told[0] == told[1]


# Rule 3: declared denominators


def divisors_are_declared(folder: Path) -> bool:
    """Each record twice, under the same declared count, gives exactly twice the step."""
    once = records(6)
    out = []
    for name, data in (("one", once), ("two", once.select(np.repeat(np.arange(6), 2)))):
        private = handle(folder / name, data, sgd(), count=9, noise=Silence())
        model = mlp()
        speed = Speed(backend="vmap")
        private.dp_sgd(private._door.plan, [model], classify, speed=speed).step()
        out.append(gradient(model))
    return bool(torch.allclose(2 * out[0], out[1], rtol=1e-4))


# Rule 8: the account book


def the_book_knows_before_the_first_record_is_read(folder: Path) -> bool:
    """At the first look at a private record the whole plan stands in the owner's book."""
    from understudy.methods.info import MethodInfo
    from understudy.run.folder import RunFolder
    from understudy.run.public import PublicData
    from understudy.run.start import enter_and_execute

    book = Book.open("a test", home=folder / "home")
    run = RunFolder(folder / "run")
    run.path.mkdir(parents=True)
    run.write_plan(plan(SUM), {})
    known: list[bool] = []

    class Reading:
        info = MethodInfo("reading", "reads pixels", "none", "a test")

        def fit(self, _config: Any, parts: Any, planned: Any, *_: object) -> Any:
            def look(batch: Batch) -> torch.Tensor:
                runs = Book.open("a test", home=folder / "home").runs()
                known.append(planned.ident in [r.run_id for r in runs])
                return pixels(batch)

            parts["train"].noisy_sum(look, clip=CLIP, sigma=1.0)
            return SimpleNamespace(save=lambda _: None)

    prepared = SimpleNamespace(
        config=SimpleNamespace(device="cpu", seed=0, samples=5, limit=None),
        settings=SimpleNamespace(config=None),
        method=Reading(),
        parts={"train": records(5)},
        facts=SimpleNamespace(counts={"train": 5}),
        public=PublicData(),
    )
    enter_and_execute(prepared, run, book, NoiseSource(), Silent())  # type: ignore[arg-type]
    return bool(known) and all(known)


# The order that all rules stand on


def reserved_before_noise_and_committed_before_output(folder: Path) -> bool:
    """At every draw a reservation is on the disk; at every output its commit is."""
    path = folder / "run" / "ledger.jsonl"
    story: list[str] = []

    class Watched(NoiseSource):
        def normal(self, *arguments: Any, **named: Any) -> torch.Tensor:
            story.append(read_ledger(path)[-1].kind)
            return super().normal(*arguments, **named)

        def discrete_gaussian(self, *arguments: Any, **named: Any) -> torch.Tensor:
            story.append(read_ledger(path)[-1].kind)
            return super().discrete_gaussian(*arguments, **named)

    data = records(5)
    first = torch.from_numpy(data.features[0]).float() / 255

    def looked(batch: Batch) -> torch.Tensor:
        if torch.equal(batch.features[0], first):
            story.append(read_ledger(path)[-1].kind)
        return pixels(batch)

    door: Door = open_door(folder / "run", SUM, noise=Watched())
    enter(door, data).noisy_sum(looked, clip=CLIP, sigma=1.0)
    shown_after = read_ledger(path)[-1].kind
    return bool(story) and set(story) == {"reserve"} and shown_after == "commit"
