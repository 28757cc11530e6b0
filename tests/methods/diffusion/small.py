"""The smallest settings that pass through everything."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from understudy.data.records import Records
from understudy.methods.diffusion.feta_settings import FetaConfig
from understudy.methods.diffusion.pdp_diffusion import PdpConfig
from understudy.methods.diffusion.settings import DiffusionConfig
from understudy.privacy.batch import Batch

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
SMALL = DiffusionConfig(**TINY)
FETA = FetaConfig(**TINY, central_steps=3, central_batch=6, central_side=4, central_cells=2)
PDP = PdpConfig(**TINY, public_steps=3, public_batch=6)


def batch_of(records: Records, soft: bool = False) -> Batch:
    """All records of three classes, with codes or probabilities as labels."""
    images = torch.from_numpy(np.asarray(records.features)).float() / 255
    codes = torch.from_numpy(np.asarray(records.labels))
    labels = torch.nn.functional.one_hot(codes, 3).float() * 0.7 + 0.1 if soft else codes
    return Batch(images, {"label": labels}, {}, "label")
