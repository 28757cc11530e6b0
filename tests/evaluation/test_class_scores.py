"""Inception Scores: exact cases, scipy's divergence, and names that keep two kinds apart."""

from __future__ import annotations

import os
from dataclasses import replace
from math import exp, log
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from tests.evaluation.evaluation_cases import make_case, with_noise
from understudy.data.load import load
from understudy.data.records import Records
from understudy.errors import UserError
from understudy.evaluation.case import Case
from understudy.evaluation.class_scores import (
    DatasetClassifierScore,
    InceptionScore,
    score_interval,
    split_scores,
)
from understudy.evaluation.extractors import lenet
from understudy.evaluation.extractors.extractor import Extractor
from understudy.evaluation.protocol import Protocol


class TestFormula:
    @pytest.mark.parametrize("classes", [2, 10, 1008])
    def test_certain_and_even_answers_score_the_number_of_classes(self, classes: int) -> None:
        once = np.eye(classes)
        np.testing.assert_allclose(split_scores(np.tile(once, (10, 1))), classes, rtol=1e-12)

    def test_the_same_answer_for_all_scores_one(self) -> None:
        answer = np.array([0.7, 0.2, 0.1, 0.0])
        np.testing.assert_allclose(split_scores(np.tile(answer, (40, 1))), 1.0, rtol=1e-12)

    def test_two_images_by_hand(self) -> None:
        """(0.9, 0.1) and (0.3, 0.7) have marginal (0.6, 0.4)."""
        rows = [[0.9, 0.1], [0.3, 0.7]]
        kl = (0.9 * log(1.5) + 0.1 * log(0.25) + 0.3 * log(0.5) + 0.7 * log(1.75)) / 2
        assert split_scores(rows, splits=1).tolist() == pytest.approx([exp(kl)])

    def test_it_agrees_with_scipys_divergence_part_by_part(self) -> None:
        p = np.random.default_rng(1).dirichlet([0.3] * 7, size=103)
        expected = [
            exp(np.mean([stats.entropy(row, part.mean(axis=0)) for row in part]))
            for part in np.array_split(p, 10)
        ]
        np.testing.assert_allclose(split_scores(p), expected, rtol=1e-10)

    def test_what_are_no_probabilities_is_refused(self) -> None:
        with pytest.raises(UserError, match="add to 1"):
            split_scores(np.ones((40, 3)))
        with pytest.raises(UserError, match="add to 1"):
            split_scores(np.tile([1.5, -0.5], (40, 1)))
        with pytest.raises(UserError, match="needs 20 images, not 19"):
            split_scores(np.tile([0.5, 0.5], (19, 1)))


class TestInterval:
    def test_one_classifier_has_the_spread_of_its_parts(self) -> None:
        """Ten values 2 or 3: mean 2.5, deviation 0.527, t(9) 2.262."""
        interval = score_interval([np.array([2.0, 3.0] * 5)], classes=10)
        assert interval.value == 2.5
        assert interval.high - 2.5 == pytest.approx(2.2622 * 0.52705 / 10**0.5, rel=1e-4)

    def test_classifiers_that_disagree_widen_it(self) -> None:
        same = score_interval([np.array([2.0, 3.0] * 5)] * 2, classes=10)
        apart = score_interval([np.array([2.0, 3.0] * 5) + d for d in (-0.3, 0.3)], classes=10)
        assert same.value == pytest.approx(apart.value)
        assert apart.high > same.high

    def test_it_stays_between_one_and_the_classes(self) -> None:
        interval = score_interval([np.array([1.0, 2.0] * 5)], classes=2)
        assert interval.low == pytest.approx(1.0, abs=0.2)
        assert score_interval([np.array([1.0, 1.9] * 5) + 0.1], classes=2).high <= 2.0


