"""Batches of records as callbacks get them, and the random batches of trials."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from understudy.data.records import Records

if TYPE_CHECKING:
    from understudy.privacy.noise.source import NoiseSource

Draws = Mapping[str, tuple[int, ...]]
"""The random values that a callback needs with every row: name -> shape. Names that begin with
`uniform` are uniform on [0, 1), all others standard normal. If a name ends in `_paired`, two
successive rows of a record share a value; if in `_mirrored`, the second has its negative."""

PAIRED, MIRRORED = "_paired", "_mirrored"

TRIAL_ROWS = 6
"""How many random rows a callback is checked on before its first use."""

FAR = 1e3
"""The largest value in the extreme rows of latents."""


@dataclass(frozen=True)
class Batch:
    """Rows of records. Images arrive as float32 in [0, 1], latents as they are.

    `draws` is the only randomness that a callback may use. It is bound to its row, so that a row
    has the same value in any batch.
    """

    features: torch.Tensor
    attributes: Mapping[str, torch.Tensor]
    draws: Mapping[str, torch.Tensor] = field(default_factory=dict)
    label: str | None = None

    def __len__(self) -> int:
        return len(self.features)

    @property
    def labels(self) -> torch.Tensor:
        """Codes `[rows]` of the label, or probabilities `[rows, classes]`."""
        if self.label is None:
            raise KeyError("these records have no label")
        return self.attributes[self.label]

    @property
    def tensors(self) -> list[torch.Tensor]:
        """All tensors of the batch."""
        return [self.features, *self.attributes.values(), *self.draws.values()]

    def with_tensors(self, tensors: Sequence[torch.Tensor]) -> Batch:
        """The same batch with other tensors, in the order of `tensors`."""
        features, *rest = tensors
        attributes = dict(zip(self.attributes, rest, strict=False))
        draws = dict(zip(self.draws, rest[len(attributes) :], strict=True))
        return Batch(features, attributes, draws, self.label)

    def with_features(self, features: torch.Tensor) -> Batch:
        return replace(self, features=features)

    def row(self, index: int) -> Batch:
        """One row, as a batch of one."""
        return self.rows(index, index + 1)

    def rows(self, start: int, stop: int) -> Batch:
        """Consecutive rows, with their draws."""
        return self.picked(slice(start, stop))

    def picked(self, some: slice | torch.Tensor) -> Batch:
        """Rows by number, in any order, with their draws."""
        return Batch(
            self.features[some],
            {k: v[some] for k, v in self.attributes.items()},
            {k: v[some] for k, v in self.draws.items()},
            self.label,
        )

    def repeat(self, times: int) -> Batch:
        """Every row `times` times in a row, without draws."""
        return Batch(
            self.features.repeat_interleave(times, dim=0),
            {k: v.repeat_interleave(times, dim=0) for k, v in self.attributes.items()},
            {},
            self.label,
        )


def make_batch(records: Records, rows: np.ndarray, device: torch.device) -> Batch:
    """Copy these records out as tensors."""
    features = _moved(records.features[rows], device)
    if records.is_images:
        features = features.float().div_(255.0)
    columns = {name: _moved(column[rows], device) for name, column in records.attributes.items()}
    columns = {k: v.long() if v.ndim == 1 else v.float() for k, v in columns.items()}
    return Batch(features, columns, {}, records.schema.label)


def _moved(values: np.ndarray, device: torch.device) -> torch.Tensor:
    """The values on the device; the copy to a GPU is asynchronous, from pinned memory."""
    here = torch.from_numpy(np.ascontiguousarray(values))
    if device.type != "cuda":
        return here.to(device)
    return here.pin_memory().to(device, non_blocking=True)


def with_draws(batch: Batch, draws: Draws, noise: NoiseSource, times: int = 1) -> Batch:
    """The batch, which holds each record `times` times in succession, with fresh random values for
    every row from the door's stream.

    Guarantee: the draws of different records are independent and have one distribution. Pairs
    consist of rows of one record (a left-over row stands alone), so the distribution of a record's
    draws does not depend on the other records of the batch.

    On a GPU the stream only seeds torch's generator: the loss is averaged over these values inside
    the clip, where no guarantee depends on them, and there are many of them.
    """
    device, rows = batch.features.device, len(batch)
    drawn = _seeded if device.type == "cuda" else _streamed
    filled = {}
    for name, form in draws.items():
        if name.endswith((PAIRED, MIRRORED)):
            each = rows // times * math.ceil(times / 2)
            filled[name] = _in_pairs(name, drawn(name, (each, *form), noise, device), times)
        else:
            filled[name] = drawn(name, (rows, *form), noise, device)
    return Batch(batch.features, batch.attributes, filled, batch.label)


def _in_pairs(name: str, values: torch.Tensor, times: int) -> torch.Tensor:
    """Each record's values twice in succession; the last one once where `times` is odd."""
    pairs = values.reshape(-1, math.ceil(times / 2), *values.shape[1:])
    rows = pairs.repeat_interleave(2, dim=1)
    if name.endswith(MIRRORED):
        rows[:, 1::2] *= -1
    return rows[:, :times].flatten(0, 1)


