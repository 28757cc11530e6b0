"""What an owner is told before anything is spent: whom a run protects, and what was dropped."""

from __future__ import annotations

import math
from collections.abc import Iterator

from understudy.data.load import Dataset
from understudy.run.prepare import Prepared

PER_IMAGE = "per image, not per person"


def protected_in_words(unit: str | None) -> str:
    """Who is protected, for a plan.

    >>> protected_in_words("patient")
    'protects all images of one patient together: per patient'
    """
    if unit is None:
        return f"protects each image by itself: {PER_IMAGE} (--unit COLUMN protects persons)"
    return f"protects all images of one {unit} together: per {unit}"


def guess_in_words(epsilon: float, unit: str | None) -> str:
    """What an epsilon allows whoever guesses whether one unit was in the data.

    >>> guess_in_words(1.0, "patient")
    'a guess whether one patient was in the data is right at most 73.2% of the time (blindly 50%)'
    """
    percent = 100 / (1 + math.exp(-epsilon))
    digits = 1 if percent < 99.9 else 3
    most = math.ceil(percent * 10**digits) / 10**digits
    return (
        f"a guess whether one {unit or 'image'} was in the data is right at most {most:g}% of the "
        "time (blindly 50%)"
    )


def notices(prepared: Prepared) -> Iterator[str]:
    """Sentences for the owner's console. No release and no shareable report holds any of them."""
    if prepared.config.unit is None:
        yield from _persons(prepared.material.dataset)
    dropped = prepared.material.dropped
    if dropped:
        images = "1 image" if dropped == 1 else f"{dropped:,} images"
        yield (
            f"{images} dropped as exact duplicates of others; this number is computed from private "
            "records, so it is for you alone."
        )


def _persons(dataset: Dataset) -> Iterator[str]:
    """By the owner's own naming; whether a value repeats is not looked at."""
    for column in dataset.person_columns:
        yield (
            f"warning: the column {column!r} seems to say whose an image is; without --unit "
            f"{column} the claim is {PER_IMAGE}."
        )
    if dataset.nested:
        yield (
            "warning: the class folders hold folders of their own, as class/patient/image would; "
            f"if each is a person, the claim is {PER_IMAGE}: list the images in a metadata.csv "
            "with a column for the person, and name it by --unit."
        )
