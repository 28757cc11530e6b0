"""Public images made to fit the private ones: size, channels, labels."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn import functional as F

from understudy.data.records import Records
from understudy.errors import UserError
from understudy.nets.sizes import Shape
from understudy.progress import Progress

_LUMA = (0.299, 0.587, 0.114)
_ROWS_AT_ONCE = 4096


@dataclass(frozen=True)
class PublicImages:
    """uint8 images of the private shape; codes of `classes` classes, or none (classes 0)."""

    images: torch.Tensor
    codes: torch.Tensor
    classes: int

    @property
    def digest(self) -> str:
        """sha256 of all of it; public data may be hashed."""
        content = hashlib.sha256(f"{tuple(self.images.shape)} {self.classes}".encode())
        content.update(self.images.numpy().tobytes())
        content.update(self.codes.numpy().tobytes())
        return content.hexdigest()


def fitted_to(
    records: Records, shape: Shape, conditional: bool, progress: Progress, who: str
) -> PublicImages:
    """Public records as images of this shape; what was changed is said, what cannot be refused."""
    check_images(records, who)
    if records.shape != shape:
        progress.say(
            f"public images of shape {_words(records.shape)} are made {_words(shape)} to fit the "
            "private ones."
        )
    images = _of_shape(np.asarray(records.features), shape)
    codes = _codes(records) if conditional else None
    if conditional and codes is None:
        progress.say("the public records have no label of one class each; learning without it.")
    if codes is None:
        return PublicImages(images, torch.zeros(len(images), dtype=torch.int64), 0)
    return PublicImages(images, codes, len(records.schema.classes))


def check_images(records: Records, who: str) -> None:
    """Refuse what cannot be made to fit."""
    if not records.is_images or len(records.shape) != 3 or records.shape[0] not in (1, 3):
        raise UserError(
            f"{who} learns from public images of 1 or 3 channels; --public gives records of "
            f"shape {list(records.shape)}."
        )
    if not len(records):
        raise UserError(f"{who} has nothing to learn from: --public gives no records.")


def _codes(records: Records) -> torch.Tensor | None:
    if records.schema.label is None or np.ndim(records.labels) != 1:
        return None
    return torch.from_numpy(np.asarray(records.labels).astype(np.int64))


def _of_shape(images: np.ndarray, shape: Shape) -> torch.Tensor:
    """Grey from colour by luma, colour from grey by repeating, sizes by averaging."""
    if images.shape[1:] == shape:
        return torch.from_numpy(np.ascontiguousarray(images))
    made = torch.empty((len(images), *shape), dtype=torch.uint8)
    for start in range(0, len(images), _ROWS_AT_ONCE):
        some = torch.from_numpy(np.ascontiguousarray(images[start : start + _ROWS_AT_ONCE])).float()
        if some.shape[1] == 3 and shape[0] == 1:
            some = (some * torch.tensor(_LUMA).reshape(1, 3, 1, 1)).sum(dim=1, keepdim=True)
        sized = F.interpolate(some, shape[1:], mode="bilinear", antialias=True)
        made[start : start + len(some)] = sized.expand(-1, shape[0], -1, -1).round().byte()
    return made


def _words(shape: tuple[int, ...]) -> str:
    return f"{shape[1]}x{shape[2]} {'grey' if shape[0] == 1 else 'colour'}"
