"""One evaluation under way: the parts of the data, and what metrics share between them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cached_property
from typing import Literal, TypeVar, cast

import numpy as np
import numpy.typing as npt
import torch

from understudy.data.records import Records
from understudy.errors import UserError
from understudy.evaluate.extractors.extractor import Extractor, load_extractor
from understudy.evaluate.protocol import Protocol
from understudy.evaluate.training import FittedClassifier, fit_classifier
from understudy.progress import Progress

Part = Literal["synthetic", "train", "test"]
Features = npt.NDArray[np.float32]
T = TypeVar("T")


class Case:
    """The synthetic records with the real ones that they are held against.

    Classifiers, accuracies and features are computed when first asked for and kept: the
    classifier trained on real records serves as the reference of one metric and as the
    judge of another.
    """

    def __init__(
        self,
        synthetic: Records,
        train: Records | None,
        test: Records,
        protocol: Protocol,
        *,
        device: torch.device,
        seed: int,
        progress: Progress,
    ) -> None:
        self.synthetic = synthetic
        self.train = train
        self.test = test
        self.protocol = protocol
        self.device = device
        self.seed = seed
        self.progress = progress
        self._classifiers: dict[tuple[Part, str, int], FittedClassifier] = {}
        self._accuracies: dict[tuple[Part, Part, str, int], float] = {}
        self._features: dict[tuple[Part, str], Features] = {}
        self._extractors: dict[str, Extractor] = {}
        self._kept: dict[Hashable, object] = {}

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds of the classifiers; two evaluations with different seeds share none."""
        return tuple(1000 * self.seed + index for index in range(self.protocol.seeds))

    def part(self, part: Part) -> Records:
        records = {"synthetic": self.synthetic, "train": self.train, "test": self.test}[part]
        if records is None:
            raise UserError("needs the real training records, which were not given")
        return records

    def classifier(self, learned: Part, name: str, seed: int) -> FittedClassifier:
        """The named classifier trained on one part, which is all that it has seen."""
        key = (learned, name, seed)
        if key not in self._classifiers:
            self._classifiers[key] = fit_classifier(
                name,
                _cut(self.part(learned), self.protocol.most_training_images, seed),
                self.protocol.training,
                seed=seed,
                device=self.device,
                progress=self.progress,
            )
        return self._classifiers[key]

    def accuracies(self, learned: Part, tested: Part, name: str) -> tuple[float, ...]:
        """For each seed, the accuracy on one part of the classifier trained on another."""
        for seed in self.seeds:
            key = (learned, tested, name, seed)
            if key not in self._accuracies:
                classifier = self.classifier(learned, name, seed)
                self._accuracies[key] = classifier.accuracy(self.part(tested))
        return tuple(self._accuracies[learned, tested, name, seed] for seed in self.seeds)

    @cached_property
    def real(self) -> Part:
        """The real part that synthetic images are compared with."""
        return "train" if self.protocol.fidelity_against == "train" else "test"

    @property
    def stand_in(self) -> Part | None:
        """The other real part, where it is large enough to take the place of the synthetic."""
        other: Part = "test" if self.real == "train" else "train"
        given = other == "test" or self.train is not None
        return other if given and len(self.part(other)) >= self.fidelity_count else None

    @property
    def fidelity_count(self) -> int:
        """Images on each side of a fidelity metric; the same for its reference."""
        sizes = len(self.synthetic), len(self.part(self.real)), self.protocol.fidelity_images
        return min(sizes)

    def drawn(self, part: Part, count: int | None = None) -> Records:
        """Records of a part at random, in random order; fewer are the beginning of more.

        count: as many as a fidelity metric compares (`fidelity_count`) unless given.
        """
        return _drawn(self.part(part), count or self.fidelity_count, self.seed)

    def extractor(self, name: str) -> Extractor:
        """The named extractor, loaded once."""
        if name not in self._extractors:
            self._extractors[name] = load_extractor(name)
        return self._extractors[name]

    def features(self, part: Part, extractor: str, count: int | None = None) -> Features:
        """Features of the images that `drawn` gives; each image is looked at once."""
        wanted = min(count or self.fidelity_count, len(self.part(part)))
        known = self._features.get((part, extractor))
        if known is None or len(known) < wanted:
            images = self.drawn(part, wanted).features[0 if known is None else len(known) :]
            found = self.extractor(extractor).features(images, self.device, self.progress)
            known = found if known is None else np.concatenate([known, found])
            self._features[part, extractor] = known
        return known[:wanted]

    def once(self, key: Hashable, compute: Callable[[], T]) -> T:
        """What several metrics need: computed by the first that asks, then kept."""
        if key not in self._kept:
            self._kept[key] = compute()
        return cast(T, self._kept[key])


def _cut(records: Records, most: int | None, seed: int) -> Records:
    """All records, or as many as allowed at random; what is not cut is not copied."""
    if most is None or len(records) <= most:
        return records
    return _drawn(records, most, seed)


def _drawn(records: Records, count: int, seed: int) -> Records:
    return records.select(np.random.default_rng(seed).permutation(len(records))[:count])
