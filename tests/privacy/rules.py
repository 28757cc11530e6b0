"""Checks of the rules, each a function from an empty folder to whether the rule holds.

They look at what runs through the door do, not at how; so each passes on the house as
it is and fails when one of the faults in `faults.py` is planted in it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from scipy import stats
from torch import nn

from tests.privacy.rig import (
    Silence,
    classify,
    enter,
    flat_loss,
    gradient,
    handle,
    mlp,
    open_door,
    pixels,
    plan,
    records,
    vectors,
)
from understudy.data.records import Records
from understudy.privacy.account_book import Book
from understudy.privacy.batch import Batch
from understudy.privacy.door import Door
from understudy.privacy.ensemble import make_shards
from understudy.privacy.events import Gaussian
from understudy.privacy.ledger import read_ledger
from understudy.privacy.mechanisms import (
    DPSGD,
    EnsembleGradients,
    EnsembleVotes,
    Mechanism,
    NoisyHistogram,
    NoisySum,
)
from understudy.privacy.noise import NoiseSource
from understudy.privacy.speed import Speed
from understudy.privacy.state import State
from understudy.privacy.tape import Tape
from understudy.progress import Silent

Rule = Callable[[Path], bool]
Models = Sequence[Callable[..., torch.Tensor]]

CLIP = 0.5
SUM = NoisySum("sum", clip=CLIP, sigma=1.0)
BOUND = CLIP * (1 + 1e-6)


def sgd(**changes: Any) -> DPSGD:
    fields = {"steps": 6, "rate": 0.5, "clip": CLIP, "sigma": 1.0, **changes}
    return DPSGD("sgd", **fields)


def one_step(
    folder: Path,
    data: Records,
    count: int,
    noise: NoiseSource | None = None,
    models: Sequence[nn.Module] | None = None,
    loss: Callable[[Models, Batch], torch.Tensor] = classify,
    planned: DPSGD | None = None,
    draws: dict[str, tuple[int, ...]] | None = None,
) -> torch.Tensor:
    """What one step of DP-SGD releases, times the declared batch: the noisy sum."""
    private = handle(folder, data, planned or sgd(), count=count, noise=noise)
    session = private.dp_sgd(private._door.plan, Speed(backend="vmap", micro_batch=4))
    chosen = [mlp()] if models is None else models
    session.step(chosen, loss, draws=draws)
    private._door.checkpoint(State)
    return torch.cat([gradient(m) for m in chosen]).double() * session.expected_batch


# Rule 1: secret randomness


def noise_is_secret(folder: Path) -> bool:
    """Two runs under one user's seed share no noise, no sample and no callback draw."""
    seen = []
    for name in ("one", "two"):
        torch.manual_seed(0)
        drawn: list[float] = []

        def loss(models: Models, batch: Batch, drawn: list[float] = drawn) -> torch.Tensor:
            drawn.append(torch.rand(1, dtype=torch.float64).item())
            return flat_loss(models, batch)

        planned = sgd(rate=0.5)
        private = handle(folder / name, records(64), planned, SUM, count=64)
        session = private.dp_sgd(private._door.plan, Speed(backend="opacus"))
        model = mlp()
        torch.manual_seed(0)
        session.step([model], loss)
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
    def drawing(models: Models, batch: Batch) -> torch.Tensor:
        return classify(models, batch) + 0.0 * torch.rand(len(batch))

    torch.manual_seed(0)
    door = open_door(folder, sgd(), SUM, tape=tape)
    watching = _Watching()
    door.progress = watching  # type: ignore[assignment]
    private = enter(door, data, count=20)
    session = private.dp_sgd(door.plan, Speed(backend="opacus", micro_batch=4))
    model = mlp()
    seen: list[object] = [str(private.noisy_sum(pixels, clip=CLIP, sigma=1.0).tolist())]
    for step in session.steps():
        seen += [step, session.step([model], drawing)]
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
        session = private.dp_sgd(private._door.plan, Speed(backend="vmap", micro_batch=4))
        for _ in session.steps():
            session.step([mlp()], classify)
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
        private.dp_sgd(private._door.plan, Speed(backend="vmap")).step([model], classify)
        out.append(gradient(model))
    return bool(torch.allclose(2 * out[0], out[1], rtol=1e-4))


# Rule 4: padding, empty batches, the clip


