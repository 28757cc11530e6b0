"""What an extractor is: a fixed network that turns images into feature vectors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import nn

from understudy.data.records import Array
from understudy.errors import UserError
from understudy.evaluation.metric_registry import EXTRACTORS, resolve
from understudy.progress import Progress


@dataclass(frozen=True)
class Extractor:
    """A named network in evaluation mode, and how images are made ready for it.

    prepare: from a `uint8 [B, C, H, W]` batch with one or three channels to network input.
    network: from that input to features `[B, dimension]`.
    head: from features to class scores, where the network has classes and their scores follow
        from its features.
    """

    name: str
    dimension: int
    network: nn.Module
    prepare: Callable[[torch.Tensor], torch.Tensor]
    batch_size: int = 64
    head: nn.Module | None = None

    def features(
        self, images: Array, device: torch.device, progress: Progress
    ) -> npt.NDArray[np.float32]:
        """Features of all images, in order, as `float32 [N, dimension]`."""
        network = self.network.to(device).eval()
        found = np.empty((len(images), self.dimension), dtype=np.float32)
        with (
            torch.inference_mode(),
            progress.task(f"features of {self.name}", total=len(images)) as bar,
        ):
            for start in range(0, len(images), self.batch_size):
                batch = np.array(images[start : start + self.batch_size])
                ready = self.prepare(torch.from_numpy(batch).to(device))
                found[start : start + len(batch)] = network(ready).cpu().numpy()
                bar.advance(len(batch))
        return found

    def class_probabilities(
        self, features: npt.NDArray[np.float32], device: torch.device
    ) -> npt.NDArray[np.float64]:
        """What the network's last layer gives each class for images with these features."""
        if self.head is None:
            raise UserError(f"extractor {self.name} gives no class probabilities.")
        with torch.inference_mode():
            scores = self.head.to(device)(torch.from_numpy(features).to(device))
            return np.asarray(scores.double().softmax(dim=1).cpu().numpy())


def load_extractor(name: str) -> Extractor:
    """The extractor of this name; its weights are found or downloaded now.

    Layers draw initial weights that are then replaced; torch's generator is put back.
    """
    build: Callable[[], Extractor] = resolve("extractor", name, EXTRACTORS)
    with torch.random.fork_rng(devices=[]):
        return build()


def to_rgb(images: torch.Tensor) -> torch.Tensor:
    """Three channels; grey is repeated."""
    return images.expand(-1, 3, -1, -1) if images.shape[1] == 1 else images


def to_grey(images: torch.Tensor) -> torch.Tensor:
    """One float channel; colours are weighed by ITU-R BT.601 luma."""
    if images.shape[1] == 1:
        return images.float()
    weights = torch.tensor([0.299, 0.587, 0.114], device=images.device)
    return (images.float() * weights.view(1, 3, 1, 1)).sum(dim=1, keepdim=True)


def resize(images: torch.Tensor, side: int, antialias: bool = True) -> torch.Tensor:
    """Square float images by bilinear interpolation with pixel centres aligned.

    Smoothing (`antialias`) acts only where an image shrinks.
    """
    if images.shape[2:] == (side, side):
        return images.float()
    return F.interpolate(
        images.float(), size=(side, side), mode="bilinear", align_corners=False, antialias=antialias
    )
