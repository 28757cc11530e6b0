"""Methods that do wrong, each in one way, around the smallest method that does right.

`Honest` releases one noisy sum and learns nothing more; `HonestSteps` takes a few steps of
DP-SGD. Every class below differs from one of them by one mistake.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from torch import nn

from understudy.data.records import Images, Records
from understudy.data.schema import Schema
from understudy.methods.config import setting
from understudy.methods.contract import Conditions, Context, Facts, PublicInputs
from understudy.methods.info import MethodInfo
from understudy.privacy.door.batch import Batch
from understudy.privacy.door.private_records import PrivateRecords
from understudy.privacy.dpsgd.loss import Loss, Models, Values
from understudy.privacy.dpsgd.speed import Speed
from understudy.privacy.ledger.state import State
from understudy.privacy.plan.mechanisms import DPSGD, Mechanism, NoisySum
from understudy.privacy.plan.plan import Plan, Spend

PIXELS = 64


@dataclass(frozen=True)
class Settings:
    brightness: float = setting(0.5, "of every sample", low=0.0, high=1.0)


class Flat:
    """A synthesizer of one grey level, which `level` decides."""

    def __init__(self, level: float, schema: Schema, note: float = 0.0) -> None:
        self.level, self.schema, self.note = level, schema, note

    def sample(self, n: int, conditions: Conditions | None = None, seed: int = 0) -> Records:
        rng = np.random.default_rng(seed)
        codes = rng.integers(0, 3, n) if conditions is None else np.asarray(conditions["label"])
        pixels = np.full((n, 1, 8, 8), int(255 * min(1.0, max(0.0, self.level))), np.uint8)
        pixels[:, 0, 0, 0] = rng.integers(0, 256, n)
        return Images(pixels, {"label": codes}, self.schema)

    def save(self, folder: Path) -> None:
        state = {"level": self.level, "schema": self.schema.to_json(), "note": self.note}
        (folder / "flat.json").write_text(json.dumps(state))

    @classmethod
    def load(cls, folder: Path) -> Flat:
        state = json.loads((folder / "flat.json").read_text())
        return cls(state["level"], Schema.from_json(state["schema"]), state["note"])


def described(name: str) -> MethodInfo:
    return MethodInfo(
        name=name,
        summary="the mean grey level",
        paper="made up for a test",
        family="test",
        mechanism="one noisy sum",
    )


class Honest:
    """One noisy sum of the images, divided by the declared count."""

    info: ClassVar[MethodInfo] = described("honest")
    Config: ClassVar[type] = Settings
    Output: ClassVar[type] = Flat

    def spend(self, config: Settings, facts: Facts) -> Spend:
        del config, facts
        return lambda sigma: (NoisySum("sum", clip=1.0, sigma=sigma),)

    def vector_of(self, batch: Batch) -> torch.Tensor:
        return batch.features.flatten(1) / PIXELS**0.5

    def fit(
        self,
        config: Settings,
        parts: Mapping[str, PrivateRecords],
        plan: Plan,
        public: PublicInputs,
        context: Context,
    ) -> Flat:
        del public, context
        planned = plan.mechanism("sum")
        assert isinstance(planned, NoisySum)
        noisy = parts["train"].noisy_sum(self.vector_of, clip=planned.clip, sigma=planned.sigma)
        level = float(noisy.sum() / PIXELS**0.5 / parts["train"].count)
        return self.result(level * config.brightness, parts["train"].schema)

    def result(self, level: float, schema: Schema) -> Flat:
        return Flat(level, schema)


@dataclass(frozen=True)
class Squared:
    def __call__(self, models: Models, batch: Batch, values: Values) -> torch.Tensor:
        del values
        guess = models[0](batch.features.flatten(1)).squeeze(1)
        return (guess - batch.labels.float()) ** 2


@dataclass(frozen=True)
class Stashing(Squared):
    """A mistake that Python cannot prevent: what it sees goes where it must not, as numbers; a
    tensor that is kept would be refused beforehand."""

    image: ClassVar[list[list[float]]] = []
    value: ClassVar[list[float]] = []

    def __call__(self, models: Models, batch: Batch, values: Values) -> torch.Tensor:
        found = super().__call__(models, batch, values)
        self.image[:] = [batch.features[0].detach().flatten().tolist()]
        self.value[:] = [float(found.detach().mean())]
        return found


@dataclass(frozen=True)
class Centred(Squared):
    def __call__(self, models: Models, batch: Batch, values: Values) -> torch.Tensor:
        del values
        guess = models[0](batch.features.flatten(1)).squeeze(1)
        return (guess - guess.mean() - batch.labels.float()) ** 2


class HonestSteps(Honest):
    """Three steps of DP-SGD on a linear model."""

    info: ClassVar[MethodInfo] = described("honest-steps")
    backend: ClassVar[str] = "auto"
    loss: ClassVar[Loss] = Squared()

    def spend(self, config: Settings, facts: Facts) -> Spend:
        del config
        rate = 16 / facts.counts["train"]
        return lambda sigma: (DPSGD("steps", 3, rate, 1.0, sigma),)

    def fit(
        self,
        config: Settings,
        parts: Mapping[str, PrivateRecords],
        plan: Plan,
        public: PublicInputs,
        context: Context,
    ) -> Flat:
        del public, config
        model = nn.Linear(PIXELS, 1)
        nn.init.zeros_(model.weight)
        nn.init.zeros_(model.bias)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        speed = Speed(backend=self.backend)
        sgd = parts["train"].dp_sgd(plan, [model], self.loss, speed=speed, name="steps")
        for _ in sgd.steps():
            sgd.step()
            optimizer.step()
            context.checkpoint(lambda: self.snapshot(model))
        return self.result(float(model.weight.detach().sum()), parts["train"].schema)

    def snapshot(self, model: nn.Module) -> State:
        return State(tensors=dict(model.state_dict()))


class KeepsARecord(Honest):
    """The vector callback remembers the last image that it saw."""

    info: ClassVar[MethodInfo] = described("keeps-a-record")

    def vector_of(self, batch: Batch) -> torch.Tensor:
        self.last = batch.features[0].clone()
        return super().vector_of(batch)


class SavesARecord(Honest):
    """The same, and it goes into the saved files."""

    info: ClassVar[MethodInfo] = described("saves-a-record")
    _seen = 0.0

    def vector_of(self, batch: Batch) -> torch.Tensor:
        type(self)._seen = float(batch.features[0].sum())
        return super().vector_of(batch)

    def result(self, level: float, schema: Schema) -> Flat:
        return Flat(level, schema, note=type(self)._seen)


class CheckpointsARecord(HonestSteps):
    """A record travels in a checkpoint, which is kept on the disk."""

    info: ClassVar[MethodInfo] = described("checkpoints-a-record")
    backend: ClassVar[str] = "expanded"  # under vmap a batch has no values to keep
    loss: ClassVar[Loss] = Stashing()

    def snapshot(self, model: nn.Module) -> State:
        return State(tensors={**model.state_dict(), "last": torch.tensor(Stashing.image[0])})


class WritesARecord(Honest):
    """A cache in the method's own folder that holds what no cache may hold."""

    info: ClassVar[MethodInfo] = described("writes-a-record")

    def fit(
        self,
        config: Settings,
        parts: Mapping[str, PrivateRecords],
        plan: Plan,
        public: PublicInputs,
        context: Context,
    ) -> Flat:
        raw = parts["train"]._records.features[0]  # a mistake that Python cannot prevent
        (context.folder / "cache.bin").write_bytes(raw.tobytes())
        return super().fit(config, parts, plan, public, context)


