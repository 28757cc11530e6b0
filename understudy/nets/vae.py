"""The dense variational autoencoder: flat inputs in [0, 1], a Gaussian code, Bernoulli outputs.

With its preset for MNIST it is the network of the paper on the generative filter
(784-300-300-20 and 10-300-300-784, ELU); with that for Adult, one for tables of 0 and 1.
Only linear layers and smooth activations: every record by itself, so DP-SGD takes it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import torch
from torch import nn

from understudy.errors import UserError

ACTIVATIONS: Mapping[str, Callable[[], nn.Module]] = {"elu": nn.ELU, "softplus": nn.Softplus}


@dataclass(frozen=True)
class DenseSpec:
    """shape: of one record. latent: values of a code. hidden: sizes of the layers between,
    from the input to the code; the decoder has them in reverse. activation: of each of them.
    """

    kind: ClassVar[str] = "dense"
    bernoulli: ClassVar[bool] = True
    shape: tuple[int, ...]
    latent: int
    hidden: tuple[int, ...]
    activation: str

    def encoder(self) -> nn.Module:
        """From records to mean and log-variance, side by side [rows, 2 * latent]."""
        sizes = (math.prod(self.shape), *self.hidden, 2 * self.latent)
        return nn.Sequential(nn.Flatten(), *self._layers(sizes))

    def decoder(self) -> nn.Module:
        """From codes to the logits of the outputs, in the shape of the records."""
        sizes = (self.latent, *self.hidden[::-1], math.prod(self.shape))
        return nn.Sequential(*self._layers(sizes), nn.Unflatten(1, self.shape))

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "shape": list(self.shape), "hidden": list(self.hidden)}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> DenseSpec:
        hidden = tuple(int(size) for size in data["hidden"])
        shape = tuple(int(side) for side in data["shape"])
        return DenseSpec(shape, int(data["latent"]), hidden, str(data["activation"]))

    def _layers(self, sizes: Sequence[int]) -> list[nn.Module]:
        if self.activation not in ACTIVATIONS:
            raise UserError(
                f"activation must be {' or '.join(ACTIVATIONS)}, not {self.activation!r}."
            )
        layers: list[nn.Module] = []
        for before, after in itertools.pairwise(sizes):
            layers += [nn.Linear(before, after), ACTIVATIONS[self.activation]()]
        return layers[:-1]


def split_code(code: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and log-variance of an encoder's output; the latter within what exp can bear."""
    mean, log_variance = code.chunk(2, dim=1)
    return mean, log_variance.clamp(-20.0, 20.0)
