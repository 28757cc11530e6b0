"""The smallest settings that pass through everything."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import torch

from understudy.data.records import Records
from understudy.methods.diffusion.feta_settings import FetaConfig
from understudy.methods.diffusion.pdp_diffusion import PdpConfig
from understudy.methods.diffusion.settings import DiffusionConfig
from understudy.privacy.door.batch import Batch

TINY: dict[str, Any] = {
    "steps": 4,
    "batch": 10,
    "multiplicity": 2,
    "width": 8,
    "multipliers": (1,),
    "blocks": (1,),
    "attention": (4,),
    "sampler": "heun",
    "sampling_steps": 3,
    "warm_up": 0,
}
_Config = TypeVar("_Config", bound=DiffusionConfig)
SMALL = DiffusionConfig(**TINY)
FETA = FetaConfig(**TINY, central_steps=3, central_batch=6, central_side=4, central_cells=2)
PDP = PdpConfig(**TINY, public_steps=3, public_batch=6)


def batch_of(records: Records, soft: bool = False) -> Batch:
    """All records of three classes, with codes or probabilities as labels."""
    images = torch.from_numpy(np.asarray(records.features)).float() / 255
    codes = torch.from_numpy(np.asarray(records.labels))
    labels = torch.nn.functional.one_hot(codes, 3).float() * 0.7 + 0.1 if soft else codes
    return Batch(images, {"label": labels}, {}, "label")


def learning(config: _Config) -> _Config:
    """Settings with which a few seconds teach what tells stripes apart."""
    longer = {"steps": 90, "batch": 60, "multiplicity": 4, "learning_rate": 1e-2, "average": 0.9}
    larger = {"width": 16, "patch": 1, "attention": (0,), "highest_level": 20.0}
    return replace(config, **longer, **larger, sampling_steps=18)  # type: ignore[type-var]


def share_like_their_class(made: Records, records: Records) -> float:
    """Of images that lie nearer to the mean of their own class than to that of any other."""
    means = np.stack([records.features[records.labels == c].mean(axis=0) for c in range(3)])
    apart = [np.abs(means - image).mean(axis=(1, 2, 3)) for image in made.features]
    return float((np.argmin(apart, axis=1) == made.labels).mean())
