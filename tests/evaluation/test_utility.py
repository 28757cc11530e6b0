"""Utility: what it measures, and that the test part never takes part in choosing."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.evaluation.evaluation_cases import make_case, with_noise
from understudy.data.records import Records
from understudy.evaluation.case import Case, Part
from understudy.evaluation.classifier_figures import ClassifierFigures
from understudy.evaluation.classifier_training import FittedClassifier
from understudy.evaluation.metric import Row
from understudy.evaluation.protocol import Protocol
from understudy.evaluation.utility import (
    Gen2RealAccuracy,
    Gen2RealBalanced,
    Real2GenAccuracy,
    majority_share,
)


def with_labels(records: Records, labels: np.ndarray) -> Records:
    return replace(records, attributes={"digit": labels})


class TestWhatIsMeasured:
    def test_the_value_is_the_mean_over_seeds_of_accuracy_on_real_test_records(
        self, train: Records, test_part: Records, quick: Protocol
    ) -> None:
        case = make_case(with_noise(train, 40), train, test_part, quick, seed=2)
        row = Gen2RealAccuracy("mlp").row(case)
        by_hand = [
            np.mean(
                case.classifier("synthetic", "mlp", seed).predict(test_part.features)
                == test_part.labels
            )
            for seed in (2000, 2001)
        ]
        assert row.value == pytest.approx(np.mean(by_hand))
        assert row.seeds == (2000, 2001)
        assert row.low is not None
        assert row.high is not None
        assert row.low <= row.value <= row.high

    def test_real2gen_judges_the_synthetic_labels(
        self, train: Records, test_part: Records, quick: Protocol
    ) -> None:
        wrong = with_labels(train, (train.labels + 1) % 10)
        right = Real2GenAccuracy("mlp").row(make_case(train, train, test_part, quick))
        swapped = Real2GenAccuracy("mlp").row(make_case(wrong, train, test_part, quick))
        assert right.value is not None
        assert swapped.value is not None
        assert right.value > 0.9
        assert swapped.value < 0.1
        assert swapped.reference == right.reference

    def test_the_reference_is_real_training_on_real_test(
        self, train: Records, test_part: Records, quick: Protocol
    ) -> None:
        noise = replace(
            train,
            features=np.random.default_rng(0).integers(
                0, 256, train.features.shape, dtype=np.uint8
            ),
        )
        row = Gen2RealAccuracy("mlp").row(make_case(noise, train, test_part, quick))
        real = Gen2RealAccuracy("mlp").row(make_case(train, train, test_part, quick))
        assert row.reference == real.value
        assert real.value is not None
        assert row.value is not None
        assert real.value > 0.9 > 0.5 > row.value

    def test_chance_is_the_majority_of_the_part_tested(
        self, train: Records, test_part: Records, quick: Protocol
    ) -> None:
        skewed = train.select(np.flatnonzero((train.labels == 3) | (np.arange(1437) % 5 == 0)))
        case = make_case(skewed, train, test_part, quick)
        assert Gen2RealAccuracy("mlp").row(case).chance == majority_share(test_part)
        assert Real2GenAccuracy("mlp").row(case).chance == majority_share(skewed)
        assert majority_share(skewed) == pytest.approx(np.mean(skewed.labels == 3))

    def test_without_training_records_nothing_is_guessed(
        self, train: Records, test_part: Records, quick: Protocol
    ) -> None:
        case = make_case(train, None, test_part, quick)
        gen2real = Gen2RealAccuracy("mlp").row(case)
        real2gen = Real2GenAccuracy("mlp").row(case)
        assert (gen2real.status, gen2real.reference) == ("ok", None)
        assert (real2gen.status, real2gen.value) == ("failed", None)
        assert real2gen.reason == "needs the real training records, which were not given"

    def test_soft_synthetic_labels_are_taken(
        self, train: Records, test_part: Records, quick: Protocol
    ) -> None:
        soft = with_labels(train, (np.eye(10)[train.labels] * 0.9 + 0.01).astype(np.float32))
        case = make_case(soft, train, test_part, quick)
        value = Gen2RealAccuracy("mlp").row(case).value
        assert value is not None
        assert value > 0.9
        assert Real2GenAccuracy("mlp").row(case).status == "ok"

    def test_one_training_on_real_records_serves_both_metrics(
        self, train: Records, test_part: Records, quick: Protocol, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from understudy.evaluation import case as case_module

        fits: list[int] = []
        original = case_module.fit_classifier

        def counted(*arguments, **named):  # type: ignore[no-untyped-def]
            fits.append(named["seed"])
            return original(*arguments, **named)

        monkeypatch.setattr(case_module, "fit_classifier", counted)
        case = make_case(train, train, test_part, quick)
        Gen2RealAccuracy("mlp").row(case)
        Real2GenAccuracy("mlp").row(case)
        assert sorted(fits) == [0, 0, 1, 1]

    def test_larger_training_sets_are_cut_to_the_protocols_size(
        self, train: Records, test_part: Records, quick: Protocol, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from understudy.evaluation import case as case_module

        sizes: list[int] = []
        original = case_module.fit_classifier

        def counted(name, records, *rest, **named):  # type: ignore[no-untyped-def]
            sizes.append(len(records))
            return original(name, records, *rest, **named)

        monkeypatch.setattr(case_module, "fit_classifier", counted)
        case = make_case(train, train, test_part, replace(quick, most_training_images=100))
        Gen2RealAccuracy("mlp").row(case)
        assert sizes == [100] * 4


class TestEveryClassAlike:
    def test_the_value_is_the_mean_of_the_recalls_and_chance_an_even_guess(
        self, train: Records, test_part: Records, quick: Protocol
    ) -> None:
        skewed = test_part.select(
            np.flatnonzero((test_part.labels != 3) | (np.arange(len(test_part)) % 6 == 0))
        )
        case = make_case(with_noise(train, 60), train, skewed, quick)
        row = Gen2RealBalanced("mlp").row(case)
        said = [case.classifier("synthetic", "mlp", s).predict(skewed.features) for s in (0, 1)]
        for code, one in enumerate(row.classes):
            own = skewed.labels == code
            assert (one.name, one.tested) == (str(code), int(own.sum()))
            assert one.recall == pytest.approx(np.mean([(a[own] == code).mean() for a in said]))
            assert one.reference is not None
        assert row.value == pytest.approx(np.mean([one.recall for one in row.classes]))
        assert row.reference == pytest.approx(np.mean([one.reference for one in row.classes]))
        assert row.chance == pytest.approx(0.1)

    def test_always_answering_the_majority_is_chance(
        self, train: Records, test_part: Records, quick: Protocol
    ) -> None:
        """On faces of which 68% are of one class, .70 looked good."""
        one = train.select(np.flatnonzero(train.labels == 3)[:100])
        many = test_part.select(
            np.flatnonzero((test_part.labels == 3) | (np.arange(len(test_part)) % 4 == 0))
        )
        case = make_case(one, train, many, quick)
        plain, balanced = Gen2RealAccuracy("mlp").row(case), Gen2RealBalanced("mlp").row(case)
        assert plain.value == plain.chance
        assert balanced.value == balanced.chance == pytest.approx(0.1)
        assert [c.name for c in balanced.classes if c.recall == 0] == list("012456789")

    def test_a_class_that_is_not_tested_counts_for_nothing(
        self, train: Records, test_part: Records, quick: Protocol
    ) -> None:
        some = test_part.select(np.flatnonzero(test_part.labels < 4))
        row = Gen2RealBalanced("mlp").row(make_case(train, None, some, quick))
        assert [c.name for c in row.classes] == list("0123")
        assert (row.chance, row.reference) == (0.25, None)
        assert Row.from_json(json.loads(json.dumps(row.to_json()))) == row

    def test_figures_of_version_0_1_have_no_classes_and_say_so(
        self, train: Records, test_part: Records, quick: Protocol
    ) -> None:
        case = make_case(train, train, test_part, replace(quick, seeds=1))
        old = replace(case.figure("synthetic", "test", "mlp", 0), by_class=None)
        case.figures = ClassifierFigures([old])
        row = Gen2RealBalanced("mlp").row(case)
        assert (row.status, row.reason) == (
            "failed",
            "version 0.1 measured these classifiers, and kept no classes",
        )


def choice_depends_on_the_test_part(
    kind: type[Case], synthetic: Records, test: Records, protocol: Protocol
) -> bool:
    """The check: the same synthetic records beside two test parts that disagree on every label.

    A classifier that was chosen without the test part answers alike in both cases.
    """
    answers = []
    for labels in (test.labels, (test.labels + 1) % 10):
        case = kind(
            synthetic,
            None,
            with_labels(test, labels),
            protocol,
            device=torch.device("cpu"),
            seed=0,
            progress=make_case(synthetic, None, test, protocol).progress,
        )
        scores = case.classifier("synthetic", "mlp", 0).network(
            torch.from_numpy(test.features.astype(np.float32) / 127.5 - 1)
        )
        answers.append(scores)
    return not torch.equal(answers[0], answers[1])


class PeekingCase(Case):
    """The planted fault: of several trainings it keeps the one that does best on the test part."""

    def classifier(
        self, learned: Part, name: str, seed: int, selection: str | None = None
    ) -> FittedClassifier:
        candidates = [
            super(PeekingCase, self).classifier(learned, name, seed + i, selection)
            for i in range(4)
        ]
        return max(candidates, key=lambda fitted: fitted.accuracy(self.test))


class TestSelection:
    def test_the_test_part_has_no_say_in_the_choice(
        self, train: Records, test_part: Records, quick: Protocol
    ) -> None:
        synthetic = with_noise(train, 60)
        assert not choice_depends_on_the_test_part(Case, synthetic, test_part, quick)

    def test_a_twin_that_peeks_is_caught(
        self, train: Records, test_part: Records, quick: Protocol
    ) -> None:
        synthetic = with_noise(train, 60)
        assert choice_depends_on_the_test_part(PeekingCase, synthetic, test_part, quick)
