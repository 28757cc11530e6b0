"""Figures of classifiers: kept once, told apart by what they are of, used instead of training."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from tests.evaluation.evaluation_cases import make_case, with_noise
from understudy.data.records import Records
from understudy.data.schema import Attribute, Schema
from understudy.errors import UserError
from understudy.evaluation import case as case_module
from understudy.evaluation.case import Case
from understudy.evaluation.classifier_figures import (
    Binding,
    ClassifierFigure,
    ClassifierFigures,
    only_label,
    records_digest,
)
from understudy.evaluation.protocol import Protocol, load_protocol
from understudy.evaluation.utility import (
    Gen2RealAccuracy,
    learns_from_real,
    needs_training,
    train_for,
)
from understudy.progress import Silent

FIGURE = ClassifierFigure("synthetic", "test", "mlp", "held-out", 0, 0.25, 3, 0.75)


def test_a_figure_comes_back_from_json_and_the_first_of_a_key_stays() -> None:
    assert ClassifierFigure.from_json(FIGURE.to_json()) == FIGURE
    news: list[int] = []
    table = ClassifierFigures([FIGURE], lambda: news.append(1))
    table.keep(replace(FIGURE, accuracy=0.9))
    assert table.find(FIGURE.key) == FIGURE
    assert news == []
    table.keep(replace(FIGURE, seed=1))
    assert (len(table), news) == (2, [1])


def test_known_figures_are_measured_by_nobody(
    train: Records, test_part: Records, quick: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(case_module, "fit_classifier", None)
    case = make_case(train, None, test_part, quick)
    for seed, accuracy in ((0, 0.25), (1, 0.75)):
        case.figures.keep(replace(FIGURE, seed=seed, accuracy=accuracy))
    assert Gen2RealAccuracy("mlp").row(case).value == 0.5


def test_all_trainings_leave_nothing_to_train(
    train: Records, test_part: Records, quick: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    protocol = replace(quick, metrics=("gen2real", "precision", "real2gen"))
    case = make_case(with_noise(train, 40), train, test_part, protocol)
    train_for(case)
    assert {(f.learned, f.tested, f.seed) for f in case.figures} == {
        (learned, tested, seed)
        for learned, tested in (("synthetic", "test"), ("train", "test"), ("train", "synthetic"))
        for seed in (0, 1)
    }
    monkeypatch.setattr(case_module, "fit_classifier", None)
    again = make_case(with_noise(train, 40), train, test_part, protocol)
    for figure in case.figures:
        again.figures.keep(figure)
    rows = [Gen2RealAccuracy("mlp").row(one) for one in (case, again)]
    assert rows[0] == rows[1]
    assert needs_training(protocol)
    assert not needs_training(replace(protocol, metrics=("precision",)))


def test_a_training_that_diverged_is_a_figure_and_is_not_tried_again(
    train: Records, test_part: Records, quick: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []

    def diverges(name: str, *_: Any, **__: Any) -> None:
        tried.append(name)
        raise FloatingPointError("training of mlp with seed 0 diverged")

    monkeypatch.setattr(case_module, "fit_classifier", diverges)
    case = make_case(train, None, test_part, quick)
    train_for(case)
    row = Gen2RealAccuracy("mlp").row(case)
    assert (row.status, row.reason) == (
        "failed",
        "FloatingPointError: training of mlp with seed 0 diverged",
    )
    assert tried == ["mlp"]
    (figure,) = case.figures
    assert figure.accuracy is None
    assert ClassifierFigure.from_json(figure.to_json()) == figure


def test_a_digest_is_of_what_a_classifier_learns_from(train: Records) -> None:
    base = records_digest(train)
    labels = train.labels.copy()
    labels[5] = (labels[5] + 1) % 10
    pixels = train.features.copy()
    pixels[7, 0, 3, 3] ^= 1
    renamed = Schema((Attribute("digit", tuple("abcdefghij")),), label="digit")
    others = [
        replace(train, attributes={"digit": labels}),
        replace(train, features=pixels),
        replace(train, features=train.features.reshape(len(train), 1, 4, 16)),
        replace(train, schema=renamed),
        train.select(np.arange(1, len(train))),
    ]
    assert len({base, *map(records_digest, others)}) == 6
    narrow = replace(train, attributes={"digit": train.labels.astype(np.int16)})
    with_units = replace(narrow, units=np.arange(len(train)))
    assert records_digest(with_units) == records_digest(only_label(with_units)) == base
    assert only_label(with_units).units is None


def test_a_binding_names_the_first_thing_that_differs(
    train: Records, test_part: Records, quick: Protocol
) -> None:
    binding = Binding.of(train, train, test_part, quick, seed=0, version=1)
    binding.check(Binding.of(train, train, test_part, quick, seed=0, version=1), "it")
    others = {
        "other samples": Binding.of(test_part, train, test_part, quick, seed=0, version=1),
        "other real training": Binding.of(train, test_part, test_part, quick, seed=0, version=1),
        "other test records": Binding.of(train, train, train, quick, seed=0, version=1),
        "another protocol": Binding.of(
            train, train, test_part, replace(quick, seeds=3), seed=0, version=1
        ),
        "another seed": replace(binding, seed=1),
        "another version": replace(binding, version=2),
    }
    for words, other in others.items():
        with pytest.raises(UserError, match=words):
            binding.check(other, "it")


def test_real_records_are_learned_from_where_a_metric_or_a_rule_asks_them(quick: Protocol) -> None:
    plain = replace(quick, metrics=("gen2real",))
    assert not learns_from_real(plain)
    assert learns_from_real(replace(plain, metrics=("gen2real", "real2gen")))
    assert learns_from_real(load_protocol("dpimagebench-validation"))
    assert not learns_from_real(load_protocol("diffusion-quality"))


def test_the_score_that_chose_comes_with_the_figure(
    train: Records, test_part: Records, quick: Protocol
) -> None:
    case = Case(
        train,
        None,
        test_part,
        quick,
        device=torch.device("cpu"),
        seed=0,
        progress=Silent(),
    )
    figure = case.figure("synthetic", "test", "mlp", 0)
    fitted = case.classifier("synthetic", "mlp", 0)
    assert (figure.epoch, figure.score) == (fitted.epoch, fitted.score)
    assert figure.known_accuracy() == fitted.accuracy(test_part)
    assert figure.by_class == fitted.right_by_class(test_part)
    assert ClassifierFigure.from_json(json.loads(json.dumps(figure.to_json()))) == figure
