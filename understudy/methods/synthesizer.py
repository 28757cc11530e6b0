"""A fitted conditional generator that makes records, and survives on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from understudy.data.records import Images, Records
from understudy.data.schema import Schema
from understudy.methods.conditions import condition_codes
from understudy.methods.contract import Conditions
from understudy.methods.saved_network import load_weights, read_description, save_network
from understudy.nets.generators import GeneratorSpec
from understudy.nets.seeding import built, stream

FORMAT = "understudy-generator/1"
_WEIGHTS = "generator.safetensors"
_ROWS_AT_ONCE = 2000


class GeneratorSynthesizer:
    """Images with labels from a generator network.

    Guarantee: sampling reads the generator's weights and the seed, nothing else, so it
    costs no privacy. The same `n`, conditions and `seed` give the same records.
    """

    def __init__(self, spec: GeneratorSpec, generator: nn.Module, schema: Schema) -> None:
        label = schema.label_attribute
        self.spec = spec
        self.schema = Schema((label,), label=label.name)
        self._generator = generator.eval()

    def sample(self, n: int, conditions: Conditions | None = None, seed: int = 0) -> Records:
        """`n` records; without conditions all classes come equally often, in random order."""
        codes = condition_codes(n, conditions, self.schema.attributes, seed)
        label = codes[self.schema.label_attribute.name]
        return Images(self._images(torch.from_numpy(label), seed), codes, self.schema)

    def save(self, folder: Path) -> None:
        description = {
            "format": FORMAT,
            "generator": self.spec.to_json(),
            "schema": self.schema.to_json(),
        }
        save_network(folder, _WEIGHTS, self._generator, description)

    @classmethod
    def load(cls, folder: Path) -> GeneratorSynthesizer:
        description = read_description(folder, FORMAT)
        spec = GeneratorSpec.from_json(description["generator"])
        generator = built(spec.build, 0, "replaced by the saved weights")
        load_weights(folder, _WEIGHTS, generator)
        return cls(spec, generator, Schema.from_json(description["schema"]))

    @torch.no_grad()
    def _images(self, codes: torch.Tensor, seed: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
        device = next(self._generator.parameters()).device
        latents = stream(seed, "latents")
        images = np.empty((len(codes), *self.spec.shape), dtype=np.uint8)
        for start in range(0, len(codes), _ROWS_AT_ONCE):
            some = codes[start : start + _ROWS_AT_ONCE]
            values = torch.randn(len(some), self.spec.latent, generator=latents)
            classes = F.one_hot(some, self.spec.classes).float()
            made = self._generator(values.to(device), classes.to(device))
            images[start : start + len(some)] = made.mul(255).round().byte().cpu().numpy()
        return images
