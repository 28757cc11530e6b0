"""A small bench for tests: a method fitted end to end through the real door."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from understudy.data.records import Records
from understudy.data.schema import Attribute, Schema
from understudy.methods.contract import Facts, PublicInputs, Sampler
from understudy.privacy.door.door import Door
from understudy.privacy.ledger.journal import Journal
from understudy.privacy.ledger.state import State
from understudy.privacy.noise.source import NoiseSource
from understudy.privacy.plan.plan import Budget, Plan
from understudy.progress import Progress, Silent

CLASSES = ("a", "b", "c")
SCHEMA = Schema((Attribute("label", CLASSES),), label="label")


def stripes(count: int, seed: int = 0, channels: int = 1, size: int = 8) -> Records:
    """Images whose bright rows tell the class, so that there is something to learn."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, len(CLASSES), count)
    images = rng.integers(0, 60, (count, channels, size, size), dtype=np.uint8)
    for image, label in zip(images, labels, strict=True):
        image[:, 2 * label : 2 * label + 3] += 180
    return Records(images, {"label": labels}, SCHEMA)


def facts_of(records: Records, count: int | None = None) -> Facts:
    declared = len(records) if count is None else count
    return Facts(declared, {"train": declared}, records.shape, records.schema)


def plan_for(method: Any, config: Any, facts: Facts, sigma: float = 1.0) -> Plan:
    """A plan with a given noise multiplier, uncalibrated."""
    mechanisms = tuple(method.spend(config, facts)(sigma))
    return Plan(Budget.empirical(), mechanisms, 1e9, "none: a test", Plan.new_ident())


class BenchContext:
    """What a run lends to a method, with every staged state counted."""

    def __init__(self, door: Door, seed: int = 0) -> None:
        self.door = door
        self.device = torch.device("cpu")
        self.seed = seed
        self.folder = door.scratch
        self.progress: Progress = Silent()
        self.staged = 0

    def checkpoint(self, snapshot: Callable[[], State]) -> None:
        self.staged += 1
        self.door.checkpoint(snapshot)

    def restore(self) -> State | None:
        return self.door.restore()


class Bench:
    """One run folder; opening it again goes on with the same plan."""

    def __init__(self, folder: Path, plan: Plan, noise: NoiseSource | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        begun = (folder / "ledger.jsonl").exists()
        self.journal = Journal.open(folder) if begun else Journal.create(folder, plan, {})
        self.door = Door(self.journal, noise or NoiseSource(), shard_key=b"k" * 32)
        self.context = BenchContext(self.door)

    def fit(
        self,
        method: Any,
        config: Any,
        records: Records,
        count: int | None = None,
        public: PublicInputs | None = None,
    ) -> Sampler:
        declared = len(records) if count is None else count
        parts = self.door.handles({"train": records}, {"train": declared})
        result = method.fit(
            config, parts, self.journal.plan, public or PublicInputs(), self.context
        )
        assert isinstance(result, Sampler)
        self.door.settle()
        return result

    def close(self) -> None:
        self.door.abandon()
        self.journal.release_lock()
