"""The smallest useful method: the noisy mean image of each class, with noise around it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from safetensors.numpy import load_file, save_file

from understudy.data.records import Images, Records
from understudy.data.schema import Schema
from understudy.methods.conditions import condition_codes
from understudy.methods.config import setting
from understudy.methods.contract import Conditions, Context, Facts, PublicInputs
from understudy.methods.info import MethodInfo
from understudy.privacy.door.batch import Batch
from understudy.privacy.door.private_records import PrivateRecords
from understudy.privacy.plan.mechanisms import NoisySum
from understudy.privacy.plan.plan import Plan, Spend
from understudy.privacy.sums.clipping import Blocks


@dataclass(frozen=True)
class Config:
    """Settings of grey-mean."""

    spread: float = setting(0.2, "standard deviation of pixels around the mean", low=0.0, high=1.0)


class MeanImages:
    """Samples are the class's mean image with Gaussian noise on each pixel."""

    def __init__(self, means: torch.Tensor, spread: float, schema: Schema) -> None:
        label = schema.label_attribute
        self.schema = Schema((label,), label=label.name)
        self.means, self.spread = means, spread

    def sample(self, n: int, conditions: Conditions | None = None, seed: int = 0) -> Records:
        rng = np.random.default_rng(seed)
        labels = condition_codes(n, conditions, self.schema.attributes, seed)
        codes = labels[self.schema.label_attribute.name]
        around = self.means.numpy()[codes] + self.spread * rng.standard_normal(
            (n, *self.means.shape[1:])
        )
        pixels = (255 * around.clip(0, 1)).round().astype(np.uint8)
        return Images(pixels, labels, self.schema)

    def save(self, folder: Path) -> None:
        save_file({"means": self.means.numpy()}, folder / "means.safetensors")
        facts = {"spread": self.spread, "schema": self.schema.to_json()}
        (folder / "facts.json").write_text(json.dumps(facts))

    @classmethod
    def load(cls, folder: Path) -> MeanImages:
        facts = json.loads((folder / "facts.json").read_text())
        means = torch.from_numpy(load_file(folder / "means.safetensors")["means"])
        return cls(means, facts["spread"], Schema.from_json(facts["schema"]))


class GreyMean:
    """Guarantee: (epsilon, delta) of one Gaussian release under add-or-remove one unit."""

    info: ClassVar[MethodInfo] = MethodInfo(
        name="grey-mean",
        summary="one noisy mean image per class",
        paper="none: an example",
        family="one-shot features",
        mechanism="one Gaussian release of a clipped sum",
    )
    Config: ClassVar[type] = Config
    Output: ClassVar[type] = MeanImages

    def spend(self, config: Config, facts: Facts) -> Spend:
        del config, facts
        return lambda sigma: (NoisySum("means", clip=1.0, sigma=sigma),)

    def fit(
        self,
        config: Config,
        parts: Mapping[str, PrivateRecords],
        plan: Plan,
        public: PublicInputs,
        context: Context,
    ) -> MeanImages:
        del public, context
        private, planned = parts["train"], plan.mechanism("means")
        assert isinstance(planned, NoisySum)
        classes, pixels = len(private.schema.classes), int(np.prod(private.shape))

        def vector_of(batch: Batch) -> Blocks:
            return Blocks(batch.features.flatten(1) / pixels**0.5, batch.labels, classes)

        noisy = private.noisy_sum(vector_of, clip=planned.clip, sigma=planned.sigma)
        means = noisy.reshape(classes, *private.shape) * pixels**0.5 * classes / private.count
        return MeanImages(means.clamp(0, 1), config.spread, private.schema)
