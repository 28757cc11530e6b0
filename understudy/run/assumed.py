"""What a run takes for granted of its records, and its claim therefore does not protect."""

from __future__ import annotations

from understudy.data.load import Dataset
from understudy.run.config import RunConfig


def assumed_public(config: RunConfig, dataset: Dataset, claim: str) -> tuple[str, ...]:
    """What was read off private records without a charge, beside what every claim lists.

    Guarantee: what decides whether a run begins, and the shapes, settings and denominators that
    it follows, is the owner's declaration, or stands here or among what every claim lists. The
    words follow from the declaration alone. A dataset of the catalog is published as a whole:
    beyond its count nothing of it is assumed.

    claim: of the method. A local one releases every record by itself, and so how many there are
        after the split, which moves a record that is replaced.
    """
    count = () if config.count is not None else ("that the declared count is the true one",)
    if dataset.public:
        return count
    local = ("how many records the method was given",) if claim == "local" else ()
    return (*count, *local, *_of_each_record(config), *_read_off(config))


def _of_each_record(config: RunConfig) -> tuple[str, ...]:
    """What a record must be to be one; a file that is none stops the run before it begins."""
    classes = "one of the classes that were declared" if config.classes else "a class"
    unit = "" if config.unit is None else f", and names its {config.unit!r}"
    return (
        "that every part of the data holds an image",
        f"that each image can be read and has {classes}{unit}",
    )


def _read_off(config: RunConfig) -> tuple[str, ...]:
    """What the owner could have declared, and did not."""
    inferred = {
        "that all images are of one size": config.size is None,
        "whether images are grey or in colour": config.channels is None,
        "which classes occur": not config.classes,
        "which columns the data have": config.label is None,
    }
    return tuple(words for words, is_read_off in inferred.items() if is_read_off)
