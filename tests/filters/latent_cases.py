"""Latents for tests: a seeded mixture of Gaussians whose labels are known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from understudy.data.records import Records
from understudy.data.schema import Attribute, Schema

RADIUS = 20.0
TWO = ("no", "yes")


@dataclass(frozen=True)
class FakeEncoder:
    """What a filter asks of an encoder, without one."""

    latent: int = 6
    radius: float = RADIUS
    digest: str = "e" * 64


def mixture(count: int = 2000, width: int = 6, seed: int = 0) -> Records:
    """Labels `hide` and `keep` (independent, fair) and `other`, each on a coordinate of its own."""
    rng = np.random.default_rng(seed)
    codes = {name: rng.integers(0, 2, count) for name in ("hide", "keep", "other")}
    latents = rng.normal(size=(count, width))
    for axis, column in enumerate(codes.values()):
        latents[:, axis] += 3.0 * (column - 0.5)
    return Records(latents.astype(np.float32), codes, schema())


def schema() -> Schema:
    return Schema(tuple(Attribute(name, TWO) for name in ("hide", "keep", "other")))


def linear_accuracy(learned: Records, asked: Records, name: str) -> float:
    """What least squares reads of a label, on records it has not seen."""
    ones = [np.c_[r.features, np.ones(len(r))].astype(np.float64) for r in (learned, asked)]
    target = 2.0 * learned.attributes[name] - 1
    weights = np.linalg.lstsq(ones[0], target, rcond=None)[0]
    return float(((ones[1] @ weights > 0) == (asked.attributes[name] == 1)).mean())
