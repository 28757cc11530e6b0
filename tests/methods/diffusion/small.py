"""The smallest settings that pass through everything."""

from __future__ import annotations

from typing import Any

from understudy.methods.diffusion.dp_feta import FetaConfig
from understudy.methods.diffusion.pdp_diffusion import PdpConfig
from understudy.methods.diffusion.settings import DiffusionConfig

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