class TestNames:
    def test_the_two_kinds_have_two_names(self, quick: Protocol) -> None:
        titles = [
            (metric.title, metric.variant, metric.extractor)
            for kind in (InceptionScore, DatasetClassifierScore)
            for metric in kind.instances(
                replace(quick, extractors=("random-conv", "inception-v3", "lenet-mnist"))
            )
        ]
        assert titles == [
            ("Inception Score", "", "inception-v3"),
            ("class score[lenet-mnist]", "", "lenet-mnist"),
            ("dataset-classifier score", "mlp", None),
        ]

    def test_extractors_without_classes_are_passed_over(self, quick: Protocol) -> None:
        assert InceptionScore.instances(replace(quick, extractors=("random-conv",))) == ()


@pytest.fixture
def untrained_lenet(monkeypatch: pytest.MonkeyPatch) -> None:
    """The network of `lenet-mnist` without its weights, for what does not depend on them."""
    network = lenet.LeNet5()
    extractor = Extractor("lenet-mnist", 84, network, lenet.prepare, head=network.fc[2])
    monkeypatch.setattr("understudy.evaluation.case.load_extractor", {"lenet-mnist": extractor}.get)


@pytest.mark.usefixtures("untrained_lenet")
def test_a_pretrained_network_is_asked_for_its_classes(
    train: Records, test_part: Records, quick: Protocol
) -> None:
    case = make_case(train, train, test_part, quick)
    row = InceptionScore("lenet-mnist").row(case)
    assert row.status == "ok", row.reason
    assert row.value is not None
    assert 1.0 <= row.value < 10.0
    assert row.reference == pytest.approx(row.value, rel=0.2)


@pytest.mark.data
def test_real_mnist_is_almost_ten_classes_to_a_network_trained_on_it(quick: Protocol) -> None:
    """GS-WGAN prints 9.80 for real MNIST under its own classifier; ours is LeNet-5."""
    needed = {
        "UNDERSTUDY_WEIGHTS": "lenet_mnist.npz",
        "UNDERSTUDY_DATA": "mnist/t10k-images-idx3-ubyte.gz",
    }
    for variable, file in needed.items():
        if not (Path(os.environ.get(variable, "")) / file).is_file():
            pytest.skip(f"{file} is not under ${variable}")
    test = load("mnist").parts["test"]
    case = make_case(test, None, test, replace(quick, fidelity_images=5000))
    row = InceptionScore("lenet-mnist").row(case)
    assert row.value == pytest.approx(9.7, abs=0.2)
    assert row.reference == row.value


@pytest.fixture(scope="module")
def judged(train: Records, test_part: Records, quick: Protocol) -> Case:
    """A case whose classifiers are trained once; tests put other synthetic records into it."""
    recipe = replace(quick, training=replace(quick.training, least_steps=150))
    return make_case(train, train, test_part, recipe)


class TestDatasetClassifier:
    def test_real_digits_are_almost_ten_classes_and_noise_is_not(
        self, judged: Case, train: Records
    ) -> None:
        rows = []
        one = train.select(np.flatnonzero(train.labels == 3))
        for synthetic in (train, with_noise(train, 120.0), one):
            judged.synthetic = synthetic
            rows.append(DatasetClassifierScore("mlp").row(judged))
        values = [row.value or 0.0 for row in rows]
        assert [row.status for row in rows] == ["ok"] * 3
        assert 6.0 < values[0] <= 10.0
        assert values[0] > values[1] > values[2]
        assert values[2] < 2.0
        assert rows[0].seeds == (0, 1)
        assert rows[0].reference == pytest.approx(values[0], abs=1.0)

    def test_it_needs_label_and_training_records(
        self, train: Records, test_part: Records, quick: Protocol
    ) -> None:
        row = DatasetClassifierScore("mlp").row(make_case(train, None, test_part, quick))
        assert row.reason == "needs the real training records, which were not given"

    def test_probabilities_are_those_of_the_prediction(
        self, judged: Case, test_part: Records
    ) -> None:
        network = judged.classifier("train", "mlp", 0)
        found = network.probabilities(test_part.features)
        np.testing.assert_allclose(found.sum(axis=1), 1.0)
        assert (found.argmax(axis=1) == network.predict(test_part.features)).all()
