"""One evaluation under way: the parts of the data, and what metrics share between them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from functools import cached_property
from typing import Literal, TypeVar, cast

import numpy as np
import numpy.typing as npt
import torch

from understudy.data.records import Records
from understudy.errors import UserError
from understudy.evaluation.classifier_figures import (
    ClassifierFigure,
    ClassifierFigures,
    FigureKey,
    records_digest,
)
from understudy.evaluation.classifier_training import (
    FittedClassifier,
    fit_classifier,
    fit_under_rules,
)
from understudy.evaluation.extractors.extractor import Extractor, load_extractor
from understudy.evaluation.protocol import Protocol
from understudy.evaluation.references import References, rule_for_real
from understudy.evaluation.selection import HELD_OUT, RULES
from understudy.progress import Progress

Part = Literal["synthetic", "train", "test"]
Features = npt.NDArray[np.float32]
T = TypeVar("T")


class Case:
    """The synthetic records with the real ones that they are held against.

    Classifiers, their figures and features are computed when first asked for and kept: the
    classifier trained on real records serves as the reference of one metric and as the
    judge of another.

    figures: what is known of classifiers already; only what is not in it is trained for.
    references: where classifiers of real training records are shared with other cases.
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
        figures: ClassifierFigures | None = None,
        references: References | None = None,
    ) -> None:
        self.synthetic = synthetic
        self.train = train
        self.test = test
        self.protocol = protocol
        self.device = device
        self.seed = seed
        self.progress = progress
        self.figures = ClassifierFigures() if figures is None else figures
        self.references = references
        self._classifiers: dict[tuple[Part, str, int], dict[str, FittedClassifier]] = {}
        self._features: dict[tuple[Part, str], Features] = {}
        self._extractors: dict[str, Extractor] = {}
        self._kept: dict[Hashable, object] = {}

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds of the classifiers."""
        return self.protocol.classifier_seeds(self.seed)

    def part(self, part: Part) -> Records:
        records = {"synthetic": self.synthetic, "train": self.train, "test": self.test}[part]
        if records is None:
            raise UserError("needs the real training records, which were not given")
        return records

    def classifier(
        self, learned: Part, name: str, seed: int, selection: str | None = None
    ) -> FittedClassifier:
        """The named classifier trained on one part, with the epoch that a rule chooses.

        selection: one of the protocol's rules; by default the sound one, with which the part
        learned from is all that the classifier has seen.
        """
        key = (learned, name, seed)
        if key not in self._classifiers:
            self._classifiers[key] = self._fitted(learned, name, seed)
        return self._classifiers[key][self._rule_for(learned, selection)]

    def accuracies(
        self, learned: Part, tested: Part, name: str, selection: str | None = None
    ) -> tuple[float, ...]:
        """For each seed, the accuracy on one part of the classifier trained on another."""
        found = self.by_seed(learned, tested, name, selection)
        return tuple(figure.known_accuracy() for figure in found)

    def by_seed(
        self, learned: Part, tested: Part, name: str, selection: str | None = None
    ) -> Iterator[ClassifierFigure]:
        """The figures of one classifier, for each seed; none is made before it is asked for."""
        return (self.figure(learned, tested, name, seed, selection) for seed in self.seeds)

    def figure(
        self, learned: Part, tested: Part, name: str, seed: int, selection: str | None = None
    ) -> ClassifierFigure:
        """What is measured on one part of a classifier trained on another, or why it is not."""
        rule = self._rule_for(learned, selection)
        key = FigureKey(learned, tested, name, rule, seed)
        found = self.figures.find(key)
        if found is None:
            shared = self.references if (learned, tested) == ("train", "test") else None
            found = None if shared is None else shared.figure(self._reference(name, seed), rule)
            if found is None:
                found = self._measured(key, self.part(tested), learned)
                if shared is not None:
                    shared.keep_figure(self._reference(name, seed), found)
            self.figures.keep(found)
        return found

    def _measured(self, key: FigureKey, tested: Records, learned: Part) -> ClassifierFigure:
        try:
            fitted = self.classifier(learned, key.classifier, key.seed, key.rule)
            by_class = fitted.right_by_class(tested)
        except FloatingPointError as error:  # it diverged, and would again
            return ClassifierFigure(*key, accuracy=None, reason=str(error))
        accuracy = sum(right for right, _ in by_class) / len(tested)
        return ClassifierFigure(*key, accuracy, fitted.epoch, fitted.score, by_class=by_class)

    def _reference(self, name: str, seed: int) -> str:
        """How the shared references know one training on the real training records."""
        assert self.references is not None
        return self.references.key(self._real_digests, self.protocol, name, seed)

    @cached_property
    def _real_digests(self) -> dict[str, str]:
        return {"train": records_digest(self.part("train")), "test": records_digest(self.test)}

    def _fitted(self, learned: Part, name: str, seed: int) -> dict[str, FittedClassifier]:
        """The classifiers of one training, shared with other cases where they can be."""
        if learned != "train" or self.references is None:
            return self._trained(learned, name, seed)
        return self.references.fitted(
            self._reference(name, seed),
            lambda: self._trained(learned, name, seed),
            (name, self.part(learned), self.protocol),
            self.device,
        )

    def _trained(self, learned: Part, name: str, seed: int) -> dict[str, FittedClassifier]:
        """One training, and a classifier for each of the protocol's rules."""
        protocol = self.protocol
        records = _cut(self.part(learned), protocol.most_training_images, seed)
        rules = {self._rule_for(learned, rule) for rule in protocol.selections}
        if rules == {HELD_OUT}:
            fitted = fit_classifier(
                name,
                records,
                protocol.training,
                seed=seed,
                device=self.device,
                progress=self.progress,
            )
            return {HELD_OUT: fitted}
        return fit_under_rules(
            name,
            records,
            protocol.training,
            sorted(rules),
            self._looked_at(rules),
            seed=seed,
            device=self.device,
            progress=self.progress,
            epsilon=protocol.selection_epsilon,
        )

    def _rule_for(self, learned: Part, selection: str | None) -> str:
        rule = self.protocol.selections[-1] if selection is None else selection
        return rule_for_real(rule) if learned == "train" else rule

    def _looked_at(self, rules: set[str]) -> dict[str, Records]:
        """The real records that these rules choose on, and no others."""
        sights = {RULES[rule].looks_at for rule in rules}
        seen = {"test": self.test} if "test" in sights else {}
        if "validation" in sights:
            train = self.part("train")
            count = min(len(train), self.protocol.validation_images or len(train))
            seen["validation"] = _drawn(train, count, self.seed)
        return seen

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
