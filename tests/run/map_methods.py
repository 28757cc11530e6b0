"""Methods that return a map: of records with noise of their own, and of records as they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

import understudy.authoring as us

RADIUS = 1.0


@dataclass(frozen=True)
class MapConfig:
    brightness: float = us.setting(1.0, "of every picture that leaves", low=0.0, high=1.0)


@dataclass(frozen=True)
class NoisyCopies:
    """Each record leaves by itself, with its own noise."""

    sigma: float

    def apply(self, private: us.PrivateRecords) -> us.Records:
        noisy = private.transform(us.LocalNoise(RADIUS, self.sigma), "each with its own noise")
        pixels = np.clip(255 * noisy.features, 0, 255).astype(np.uint8)
        return us.Images(pixels, {}, us.Schema(()))

    def save(self, folder: Path) -> None:
        us.save_state(folder, "map", us.State(values={"sigma": self.sigma}))

    @classmethod
    def load(cls, folder: Path) -> NoisyCopies:
        return cls(us.load_state(folder, "map").values["sigma"])


@dataclass(frozen=True)
class Darkened:
    """Each record leaves as it is, only darker."""

    brightness: float

    def apply(self, private: us.PrivateRecords) -> us.Records:
        def darkened(records: us.Records) -> us.Records:
            pixels = (self.brightness * records.features).astype(np.uint8)
            return us.Images(pixels, records.attributes, records.schema)

        return private.transform(darkened, "darker copies, which have no epsilon")

    def save(self, folder: Path) -> None:
        us.save_state(folder, "map", us.State(values={"brightness": self.brightness}))

    @classmethod
    def load(cls, folder: Path) -> Darkened:
        return cls(us.load_state(folder, "map").values["brightness"])


class LocalCopies:
    """Guarantee: (epsilon, delta) of one local Gaussian, per record under replace-one."""

    info: ClassVar[us.MethodInfo] = us.MethodInfo(
        name="local-copies",
        summary="every picture with noise of its own",
        paper="none: made for a test",
        family="test",
        claim="local",
        maps="train",
        mechanism="local Gaussian noise",
    )
    Config: ClassVar[type] = MapConfig
    Output: ClassVar[type] = NoisyCopies

    def spend(self, config: MapConfig, facts: us.Facts) -> us.Spend:
        del config, facts
        return lambda sigma: [us.LocalRelease("copies", radius=RADIUS, sigma=sigma)]

    def fit(
        self,
        config: MapConfig,
        parts: us.Parts,
        plan: us.Plan,
        public: us.PublicInputs,
        context: us.Context,
    ) -> NoisyCopies:
        del config, parts, public, context
        return NoisyCopies(plan.mechanism("copies", us.LocalRelease).sigma)


@dataclass(frozen=True)
class Unrounded(NoisyCopies):
    """It lets out numbers, which no release can hold."""

    def apply(self, private: us.PrivateRecords) -> us.Records:
        return private.transform(us.LocalNoise(RADIUS, self.sigma), "each with its own noise")


class NumbersLeave(LocalCopies):
    """As `LocalCopies`, but what leaves is not made into pictures."""

    Output: ClassVar[type] = Unrounded

    def fit(
        self,
        config: MapConfig,
        parts: us.Parts,
        plan: us.Plan,
        public: us.PublicInputs,
        context: us.Context,
    ) -> Unrounded:
        del config, parts, public, context
        return Unrounded(plan.mechanism("copies", us.LocalRelease).sigma)


class DarkCopies:
    """Guarantee: none. One part teaches nothing here; the other leaves, and the plan says so."""

    info: ClassVar[us.MethodInfo] = us.MethodInfo(
        name="dark-copies",
        summary="darker pictures",
        paper="none: made for a test",
        family="test",
        claim="empirical",
        parts={"learn": 0.25, "leave": 0.75},
        maps="leave",
        mechanism="a reveal",
    )
    Config: ClassVar[type] = MapConfig
    Output: ClassVar[type] = Darkened

    def spend(self, config: MapConfig, facts: us.Facts) -> us.Spend:
        del config, facts
        return lambda _: [us.Reveal("copies", "darker copies leave", part="leave")]

    def fit(
        self,
        config: MapConfig,
        parts: us.Parts,
        plan: us.Plan,
        public: us.PublicInputs,
        context: us.Context,
    ) -> Darkened:
        del parts, plan, public, context
        return Darkened(config.brightness)


class SaysTooLate(DarkCopies):
    """It returns a map of records and did not say so."""

    info: ClassVar[us.MethodInfo] = us.MethodInfo(
        name="says-too-late",
        summary="darker pictures",
        paper="none: made for a test",
        family="test",
        claim="empirical",
        mechanism="a reveal",
    )

    def spend(self, config: MapConfig, facts: us.Facts) -> us.Spend:
        del config, facts
        return lambda _: [us.Reveal("copies", "darker copies leave")]


class CountsItsRecords:
    """A fixed set as large as what it was given: `size` cannot say so."""

    info: ClassVar[us.MethodInfo] = us.MethodInfo(
        name="counts-its-records",
        summary="a blank picture for each private one",
        paper="none: made for a test",
        family="test",
        claim="empirical",
        mechanism="a reveal",
    )
    Config: ClassVar[type] = MapConfig
    Output: ClassVar[type] = us.RecordSet

    def spend(self, config: MapConfig, facts: us.Facts) -> us.Spend:
        del config, facts
        return lambda _: [us.Reveal("all", "to count them")]

    def size(self, config: MapConfig, facts: us.Facts) -> int:
        del config
        return facts.counts["train"]

    def fit(
        self,
        config: MapConfig,
        parts: Mapping[str, us.PrivateRecords],
        plan: us.Plan,
        public: us.PublicInputs,
        context: us.Context,
    ) -> us.RecordSet:
        del config, plan, public, context
        found: Any = parts["train"].reveal("to count them")
        blank = np.zeros_like(found.features)
        return us.RecordSet(us.Images(blank, found.attributes, found.schema))
