"""Canaries: units that join a run by the toss of a fair coin, and guesses about the coins."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from understudy.data.records import Records, concatenate

Coins = npt.NDArray[np.bool_]
Scores = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]


def toss(count: int) -> Coins:
    """Fair independent coins from the operating system: True joins."""
    bits = np.frombuffer(os.urandom(-(-count // 8)), dtype=np.uint8)
    return np.unpackbits(bits)[:count].astype(np.bool_)


@dataclass(frozen=True)
class Planting:
    """Records with the canaries whose coin said so among them, after all others.

    joined: the number of each canary that is there, in the order of its record.
    """

    records: Records
    joined: Numbers

    @property
    def others(self) -> Records:
        """The ordinary records alone."""
        return self.records.select(np.arange(len(self.records) - len(self.joined)))


def plant(records: Records, canaries: Records, coins: Coins) -> Planting:
    """The records and those canaries whose coin is True, each a unit of its own."""
    joined = np.flatnonzero(coins)
    chosen = canaries.select(joined)
    if records.units is not None:
        names = np.array([f"canary {number}" for number in joined], dtype=np.str_)
        records = replace(records, units=np.asarray(records.units).astype(np.str_))
        chosen = replace(chosen, units=names)
    return Planting(concatenate([records, chosen]), joined)


def blank_records(like: Records, count: int) -> Records:
    """Records that only hold a place; what they contribute is decided behind the door."""
    return replace(
        like,
        features=np.zeros((count, *like.shape), like.features.dtype),
        attributes={n: np.zeros((count, *c.shape[1:]), c.dtype) for n, c in _columns(like)},
        units=None,
    )


def random_records(like: Records, count: int, seed: int) -> Records:
    """Images (or features) of pure noise with random labels: unlike anything, and each other."""
    rng = np.random.default_rng(seed)
    if like.is_images:
        features = rng.integers(0, 256, (count, *like.shape), dtype=np.uint8)
    else:
        features = rng.standard_normal((count, *like.shape)).astype(like.features.dtype)
    columns = {}
    for name, column in _columns(like):
        classes = len(like.schema.attribute(name).classes)
        codes = rng.integers(0, classes, count)
        soft = np.eye(classes, dtype=column.dtype)[codes]
        columns[name] = soft if column.ndim == 2 else codes.astype(column.dtype)
    return replace(like, features=features, attributes=columns, units=None)


@dataclass(frozen=True)
class Guesses:
    """Which canaries were guessed about, and for each whether it was said to be in."""

    about: Numbers
    said_in: Coins

    def correct(self, coins: Coins) -> int:
        return int((coins[self.about] == self.said_in).sum())


def extremes(scores: Scores, count: int) -> Guesses:
    """Say that the canaries with the highest scores are in and those with the lowest out.

    Half of the guesses each. Scores only have to order the canaries, so this stays right
    where noise is not what the scores assume.
    """
    order = np.argsort(-scores, kind="stable")
    high = (count + 1) // 2
    about = np.concatenate([order[:high], order[len(order) - (count - high) :]])
    return Guesses(about, np.arange(count) < high)


def _columns(like: Records) -> list[tuple[str, npt.NDArray[np.generic]]]:
    return list(like.attributes.items())
