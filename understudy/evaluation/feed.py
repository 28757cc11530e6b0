"""Feeding a classifier: records as batches of network input and targets, on its device."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch

from understudy.data.records import Array, Records

Codes = npt.NDArray[np.int64]

_MOST_RESIDENT_BYTES = 2 * 2**30
"""Larger sets are moved to the device batch by batch."""


@dataclass(frozen=True)
class Feed:
    """Batches of labelled records as a network takes them.

    resident: all features and targets, on the device; None where they are gathered batch by
        batch, as on a CPU, which gains nothing and may not have room for mapped files.
    """

    records: Records
    device: torch.device
    resident: tuple[torch.Tensor, torch.Tensor] | None = None

    @staticmethod
    def of(records: Records, device: torch.device) -> Feed:
        feed = Feed(records, device)
        fits = records.features.nbytes <= _MOST_RESIDENT_BYTES
        return feed.kept_on_device() if device.type == "cuda" and fits else feed

    def kept_on_device(self) -> Feed:
        everything = np.arange(len(self.records))
        features = torch.from_numpy(np.array(self.records.features)).to(self.device)
        return replace(self, resident=(features, self.targets(everything).to(self.device)))

    def batch(self, positions: Codes) -> tuple[torch.Tensor, torch.Tensor]:
        """Network input and targets, both on the device."""
        if self.resident is None:
            inputs = network_input(self.records.features[positions], self.device)
            return inputs, self.targets(positions).to(self.device)
        there = torch.from_numpy(positions).to(self.device)
        features, targets = (tensor[there] for tensor in self.resident)
        return _scaled(features), targets

    def targets(self, positions: Codes) -> torch.Tensor:
        """On the CPU: codes, or probabilities where the labels are soft."""
        column = self.records.attributes[self.records.schema.label_attribute.name][positions]
        return torch.from_numpy(column.astype(np.int64 if column.ndim == 1 else np.float32))


def network_input(features: Array, device: torch.device) -> torch.Tensor:
    """Features on the device, pixels scaled to [-1, 1]."""
    return _scaled(torch.from_numpy(np.array(features)).to(device))


def _scaled(features: torch.Tensor) -> torch.Tensor:
    """Pixels scaled to [-1, 1]; other features as they are."""
    if features.dtype == torch.uint8:
        return features.float() / 127.5 - 1.0
    return features.float()