class ReadsALoss(HonestSteps):
    """Stops pulling when the loss on private records looks good: a choice nobody paid for."""

    info: ClassVar[MethodInfo] = described("reads-a-loss")
    backend: ClassVar[str] = "expanded"  # under vmap a loss has no value to read
    loss: ClassVar[Loss] = Stashing()

    def result(self, level: float, schema: Schema) -> Flat:
        (watched,) = Stashing.value
        return Flat(level if watched < 1.0 else level / 2, schema, note=watched)


class MixesRecords(HonestSteps):
    """Centres each guess by the mean over the batch: a record's gradient knows its company."""

    info: ClassVar[MethodInfo] = described("mixes-records")
    loss: ClassVar[Loss] = Centred()


class MixesInTheSum(Honest):
    """The same mistake in a vector callback."""

    info: ClassVar[MethodInfo] = described("mixes-in-the-sum")

    def vector_of(self, batch: Batch) -> torch.Tensor:
        flat = batch.features.flatten(1)
        return (flat - flat.mean(dim=0)) / PIXELS**0.5


class CountsCalls(Honest):
    """How often the callback is called tells how many records there are."""

    info: ClassVar[MethodInfo] = described("counts-calls")

    def __init__(self) -> None:
        self.calls = 0

    def vector_of(self, batch: Batch) -> torch.Tensor:
        self.calls += 1
        return super().vector_of(batch)


class DrawsInTheCallback(Honest):
    """Its own generator moves on with every call, and decides the result."""

    info: ClassVar[MethodInfo] = described("draws-in-the-callback")

    def __init__(self) -> None:
        self._random = np.random.default_rng(0)

    def vector_of(self, batch: Batch) -> torch.Tensor:
        self._random.random()
        return super().vector_of(batch)

    def result(self, level: float, schema: Schema) -> Flat:
        return Flat(level, schema, note=float(self._random.random()))


