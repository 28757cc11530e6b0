"""Neighbouring datasets, random and adversarial: the same records, and one unit more.

Made of float vectors, since only these can hold what a file of images cannot: values that
are not numbers, infinite, or so large that a norm overflows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from understudy.data.records import Records, concatenate
from understudy.data.schema import Attribute, Schema

WIDTH = 5
CLASSES = ("a", "b", "c")
_LARGEST = float(np.finfo(np.float32).max)
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Neighbours:
    """`records`, and the records of one more unit."""

    name: str
    records: Records
    more: Records

    @property
    def both(self) -> Records:
        return concatenate([self.records, self.more])


def vectors(features: npt.ArrayLike, units: list[str] | None = None) -> Records:
    """Records with these features; the label is the place of the largest, modulo the classes."""
    rows = np.asarray(features, np.float32).reshape(-1, WIDTH)
    codes = np.nan_to_num(rows).argmax(axis=1) % len(CLASSES)
    schema = Schema((Attribute("label", CLASSES),), label="label")
    return Records(rows, {"label": codes}, schema, None if units is None else np.asarray(units))


def adversarial_neighbours() -> list[Neighbours]:
    """One image a unit: every base with an ordinary unit more, a usual base with every unit."""
    bases, units = _bases(), _units()
    pairs = [(b, "ordinary") for b in bases] + [("nine", u) for u in units]
    pairs += [("empty", "not a number"), ("poisoned", "not a number"), ("huge", "huge")]
    return [
        Neighbours(f"{base} + {unit}", vectors(bases[base]), vectors(units[unit]))
        for base, unit in pairs
    ]


def people() -> list[Neighbours]:
    """Units of several images, whose names stand before, between and behind the others."""
    rng = np.random.default_rng(5)
    base = rng.normal(size=(9, WIDTH)).astype(np.float32)
    names = ["m", "b", "b", "x", "m", "m", "c", "x", "b"]
    made = []
    for what, rows in _persons().items():
        for name in ("a", "k", "z"):
            more = vectors(rows, [name] * len(rows))
            made.append(Neighbours(f"{what}, named {name}", vectors(base, names), more))
    nobody = vectors(np.zeros((0, WIDTH)), [])
    made.append(Neighbours("first person", nobody, vectors(base[:4], ["a"] * 4)))
    return made


def opposites(count: int = 12) -> list[Neighbours]:
    """One person, and one more who outweighs and contradicts them, under many names: in some
    pairs both fall into one shard, whose model then turns round."""
    one = np.ones((1, WIDTH), np.float32)
    return [
        Neighbours(
            f"opposites {number}",
            vectors(one, [f"p{number}"]),
            vectors(np.repeat(-one, 3, axis=0), [f"q{number}"] * 3),
        )
        for number in range(count)
    ]


def random_neighbours(count: int, seed: int = 0) -> list[Neighbours]:
    """Records of random number and scale, and one more of random scale."""
    rng = np.random.default_rng(seed)
    made = []
    for number in range(count):
        size = int(rng.integers(0, 12))
        scales = 10.0 ** rng.uniform(-3, 3, (size + 1, 1))
        rows = rng.normal(size=(size + 1, WIDTH)) * scales
        made.append(Neighbours(f"random {number}", vectors(rows[1:]), vectors(rows[:1])))
    return made


def _bases() -> Mapping[str, Floats]:
    rng = np.random.default_rng(3)
    nine = rng.normal(size=(9, WIDTH)).astype(np.float32)
    poisoned = nine.copy()
    poisoned[::2] = np.nan
    return {
        "empty": nine[:0],
        "one": nine[:1],
        "duplicates": np.repeat(nine[:1], 6, axis=0),
        "constant": np.zeros((4, WIDTH), np.float32),
        "huge": np.full((3, WIDTH), _LARGEST, np.float32),
        "poisoned": poisoned,
        "nine": nine,
    }


def _units() -> Mapping[str, Floats]:
    one = np.ones((1, WIDTH), np.float32)
    mixed = one * np.float32(1e3)
    mixed[0, 0] = np.nan
    return {
        "ordinary": 3 * one,
        "opposite": -1e4 * one,
        "nothing": 0 * one,
        "tiny": np.float32(1e-42) * one,
        "huge": np.full_like(one, _LARGEST),
        "infinite": np.full_like(one, np.inf),
        "not a number": np.full_like(one, np.nan),
        "partly not a number": mixed,
        "a duplicate": _bases()["nine"][:1],
    }


def _persons() -> Mapping[str, Floats]:
    one = np.ones((1, WIDTH), np.float32)
    poisoned = np.repeat(one, 4, axis=0)
    poisoned[2] = np.inf
    return {
        "seven alike": np.repeat(2 * one, 7, axis=0),
        "cancelling": np.concatenate([one, -one, one, -one]) * np.float32(1e3),
        "one image poisoned": poisoned,
        "a single image": 5 * one,
    }
