"""Local mechanisms: every record leaves with noise of its own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from understudy.data.records import Records
from understudy.errors import UserError
from understudy.privacy.clipping import clip_rows


@dataclass(frozen=True)
class LocalNoise:
    """Each record's features, clipped to L2 norm `radius`, with Gaussian noise added.

    Guarantee, per record under replace-one: two clipped records differ by at most
    `2 * radius`; the door adds noise of standard deviation `sigma * 2 * radius` to every
    coordinate. Event: one local Gaussian with multiplier `sigma`. Attributes stay behind.
    """

    radius: float
    sigma: float

    def __call__(self, records: Records) -> Records:
        del records
        raise UserError("a local mechanism draws its noise behind the door: use transform.")

    def clipped(self, records: Records) -> torch.Tensor:
        """Features as float, each record's vector at L2 norm at most `radius`."""
        scale = 255.0 if records.is_images else 1.0
        features = torch.from_numpy(np.asarray(records.features, dtype=np.float32) / scale)
        clipped, _ = clip_rows(features.reshape(len(features), -1), self.radius)
        return clipped.reshape(features.shape)