def all_that_join_count_once(folder: Path) -> bool:
    """Micro-batches of four: sums over 1 to 9 records grow by one record at a time."""
    data = vectors(np.eye(9, dtype=np.float32))
    width = 9

    def ones(models: Models, batch: Batch) -> torch.Tensor:
        return models[0](batch.features).squeeze(1)

    for count in range(1, 10):
        model = nn.Linear(width, 1, bias=False)
        some = data.select(np.arange(count))
        total = one_step(folder / str(count), some, 9, Silence(), [model], ones)
        expected = torch.zeros(width, dtype=torch.float64)
        expected[:count] = CLIP
        if not torch.allclose(total, expected, atol=1e-6):
            return False
    return True


def empty_batches_get_noise(folder: Path) -> bool:
    """Nobody there: a step and a release have the noise that they always have."""
    total = torch.cat(
        [
            one_step(folder / "step", records(0), 20),
            handle(folder / "sum", records(0), SUM, count=20)
            .noisy_sum(lambda b: torch.zeros(len(b), 400), clip=CLIP, sigma=1.0)
            .double(),
        ]
    )
    spread = float((total / CLIP).pow(2).sum())
    below = stats.chi2.cdf(spread, df=len(total))
    return bool(2 * min(below, 1 - below) > 1e-6)


def one_unit_adds_at_most_the_clip(folder: Path) -> bool:
    """Two models, three draws, gradients of any size, poison: one unit, one clip."""
    draws = {"noise": (16,)}
    images = np.stack([np.full(16, v, dtype=np.float32) for v in (1.0, 1e4, 1e-4, np.nan, np.inf)])

    def loss(models: Models, batch: Batch) -> torch.Tensor:
        noised = batch.features + batch.draws["noise"]
        return 1e3 * (models[1](models[0](noised)) ** 2).sum(dim=1)

    norms = []
    for number, image in enumerate(images):
        models = [mlp(1, 16, 4), mlp(2, 4, 3)]
        total = one_step(
            folder / str(number),
            vectors(image[None]),
            5,
            _ManyDraws(),
            models,
            loss,
            sgd(multiplicity=3),
            draws,
        )
        norms.append(float(total.norm()))
    return all(np.isfinite(norms)) and max(norms) <= BOUND and max(norms) >= 0.999 * CLIP


