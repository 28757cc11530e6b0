"""A fitted denoiser that draws records, and survives on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from understudy.data.records import Images, Records
from understudy.data.schema import Schema
from understudy.methods.conditions import condition_codes
from understudy.methods.contract import Conditions
from understudy.methods.diffusion.denoising import Preconditioning
from understudy.methods.diffusion.network import NetworkSpec
from understudy.methods.diffusion.passes import INDUCTOR, Passes
from understudy.methods.diffusion.samplers import SamplerSettings, draw_images, guided
from understudy.methods.saved_network import load_weights, read_description, save_network
from understudy.nets.seeding import built, stream
from understudy.progress import Progress, Silent

FORMAT = "understudy-diffusion/1"
DRAWING = "drawing images"

_WEIGHTS = "denoiser.safetensors"
_IMAGES_AT_ONCE = {"cpu": 500, "cuda": 5000}
"""Drawn together: the random numbers of an image depend on it."""

_ROWS_AT_ONCE = {"cpu": 500, "cuda": 2500}
"""Of one pass of the network; speed and memory only."""

_WORTH_COMPILING = 1_000_000
"""Passes; compiling takes as long as so many take without it (26,000 a second on an H200)."""


class DiffusionSynthesizer:
    """Images with labels from a denoiser.

    Guarantee: sampling reads the denoiser's weights, its settings and the seed, nothing
    else, so it costs no privacy. On one device, the same `n`, conditions and `seed` give the
    same records.
    """

    def __init__(
        self,
        spec: NetworkSpec,
        network: nn.Module,
        scaling: Preconditioning,
        drawing: SamplerSettings,
        schema: Schema,
    ) -> None:
        label = schema.label_attribute
        self.spec, self.scaling, self.drawing = spec, scaling, drawing
        self.schema = Schema((label,), label=label.name)
        self._network = network.eval().requires_grad_(False)
        self._progress: Progress = Silent()

    def work_on(self, device: torch.device, progress: Progress) -> None:
        """Sample on this device from now on, and show how far it is."""
        self._network.to(device)
        self._progress = progress

    def with_drawing(self, drawing: SamplerSettings) -> DiffusionSynthesizer:
        """The same denoiser, drawn from in another way."""
        return DiffusionSynthesizer(self.spec, self._network, self.scaling, drawing, self.schema)

    def sample(self, n: int, conditions: Conditions | None = None, seed: int = 0) -> Records:
        """`n` records; without conditions all classes come equally often, in random order."""
        codes = condition_codes(n, conditions, self.schema.attributes, seed)
        label = codes[self.schema.label_attribute.name]
        return Images(self._images(torch.from_numpy(label), seed), codes, self.schema)

    def save(self, folder: Path) -> None:
        description = {
            "format": FORMAT,
            "network": self.spec.to_json(),
            "deviation": self.scaling.deviation,
            "drawing": self.drawing.to_json(),
            "schema": self.schema.to_json(),
        }
        save_network(folder, _WEIGHTS, self._network, description)

    @classmethod
    def load(cls, folder: Path) -> DiffusionSynthesizer:
        data = read_description(folder, FORMAT)
        spec = NetworkSpec.from_json(data["network"])
        network = built(spec.build, 0, "replaced by the saved weights")
        load_weights(folder, _WEIGHTS, network)
        drawing = SamplerSettings.from_json(data["drawing"])
        schema = Schema.from_json(data["schema"])
        return cls(spec, network, Preconditioning(data["deviation"]), drawing, schema)

    @torch.no_grad()
    def _images(self, codes: torch.Tensor, seed: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
        device = next(self._network.parameters()).device
        start, churn = stream(seed, "latents"), stream(seed, "churn", device=device)
        images = np.empty((len(codes), *self.spec.shape), dtype=np.uint8)
        passes, size = self._passes(len(codes), device), _IMAGES_AT_ONCE[device.type]
        batches = -(-len(codes) // size)
        with self._progress.task(DRAWING, batches * self.drawing.steps) as bar:
            for first in range(0, len(codes), size):
                some = codes[first : first + size].to(device)
                noise = torch.randn(len(some), *self.spec.shape, generator=start).to(device)
                denoise = guided(passes, some, self.spec.classes, self.drawing.guidance)
                made = draw_images(denoise, noise, self.drawing, churn, after_step=bar.advance)
                whole = made.add(1).mul(127.5).round().clamp(0, 255).byte()
                images[first : first + len(some)] = whole.cpu().numpy()
        return images

    def _passes(self, count: int, device: torch.device) -> Passes:
        pays = device.type == "cuda" and count * self.drawing.passes >= _WORTH_COMPILING
        return Passes(
            self._network,
            self.scaling,
            _ROWS_AT_ONCE[device.type],
            INDUCTOR if pays else None,
            self._progress.say,
        )
