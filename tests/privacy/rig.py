"""A small rig for tests: random records behind a door, with any plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import make_dataclass
from pathlib import Path
from typing import cast

import numpy as np
import torch
from torch import nn

from understudy.audit.noise_tests import fits_normal as fits_noise
from understudy.data.records import Records
from understudy.data.schema import Attribute, Schema
from understudy.privacy.door.batch import Batch
from understudy.privacy.door.door import Door
from understudy.privacy.door.private_records import PrivateRecords
from understudy.privacy.door.replay_tape import Tape
from understudy.privacy.dpsgd.loss import Loss, Models, Values
from understudy.privacy.dpsgd.speed import Speed
from understudy.privacy.ledger.journal import Journal
from understudy.privacy.ledger.owner_log import OwnerLog
from understudy.privacy.ledger.state import State
from understudy.privacy.noise.source import NoiseSource
from understudy.privacy.plan.mechanisms import Mechanism
from understudy.privacy.plan.plan import Budget, Plan

__all__ = ["fits_noise"]
CLASSES = ("a", "b", "c")
KEY = b"k" * 32


def records(
    count: int,
    seed: int = 0,
    units: Sequence[str] | None = None,
    size: int = 4,
    soft: bool = False,
) -> Records:
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256, (count, 1, size, size), dtype=np.uint8)
    codes = rng.integers(0, len(CLASSES), count)
    probabilities = rng.dirichlet(np.ones(len(CLASSES)), count).astype(np.float32)
    return Records(
        images,
        {"label": probabilities if soft else codes},
        Schema((Attribute("label", CLASSES),), label="label"),
        None if units is None else np.asarray(units),
    )


def vectors(features: np.ndarray, units: Sequence[str] | None = None) -> Records:
    """Records whose features are these float vectors, all of class a."""
    return Records(
        np.asarray(features, dtype=np.float32),
        {"label": np.zeros(len(features), dtype=np.int64)},
        Schema((Attribute("label", CLASSES),), label="label"),
        None if units is None else np.asarray(units),
    )


def plan(*mechanisms: Mechanism) -> Plan:
    return Plan(
        budget=Budget.empirical(),
        mechanisms=mechanisms,
        epsilon=1e9,
        accountant="none: a test",
        ident=Plan.new_ident(),
    )


def open_door(
    folder: Path,
    *mechanisms: Mechanism,
    tape: Tape | None = None,
    noise: NoiseSource | None = None,
    shard_key: bytes = KEY,
) -> Door:
    """A door on a new run, or on the run that `folder` already holds."""
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / "ledger.jsonl").exists():
        journal = Journal.open(folder)
    else:
        journal = Journal.create(folder, plan(*mechanisms), {})
    return Door(
        journal,
        noise or NoiseSource(),
        owner_log=OwnerLog(folder / "owner.jsonl"),
        shard_key=shard_key,
        tape=tape,
    )


def enter(door: Door, data: Records, count: int | None = None) -> PrivateRecords:
    """A handle on part `train` of a door."""
    return door.handles({"train": data}, {"train": len(data) if count is None else count})["train"]


def handle(
    folder: Path,
    data: Records,
    *mechanisms: Mechanism,
    count: int | None = None,
    noise: NoiseSource | None = None,
) -> PrivateRecords:
    return enter(open_door(folder, *mechanisms, noise=noise), data, count)


def leave(door: Door) -> None:
    """Let go of the run folder, as the end of a process would."""
    door._journal.release_lock()


def kinds(folder: Path) -> list[str]:
    """The kinds of the ledger's lines, in order."""
    from understudy.privacy.ledger.ledger import read_ledger

    return [entry.kind for entry in read_ledger(folder / "ledger.jsonl")]


class Silence(NoiseSource):
    """Noise of size zero and everybody in every batch, to look at what is summed."""

    def normal(
        self,
        shape: int | Sequence[int],
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> torch.Tensor:
        return torch.zeros(shape, device=device, dtype=dtype)

    def discrete_gaussian(
        self, shape: int | Sequence[int], scale: int, device: torch.device | str = "cpu"
    ) -> torch.Tensor:
        del scale
        return torch.zeros(shape, device=device, dtype=torch.int64)

    def bernoulli(
        self, count: int, rate: float, device: torch.device | str = "cpu"
    ) -> torch.Tensor:
        del rate
        return torch.ones(count, dtype=torch.bool, device=device)


class Noting(NoiseSource):
    """True noise and true sampling; keeps who joined, and at which rate that was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.joined: list[torch.Tensor] = []
        self.asked: list[tuple[int, float]] = []

    def bernoulli(
        self, count: int, rate: float, device: torch.device | str = "cpu"
    ) -> torch.Tensor:
        joined = super().bernoulli(count, rate, device)
        self.joined.append(joined.cpu())
        self.asked.append((count, rate))
        return joined


def pixels(batch: Batch) -> torch.Tensor:
    return batch.features.flatten(1)


def mlp(seed: int = 0, inputs: int = 16, outputs: int = 3) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, 8), nn.Tanh(), nn.Linear(8, outputs))


def frozen(function: Callable[[Models, Batch], torch.Tensor]) -> Loss:
    """A loss without fields that computes this function, whatever that closes over."""

    def call(self: object, models: Models, batch: Batch, values: Values) -> torch.Tensor:
        del self, values
        return function(models, batch)

    made = make_dataclass(function.__name__, [], frozen=True, namespace={"__call__": call})
    return cast(Loss, made())


@frozen
def classify(models: Models, batch: Batch) -> torch.Tensor:
    return nn.functional.cross_entropy(models[0](batch.features), batch.labels, reduction="none")


@frozen
def flat_loss(models: Models, batch: Batch) -> torch.Tensor:
    """A loss whose gradient is exactly zero."""
    return 0.0 * models[0](batch.features).sum(dim=1)


def gradient(model: nn.Module) -> torch.Tensor:
    return torch.cat([p.grad.reshape(-1) for p in model.parameters() if p.grad is not None])


def snapshot_of(model: nn.Module) -> Callable[[], State]:
    return lambda: State(tensors=dict(model.state_dict()))


def train_steps(
    private: PrivateRecords,
    model: nn.Module,
    steps: int,
    loss: Loss = classify,
    speed: Speed | None = None,
) -> None:
    """Some DP-SGD steps as a method would make them."""
    door = private._door
    session = private.dp_sgd(door.plan, [model], loss, speed=speed)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        session.step()
        optimiser.step()
        door.checkpoint(snapshot_of(model))