class _ManyDraws(Silence):
    """Silent as noise, but callbacks get draws that differ widely."""

    def normal(
        self,
        shape: int | Sequence[int],
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> torch.Tensor:
        if dtype == torch.float64:
            return super().normal(shape, device, dtype)
        return torch.randn(shape, device=device, dtype=dtype)


# Rule 5: stable shards


def units_keep_their_shards(folder: Path) -> bool:
    """Without its first record, every other record is where it was."""
    del folder
    data = records(40)
    shards = [make_shards(d, d, 4, b"k" * 32) for d in (data, data.select(np.arange(1, 40)))]
    homes = [
        {record.tobytes(): number for number, shard in enumerate(each) for record in shard.features}
        for each in shards
    ]
    return all(homes[0][record] == home for record, home in homes[1].items())


# Rule 6: the unit


def a_person_counts_once_in_everything(folder: Path) -> bool:
    """One person with nine images: in a sum, a histogram and a step, at most one clip."""
    data = records(9, units=["ann"] * 9)
    histogram = NoisyHistogram("histogram", bins=3, sigma=1.0)
    private = handle(folder / "sums", data, SUM, histogram, noise=Silence())
    total = private.noisy_sum(pixels, clip=CLIP, sigma=1.0)
    counts = private.noisy_histogram(lambda b: b.labels, bins=3, sigma=1.0)
    step = one_step(folder / "step", data, 1, Silence())
    return (
        float(total.norm()) <= BOUND
        and float(counts.norm()) <= 1 + 1e-6
        and float(step.norm()) <= BOUND
    )


def a_person_joins_as_one(folder: Path) -> bool:
    """All images of a person are in a step, or none."""
    data = vectors(np.repeat(np.eye(6), 3, axis=0), [f"p{i // 3}" for i in range(18)])

    def ones(models: Models, batch: Batch) -> torch.Tensor:
        return models[0](batch.features).squeeze(1)

    for attempt in range(4):
        model = nn.Linear(6, 1, bias=False)
        planned = sgd(sigma=1e-6)
        total = one_step(folder / str(attempt), data, 6, None, [model], ones, planned)
        shares = (total / CLIP).round(decimals=3)
        if not set(shares.tolist()) <= {0.0, 1.0}:
            return False
    return True


# Rule 8: the account book


def the_book_knows_before_the_first_record_is_read(folder: Path) -> bool:
    """At the first look at a private record the whole plan stands in the owner's book."""
    from understudy.run.fit import fit
    from understudy.run.folder import RunFolder

    book = Book.open("a test", home=folder / "home")
    run = RunFolder(folder / "run")
    run.path.mkdir(parents=True)
    run.write_plan(plan(SUM), {})
    known: list[bool] = []

    class Reading:
        def fit(self, _config: Any, parts: Any, planned: Any, *_: object) -> Any:
            def look(batch: Batch) -> torch.Tensor:
                runs = Book.open("a test", home=folder / "home").runs()
                known.append(planned.ident in [r.run_id for r in runs])
                return pixels(batch)

            parts["train"].noisy_sum(look, clip=CLIP, sigma=1.0)
            return SimpleNamespace(save=lambda _: None)

    prepared = SimpleNamespace(
        config=SimpleNamespace(device="cpu", seed=0),
        settings=SimpleNamespace(config=None),
        method=Reading(),
        material=SimpleNamespace(parts={"train": records(5)}),
        facts=SimpleNamespace(counts={"train": 5}),
    )
    fit(prepared, run, book, NoiseSource(), Silent())  # type: ignore[arg-type]
    return bool(known) and all(known)


# Rule 9: aggregates and shards


class _Mean(nn.Module):
    def __init__(self, batch: Batch) -> None:
        super().__init__()
        self.mean = nn.Parameter(batch.features.flatten(1).sum(dim=0))


def aggregates_are_charged_for_a_replaced_shard(folder: Path) -> bool:
    """The noise of a gradient sum is sigma times what the worst neighbour moves it."""
    planned = EnsembleGradients("gradients", shards=1, queries=1, clip=CLIP, sigma=1.0)
    inputs = torch.zeros(400)

    def push(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return (x * model.mean[0]).sum()

    out = []
    for name, sign in (("one", 1.0), ("two", -1.0)):
        data = vectors(np.full((3, 2), sign))
        ensemble = handle(folder / name, data, planned, noise=Silence()).ensemble(1, _Mean)
        out.append(ensemble.noisy_gradients(inputs, push))
    moved = float((out[0] - out[1]).norm())
    ensemble = handle(folder / "noisy", vectors(np.ones((3, 2))), planned).ensemble(1, _Mean)
    noise = (ensemble.noisy_gradients(inputs, push) - out[0]).double()
    below = stats.chi2.cdf(float((noise / moved).pow(2).sum()), df=400)
    return bool(2 * min(below, 1 - below) > 1e-6)


def shards_get_no_discount(folder: Path) -> bool:
    """A query costs the same whether there are two shards or two hundred."""
    del folder
    for queries in (1, 7):
        costs = []
        for shards in (2, 200):
            asked: list[Mechanism] = [
                EnsembleVotes("votes", shards, queries, sigma=3.0),
                EnsembleGradients("gradients", shards, queries, clip=1.0, sigma=3.0),
            ]
            costs.append([m.events(queries) for m in asked])
        if costs != [[(Gaussian(3.0, queries),)] * 2] * 2:
            return False
    return True


# The order that all rules stand on


def reserved_before_noise_and_committed_before_output(folder: Path) -> bool:
    """At every draw a reservation is on the disk; at every output its commit is."""
    path = folder / "run" / "ledger.jsonl"
    story: list[str] = []

    class Watched(NoiseSource):
        def _words(self, count: int, device: torch.device) -> torch.Tensor:
            story.append(read_ledger(path)[-1].kind if path.exists() else "nothing")
            return super()._words(count, device)

    def looked(batch: Batch) -> torch.Tensor:
        if len(batch) > 100:
            story.append(read_ledger(path)[-1].kind)
        return pixels(batch)

    door: Door = open_door(folder / "run", SUM, noise=Watched())
    enter(door, records(5)).noisy_sum(looked, clip=CLIP, sigma=1.0)
    shown_after = read_ledger(path)[-1].kind
    return bool(story) and set(story) == {"reserve"} and shown_after == "commit"
