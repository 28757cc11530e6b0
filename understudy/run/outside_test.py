"""Records from outside of a run, made such that the run's samples can be tested on them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from understudy.data.catalog import catalog
from understudy.data.load import Dataset, load
from understudy.data.records import Array, Records, concatenate
from understudy.data.schema import Attribute, Schema
from understudy.errors import UserError, did_you_mean
from understudy.progress import Progress


def outside_test(source: str, own: str, like: Records, progress: Progress) -> Records:
    """All of `source` (its test part, where it has one), in the form and classes of `like`.

    Classes are matched by name: they may stand in another order, and some may be missing; one
    that the run does not have is refused. Images are cropped and resized as the run's own were.
    `own`, what the run learnt from, is refused: most of them were learnt from.
    """
    if _is_the_runs_own(source, own):
        raise UserError(
            f"--test {source} is, or lies in, what the run learnt from; name other data, or leave "
            "--test out to use the run's own test part."
        )
    wanted = like.schema.label_attribute
    dataset = _loaded(source, like, progress)
    found = dataset.part("test") if "test" in dataset.parts else _whole(dataset)
    if wanted.name in found.schema.names:  # else its only one: class folders name none
        found = replace(found, schema=found.schema.with_roles(label=wanted.name))
    labels = _recoded(found, wanted, source)
    schema = Schema((wanted,), label=wanted.name)
    return replace(found, attributes={wanted.name: labels}, schema=schema, units=None)


def _is_the_runs_own(test: str, own: str) -> bool:
    if test in catalog() or own in catalog():
        return test == own
    inner, outer = Path(test).expanduser().resolve(), Path(own).expanduser().resolve()
    return inner.is_relative_to(outer) or outer.is_relative_to(inner)


def _loaded(source: str, like: Records, progress: Progress) -> Dataset:
    if not like.is_images:
        return load(source, progress=progress)
    channels, height, width = like.shape
    size = height if height == width else None
    return load(source, size=size, channels=channels, progress=progress)


def _whole(dataset: Dataset) -> Records:
    return concatenate(list(dataset.parts.values()))


def _recoded(records: Records, wanted: Attribute, source: str) -> Array:
    """The labels as codes of the run's classes."""
    for name in records.schema.classes:
        if name not in wanted.classes:
            raise UserError(
                f"--test {source} has a class {name!r} that the run does not have; "
                f"{did_you_mean(name, wanted.classes)}"
            )
    codes = np.array([wanted.classes.index(name) for name in records.schema.classes], np.int64)
    return np.asarray(codes[records.labels])
