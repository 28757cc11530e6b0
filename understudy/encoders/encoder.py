"""A fitted encoder: records to latents in a ball, and latents back to records."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from understudy.data.schema import Schema
from understudy.encoders.provenance import Provenance
from understudy.encoders.specs import Spec
from understudy.errors import UserError
from understudy.nets.vae import split_code
from understudy.privacy.sums.clipping import clip_rows

FILE = "encoder.safetensors"
_VALUES_AT_ONCE = 2**22
"""Of the widest layer of a pass, so that images of 64x64 take some tens of megabytes."""

_ROUNDING = 1e-6


@dataclass(frozen=True)
class Encoder:
    """Networks, the radius of the ball that latents lie in, and where the weights come from.

    schema: the attributes of the data it is meant for, for users to choose among; it is
        declared and public. digest: of the file it was read from or would be written to.

    Guarantee: `encode` looks at each record by itself, draws nothing, and gives rows of
    float32 L2 norm at most `radius * (1 + 1e-6)`; two records' latents are therefore at
    most 2 x radius apart, which is what a local mechanism's noise is for. The encoder
    itself carries `provenance`; using it costs nothing more.
    """

    spec: Spec
    radius: float
    encoder: nn.Module
    decoder: nn.Module
    schema: Schema
    provenance: Provenance

    def __post_init__(self) -> None:
        if not (math.isfinite(self.radius) and self.radius > 0):
            raise UserError(f"the radius of an encoder must be above 0, not {self.radius}.")
        self.encoder.eval()
        self.decoder.eval()

    @property
    def latent(self) -> int:
        """How many values a latent has."""
        return self.spec.latent

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one record that it takes."""
        return self.spec.shape

    @property
    def digest(self) -> str:
        from understudy.encoders.file import encoder_digest

        return encoder_digest(self)

    def encode(self, records: Any) -> torch.Tensor:
        """Latents [N, latent] float32: each record's mean, clipped to the ball.

        records: uint8 images (or floats in [0, 1]) [N, C, H, W], or table rows [N, columns].
        """
        mean, _ = self.posterior(records)
        return mean

    def posterior(self, records: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """Means, clipped as in `encode`, and variances of q(z|x), each [N, latent]."""
        values = self._checked(records)
        means, variances = [torch.empty(0, self.latent)], [torch.empty(0, self.latent)]
        with torch.inference_mode():
            for some in self._chunks(values):
                mean, log_variance = split_code(self.encoder(self._inputs(some)))
                means.append(clip_to_ball(mean.cpu(), self.radius))
                variances.append(log_variance.exp().cpu())
        # Clones: tensors of inference mode could not be trained on.
        return torch.cat(means).clone(), torch.cat(variances).clone()

    def decode(self, latents: Any) -> torch.Tensor:
        """Records [N, *shape] as float32 in [0, 1]; latents outside the ball are taken too,
        since a filter's noise may carry them there."""
        codes = _latent_rows(latents, self.latent)
        made = [torch.empty(0, *self.shape)]
        device = next(self.decoder.parameters()).device
        with torch.inference_mode():
            for some in self._chunks(codes):
                output = self.decoder(some.to(device))
                bounded = output.sigmoid() if self.spec.bernoulli else output.clamp(0.0, 1.0)
                made.append(bounded.cpu())
        return torch.cat(made).clone()

    def decode_images(self, latents: Any) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """`decode` as uint8, for records of images."""
        return self.decode(latents).mul(255).round().byte().numpy()

    def check_latents(self, latents: Any) -> torch.Tensor:
        """Latents as this encoder gives them, as float32 [N, latent]; others are refused."""
        codes = _latent_rows(latents, self.latent)
        norms = torch.linalg.vector_norm(codes, dim=1, dtype=torch.float64)
        outside = torch.nonzero(norms > self.radius * (1 + _ROUNDING))
        if len(outside):
            row = int(outside[0])
            raise UserError(
                f"latents: row {row} has norm {norms[row]:.4g}, outside the encoder's radius "
                f"{self.radius:.4g}; encode with this encoder, which clips them."
            )
        return codes

    def clip_latents(self, latents: Any) -> torch.Tensor:
        """Latents that were made before, as float32 [N, latent], each clipped as in `encode`.

        Guarantee: no value decides whether they are taken, only type and width; a row depends
        on that row alone, and one that is not finite becomes zero.
        """
        return clip_to_ball(_rows_of_width(latents, self.latent), self.radius)

    def with_provenance(self, provenance: Provenance) -> Encoder:
        return replace(self, provenance=provenance)

    def save(self, folder: Path) -> None:
        from understudy.encoders.file import write_encoder

        folder.mkdir(parents=True, exist_ok=True)
        write_encoder(folder / FILE, self)

    @classmethod
    def load(cls, folder: Path) -> Encoder:
        from understudy.encoders.file import read_encoder

        return read_encoder(folder / FILE)

    def _checked(self, records: Any) -> torch.Tensor:
        values = torch.as_tensor(records)
        if tuple(values.shape[1:]) != self.shape or not values.ndim > 1:
            raise UserError(
                f"the encoder takes records of shape {list(self.shape)}, not "
                f"{list(values.shape[1:])}; load the data with that size and those channels."
            )
        if values.dtype != torch.uint8 and not torch.is_floating_point(values):
            raise UserError(f"records must be uint8 or float in [0, 1], not {values.dtype}.")
        return values

    def _inputs(self, values: torch.Tensor) -> torch.Tensor:
        device = next(self.encoder.parameters()).device
        scaled = values.to(device).float()
        return unit_interval(scaled / 255.0 if values.dtype == torch.uint8 else scaled)

    def _chunks(self, rows: torch.Tensor) -> tuple[torch.Tensor, ...]:
        widest = 64 * math.prod(self.shape)
        return torch.split(rows, max(1, _VALUES_AT_ONCE // widest)) if len(rows) else ()


def clip_to_ball(latents: torch.Tensor, radius: float) -> torch.Tensor:
    """Latents scaled back to L2 norm at most `radius`; shorter ones stay as they are.

    Guarantee: every row's float32 norm is at most `radius * (1 + 1e-6)`, whatever it was,
    and depends on that row alone; a row that is not finite becomes zero.
    """
    clipped, _ = clip_rows(latents.float(), radius)
    return clipped


def unit_interval(values: torch.Tensor) -> torch.Tensor:
    """Values in [0, 1]; what is not a number counts as 0."""
    return torch.nan_to_num(values).clamp(0.0, 1.0)


def _rows_of_width(latents: Any, size: int) -> torch.Tensor:
    codes = torch.as_tensor(latents)
    if codes.ndim != 2 or codes.shape[1] != size or not torch.is_floating_point(codes):
        raise UserError(
            f"latents must be floats [N, {size}], not {codes.dtype} {list(codes.shape)}."
        )
    return codes.detach().float()


def _latent_rows(latents: Any, size: int) -> torch.Tensor:
    codes = _rows_of_width(latents, size)
    if not bool(torch.isfinite(codes).all()):
        raise UserError("latents hold a value that is not a finite number.")
    return codes