def _streamed(
    name: str, shape: tuple[int, ...], noise: NoiseSource, device: torch.device
) -> torch.Tensor:
    if name.startswith("uniform"):
        return noise.uniform(shape, device, torch.float32)
    return noise.normal(shape, device)


def _seeded(
    name: str, shape: tuple[int, ...], noise: NoiseSource, device: torch.device
) -> torch.Tensor:
    generator = torch.Generator(device).manual_seed(noise.callback_stream_seed())
    draw = torch.rand if name.startswith("uniform") else torch.randn
    return draw(shape, generator=generator, device=device)


def random_batch(like: Records, rows: int, device: torch.device, number: int = 0) -> Batch:
    """Random rows of the shape and schema of `like`, seeded by `number`; its rows are not read.

    Trials check callbacks and time backends on them. The first two rows and the fourth agree in
    every attribute and the third has another class, so that a callback that mixes the rows of one
    class, or sorts rows by class, is found.
    """
    generator = torch.Generator().manual_seed(rows + 1_000_003 * number)  # 32 bits count
    features = torch.rand((rows, *like.shape), generator=generator)
    columns = {}
    for attribute in like.schema.attributes:
        soft = like.attributes[attribute.name].ndim == 2
        column = _random_column(rows, len(attribute.classes), soft, generator)
        column[1:2] = column[:1]
        column[2:3] = _another(column[:1], len(attribute.classes), soft)[: len(column[2:3])]
        column[3:4] = column[:1][: len(column[3:4])]
        columns[attribute.name] = column.to(device)
    return Batch(features.to(device), columns, {}, like.schema.label)


def extreme_batch(like: Records, rows: int, device: torch.device) -> Batch:
    """Extreme rows of the shape and schema of `like`, whose rows are not read.

    Images are in turn black, white, grey and noise; latents are in turn zero, large, large negative
    and noise. A callback that raises on one of these could raise on a private record, which ends
    the run.
    """
    batch = random_batch(like, rows, device)
    levels = (0.0, 1.0, 0.5) if like.is_images else (0.0, FAR, -FAR)
    features = batch.features.clone()
    for start, level in enumerate(levels):
        features[start :: len(levels) + 1] = level
    return batch.with_features(features)


def _another(value: torch.Tensor, classes: int, soft: bool) -> torch.Tensor:
    """Another class, or probabilities that favour another one, where there is more than one."""
    return value.roll(1, dims=1) if soft else (value + 1) % classes


def _random_column(rows: int, classes: int, soft: bool, generator: torch.Generator) -> torch.Tensor:
    if soft:
        return torch.softmax(torch.randn(rows, classes, generator=generator), dim=1)
    return torch.randint(classes, (rows,), generator=generator)
