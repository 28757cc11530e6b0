"""A trained filter as its user holds it: applied to records, kept in a file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch

from understudy.data.records import Array, Records
from understudy.data.schema import Attribute, Schema
from understudy.errors import UserError
from understudy.filters.choice import Choice, Codes, codes_of
from understudy.filters.distortion import Distortion, Numbers
from understudy.filters.game import GameConfig, train_filter
from understudy.filters.model import LatentFilter, perturbation_of
from understudy.privacy.noise.source import NoiseSource
from understudy.progress import Progress

_ROUNDING = 1e-4


class EncoderFacts(Protocol):
    """What a filter must know of the encoder whose latents it changes."""

    @property
    def latent(self) -> int: ...

    @property
    def radius(self) -> float: ...

    @property
    def digest(self) -> str: ...


@dataclass(frozen=True)
class Filter:
    """What hides some labels of an encoder's latents, and keeps others.

    Guarantee: no differential privacy. A filter makes the attackers it was tried against fail;
    a stronger one may not. What is certain is the distortion, measured on the records that it
    was trained on, and that its noise is fresh and secret.
    """

    model: LatentFilter
    private: tuple[Attribute, ...]
    choice: Choice
    distortion: Distortion
    variances: Numbers
    measured: float
    encoder_digest: str
    radius: float

    def apply(self, records: Records, noise: NoiseSource) -> Records:
        """Filtered latents with the kept labels; the hidden ones and units stay behind.

        Nothing that is sent says which choice was made beyond which labels come along.
        """
        sent = self.filtered(records, noise)
        kept = [a for a in records.schema.attributes if a.name in self.choice.useful]
        columns = {a.name: records.attributes[a.name] for a in kept}
        return Records(sent, columns, Schema(tuple(kept)))

    @torch.no_grad()
    def filtered(self, records: Records, noise: NoiseSource) -> Array:
        """The latents alone, `float32 [N, d]`; noise comes from the secret stream."""
        self._check(records)
        z = torch.from_numpy(np.array(records.features, np.float32))
        drawn = noise.normal(z.shape)
        return np.asarray(self.model(z, self._codes(records), drawn).numpy())

    @torch.no_grad()
    def shift_of(self, records: Records) -> Array:
        """Where these latents' means move, `float64 [N, d]`; the rest of what is sent is noise."""
        self._check(records)
        z = torch.from_numpy(np.array(records.features, np.float32))
        return np.asarray(self.model.shift(z, self._codes(records)).double().numpy())

    def distortion_on(self, records: Records) -> float:
        """The divergence on other records than it was trained on; may exceed the budget there."""
        self._check(records)
        z = torch.from_numpy(np.array(records.features, np.float32))
        change = perturbation_of(self.model, z, self._codes(records), self.variances)
        return self.distortion.measure(change)

    def _codes(self, records: Records) -> torch.Tensor:
        columns = [_recoded(records, own) for own in self.private]
        return torch.from_numpy(np.stack(columns, axis=1))

    def _check(self, records: Records) -> None:
        check_latents(records, self.model.shape.latent, self.radius)


def _recoded(records: Records, own: Attribute) -> Codes:
    """The records' codes of an attribute as the filter has its classes, matched by their names."""
    theirs = records.schema.attribute(own.name).classes
    unknown = [name for name in theirs if name not in own.classes]
    if unknown:
        raise UserError(
            f"attribute {own.name!r} has classes that the filter was not trained for: "
            f"{', '.join(unknown)}; it knows {', '.join(own.classes)}."
        )
    places = np.array([own.classes.index(name) for name in theirs], np.int64)
    return np.asarray(places[codes_of(records, own.name)], np.int64)


def fit_filter(
    records: Records,
    choice: Choice,
    distortion: Distortion,
    encoder: EncoderFacts,
    config: GameConfig | None = None,
    *,
    variances: Numbers | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Filter:
    """Train a filter on one's own encoded records; see `train_filter`."""
    check_latents(records, encoder.latent, encoder.radius)
    trained = train_filter(
        records, choice, distortion, config, variances=variances, seed=seed, progress=progress
    )
    return Filter(
        model=trained.model,
        private=tuple(records.schema.attribute(name) for name in choice.private),
        choice=choice,
        distortion=distortion,
        variances=trained.variances,
        measured=trained.measured,
        encoder_digest=encoder.digest,
        radius=float(encoder.radius),
    )


def check_latents(records: Records, latent: int, radius: float) -> None:
    """Refuse what this encoder cannot have made: another width, or latents beyond its radius."""
    if records.is_images or records.features.ndim != 2:
        raise UserError("a filter works on latents [count, d]; encode the records first.")
    if records.features.shape[1] != latent:
        raise UserError(
            f"latents have {records.features.shape[1]} coordinates; the encoder's have {latent}."
        )
    norms = np.linalg.norm(np.asarray(records.features, np.float64), axis=1)
    outside = int((~(norms <= radius * (1 + _ROUNDING))).sum())
    if outside:
        raise UserError(
            f"{outside} of {len(norms)} latents lie outside the encoder's radius {radius:g}; "
            "encode the records with this encoder."
        )
