"""`image-reward`: how well people would say that images fit the words for their class.

An optional plug-in: ImageReward (Xu et al. 2023) is a learned judge of picture and prompt, in
a package and with weights of its own. Where either is missing the row fails and says how to
get it. The package unpickles its weights, which is for whoever installs it to decide.
"""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from importlib import import_module
from typing import ClassVar, Protocol, cast

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image

from understudy.data.records import Array, Records
from understudy.errors import UserError
from understudy.evaluation.case import Case
from understudy.evaluation.intervals import normal
from understudy.evaluation.metric import Bounds, Direction, Measurement, Metric, Need
from understudy.evaluation.prompts import class_prompts
from understudy.progress import Progress

PACKAGE = "ImageReward"
MODEL = "ImageReward-v1.0"
_BATCH = 32


class Judge(Protocol):
    """What the package's model offers, as far as it is used here."""

    def score(self, prompt: str, image: list[Image.Image]) -> float | list[float]: ...


class ImageReward(Metric):
    """The mean reward of synthetic images under the prompts of their labels.

    The reference is that of as many real test images with their own labels. The interval
    (normal) covers the draw of the synthetic images.
    """

    name = "ImageReward"
    direction: ClassVar[Direction] = "higher"
    bounds: ClassVar[Bounds] = (None, None)
    unit = "standard deviations of reward"
    needs = frozenset({Need.IMAGES, Need.LABEL})

    @property
    def variant(self) -> str:
        return MODEL

    def measure(self, case: Case) -> Measurement:
        judge = load_judge(case.device)
        found = rewards(judge, case.drawn("synthetic"), case.progress)
        reference = rewards(judge, case.drawn("test"), case.progress)
        interval = normal(float(found.mean()), float(found.std(ddof=1)) / len(found) ** 0.5)
        return Measurement(
            value=interval.value,
            low=interval.low,
            high=interval.high,
            seeds=(case.seed,),
            reference=float(reference.mean()),
        )


def load_judge(device: torch.device) -> Judge:
    """The package's model; what it prints goes to standard error."""
    try:
        package = import_module(PACKAGE)
    except (ImportError, RuntimeError) as error:  # its torchvision may be broken
        raise UserError(
            f"needs the package {PACKAGE}, which cannot be imported ({error}); "
            "install it with `pip install image-reward`."
        ) from error
    try:
        with redirect_stdout(sys.stderr):
            return cast(Judge, package.load(MODEL, device=device))
    except Exception as error:
        raise UserError(
            f"needs the weights {MODEL}, which the package {PACKAGE} could not load "
            f"({type(error).__name__}: {error}); put ImageReward.pt and med_config.json of "
            "huggingface.co/THUDM/ImageReward into ~/.cache/ImageReward."
        ) from error


def rewards(judge: Judge, records: Records, progress: Progress) -> npt.NDArray[np.float64]:
    """The reward of each image under the prompt of its label, in the order of the records."""
    prompts = class_prompts(records.schema.classes)
    found = np.empty(len(records))
    with progress.task(f"rewards of {MODEL}", total=len(records)) as bar, torch.inference_mode():
        for code, prompt in enumerate(prompts):
            positions = np.flatnonzero(records.labels == code)
            for start in range(0, len(positions), _BATCH):
                chosen = positions[start : start + _BATCH]
                pictures = [_picture(pixels) for pixels in records.features[chosen]]
                found[chosen] = np.atleast_1d(np.asarray(judge.score(prompt, pictures)))
                bar.advance(len(chosen))
    return found


def _picture(pixels: Array) -> Image.Image:
    """Three channels; grey is repeated."""
    colours = np.broadcast_to(pixels, (3, *pixels.shape[1:]))
    return Image.fromarray(np.ascontiguousarray(colours.transpose(1, 2, 0)))