class ImportsScipy(Honest):
    """Needs a package that a bare GPU image does not have, when it fits."""

    info: ClassVar[MethodInfo] = described("imports-scipy")

    def result(self, level: float, schema: Schema) -> Flat:
        from scipy.special import expit

        return Flat(float(expit(level)), schema)


class Overspends(Honest):
    """Asks for the sum twice; the plan says once."""

    info: ClassVar[MethodInfo] = described("overspends")

    def fit(
        self,
        config: Settings,
        parts: Mapping[str, PrivateRecords],
        plan: Plan,
        public: PublicInputs,
        context: Context,
    ) -> Flat:
        super().fit(config, parts, plan, public, context)
        return super().fit(config, parts, plan, public, context)


class TakesMoreSteps(HonestSteps):
    """One step more than was planned."""

    info: ClassVar[MethodInfo] = described("takes-more-steps")

    def fit(
        self,
        config: Settings,
        parts: Mapping[str, PrivateRecords],
        plan: Plan,
        public: PublicInputs,
        context: Context,
    ) -> Flat:
        flat = super().fit(config, parts, plan, public, context)
        model = nn.Linear(PIXELS, 1)
        parts["train"].dp_sgd(plan, [model], self.loss, name="steps").step()
        return flat


class PlansAndDoesNot(Honest):
    """Plans a release that it never makes: the claim would describe another method."""

    info: ClassVar[MethodInfo] = described("plans-and-does-not")

    def spend(self, config: Settings, facts: Facts) -> Spend:
        first = super().spend(config, facts)

        def planned(sigma: float) -> Sequence[Mechanism]:
            return (*first(sigma), NoisySum("unused", clip=1.0, sigma=sigma))

        return planned


class LessNoiseCostsLess(Honest):
    """Its spending does not depend on the noise that calibration turns."""

    info: ClassVar[MethodInfo] = described("less-noise-costs-less")

    def spend(self, config: Settings, facts: Facts) -> Spend:
        del config, facts
        return lambda sigma: (NoisySum("sum", clip=1.0, sigma=2.0 + 0 * sigma),)


class IgnoresLabels(Honest):
    """Samples whatever classes it likes."""

    info: ClassVar[MethodInfo] = described("ignores-labels")

    class _Flat(Flat):
        def sample(self, n: int, conditions: Conditions | None = None, seed: int = 0) -> Records:
            del conditions
            return super().sample(n, None, seed)

    def result(self, level: float, schema: Schema) -> Flat:
        return self._Flat(level, schema)


class ForgetsWhenSaved(Honest):
    """What is loaded samples other records than what was saved."""

    info: ClassVar[MethodInfo] = described("forgets-when-saved")

    class _Flat(Flat):
        def save(self, folder: Path) -> None:
            Flat(0.0, self.schema).save(folder)

    def result(self, level: float, schema: Schema) -> Flat:
        return self._Flat(0.9 + 0 * level, schema)


class FlatOfTheClass(Flat):
    """Samples as bright as the class remembers, which no file of it says."""

    remembered: ClassVar[float] = 0.0

    def sample(self, n: int, conditions: Conditions | None = None, seed: int = 0) -> Records:
        return Flat(type(self).remembered, self.schema).sample(n, conditions, seed)


class KeepsAMeanInTheClass(Honest):
    """What the callback saw reaches the samples of this process, past every attribute."""

    info: ClassVar[MethodInfo] = described("keeps-a-mean-in-the-class")
    Output: ClassVar[type] = FlatOfTheClass

    def vector_of(self, batch: Batch) -> torch.Tensor:
        FlatOfTheClass.remembered = float(batch.features.mean())
        return super().vector_of(batch)

    def result(self, level: float, schema: Schema) -> Flat:
        return FlatOfTheClass(level, schema)


class KeepsANumpyNumber(Honest):
    """A mean kept as a number that is no Python float."""

    info: ClassVar[MethodInfo] = described("keeps-a-numpy-number")

    def vector_of(self, batch: Batch) -> torch.Tensor:
        self.seen = np.float32(batch.features.mean())
        return super().vector_of(batch)


class KeepsAQueue(Honest):
    """The last means, in a container that is no list."""

    info: ClassVar[MethodInfo] = described("keeps-a-queue")

    def vector_of(self, batch: Batch) -> torch.Tensor:
        self.seen = deque([float(batch.features.mean())], maxlen=5)
        return super().vector_of(batch)
