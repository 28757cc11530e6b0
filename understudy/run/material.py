"""From the owner's source to the records of a run, and how many of them are declared."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from understudy.data.dedup import deduplicate
from understudy.data.load import Dataset, load
from understudy.data.records import Records
from understudy.data.splits import keyed_split
from understudy.errors import UserError
from understudy.progress import Progress
from understudy.run.books import open_book
from understudy.run.config import RunConfig
from understudy.run.limit import limited_test, limited_train


@dataclass(frozen=True)
class Material:
    """The owner's records of a run: what a method may learn from, and the test part."""

    dataset: Dataset
    private: Records
    test: Records | None
    split: str
    dropped: int


def gather(
    config: RunConfig,
    home: Path | None,
    progress: Progress,
    split_key: bytes | None = None,
    *,
    needs_label: bool = True,
) -> Material:
    """Read the source and divide it; a record's part depends on the record alone."""
    dataset = load(
        config.source,
        label=config.label,
        unit=config.unit,
        size=config.size,
        channels=config.channels,
        classes=config.classes or None,
        progress=progress,
    )
    if "all" not in dataset.parts:
        train, dropped = _prepared_part(dataset.part("train"), config, needs_label)
        split = "stratified" if "stratified" in (dataset.split or "") else "given"
        return Material(dataset, train, dataset.parts.get("test"), split, dropped)
    everything, dropped = _prepared_part(dataset.part("all"), config, needs_label)
    fractions = {"train": 1 - config.holdout, "test": config.holdout}
    key = open_book(config, home).split_key() if split_key is None else split_key
    halves = keyed_split(everything, fractions, key)
    return Material(dataset, halves["train"], halves["test"], "keyed-hash", dropped)


def limited(material: Material, declared: int, most: int, key: bytes) -> Material:
    """About `most` of the declared private records, and at most so many to test on."""
    private = limited_train(material.private, declared, most, key)
    return replace(material, private=private, test=limited_test(material.test, most))


def warn_of_empty_parts(
    dataset: str, parts: Mapping[str, Records], test: Records | None, progress: Progress
) -> None:
    """Say to the owner which parts no record fell into, and no more: a mechanism releases noise
    then, and nobody else may know."""
    looked_at = {**parts, **({} if test is None else {"test": test})}
    for part in (name for name, records in looked_at.items() if not len(records)):
        progress.say(f"warning: no record fell into the {part} part of {dataset}.")


def declared_counts(config: RunConfig, material: Material) -> tuple[int, int]:
    """How many units the owner declares in all, and how many of them are to learn from (rule 3)."""
    dataset = material.dataset
    whole = dataset.parts.get("all", dataset.parts.get("train"))
    if whole is None:
        raise UserError(f"{dataset.name} has no part to learn from.")
    count = config.count if config.count is not None else _units(whole)
    train = training_count(count, dataset, config.holdout)
    if train < 2:
        raise UserError(
            f"a count of {count} leaves {train} to learn from; give more data, "
            "a larger --count or a smaller --holdout."
        )
    return count, train


def training_count(count: int, dataset: Dataset, holdout: float) -> int:
    """How many of so many declared units are to learn from: data that come whole are split."""
    return math.floor(count * (1 - holdout)) if "all" in dataset.parts else count


def _prepared_part(records: Records, config: RunConfig, needs_label: bool) -> tuple[Records, int]:
    """The records with the columns that the run names, without duplicates.

    Other columns go first: whether a column is an attribute at all can hang on a single
    record (an empty cell), and then so would what counts as a duplicate of every other.
    """
    schema = records.schema.with_roles(sensitive=config.hide, utility=config.keep)
    label = schema.label_attribute.name if needs_label else schema.label
    named = {label, *schema.sensitive, *schema.utility}
    kept = tuple(a for a in schema.attributes if a.name in named)
    narrowed = replace(
        records,
        attributes={a.name: records.attributes[a.name] for a in kept},
        schema=replace(schema, attributes=kept),
    )
    unique = deduplicate(narrowed)
    return unique.records, unique.dropped


def _units(records: Records) -> int:
    return len(records) if records.units is None else len(np.unique(records.units))
