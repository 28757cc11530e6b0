"""References: trained once, given back as they were, and never for other records."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.evaluation.evaluation_cases import with_noise
from understudy.data.records import Records
from understudy.errors import UserError
from understudy.evaluation import case as case_module
from understudy.evaluation.case import Case
from understudy.evaluation.classifier_figures import ClassifierFigure
from understudy.evaluation.protocol import Protocol
from understudy.evaluation.references import References, rule_for_real
from understudy.evaluation.utility import Gen2RealAccuracy, Real2GenAccuracy
from understudy.progress import Silent


def case_of(
    synthetic: Records, train: Records, test: Records, protocol: Protocol, folder: Path | None
) -> Case:
    return Case(
        *(synthetic, train, test, protocol),
        device=torch.device("cpu"),
        seed=0,
        progress=Silent(),
        references=None if folder is None else References(folder, 1),
    )


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many records each training from now on learns from."""
    seen: list[int] = []
    original = case_module.fit_classifier

    def counted(name: str, records: Records, *rest: Any, **named: Any) -> Any:
        seen.append(len(records))
        return original(name, records, *rest, **named)

    monkeypatch.setattr(case_module, "fit_classifier", counted)
    return seen


def test_two_evaluations_share_what_was_trained_on_real_records(
    train: Records, test_part: Records, quick: Protocol, tmp_path: Path, trained: list[int]
) -> None:
    """And find the very figures that each would have found alone."""
    few = with_noise(train, 40).select(np.arange(300))
    for synthetic in (few, with_noise(few, 10)):
        trained.clear()
        alone = case_of(synthetic, train, test_part, quick, None)
        shared = case_of(synthetic, train, test_part, quick, tmp_path / "references")
        for metric in (Gen2RealAccuracy("mlp"), Real2GenAccuracy("mlp")):
            assert metric.row(shared) == metric.row(alone)
    # The second: alone two of each kind; shared nothing but what is synthetic.
    assert sorted(trained) == [300] * 4 + [len(train)] * 2


@pytest.mark.parametrize("changed", ["train", "test", "training", "most", "version"])
def test_anything_that_goes_into_it_is_in_its_key(
    quick: Protocol, tmp_path: Path, changed: str
) -> None:
    digests = {"train": "a", "test": "b"}
    base = References(tmp_path, 1).key(digests, quick, "mlp", 0)
    other = quick
    if changed == "training":
        other = replace(quick, training=replace(quick.training, learning_rate=0.01))
    if changed == "most":
        other = replace(quick, most_training_images=100)
    version = 2 if changed == "version" else 1
    kept = {**digests, **({changed: "c"} if changed in digests else {})}
    assert References(tmp_path, version).key(kept, other, "mlp", 0) != base
    assert References(tmp_path, 1).key(digests, replace(quick, seeds=9), "mlp", 0) == base
    assert base not in {
        References(tmp_path, 1).key(digests, quick, "cnn", 0),
        References(tmp_path, 1).key(digests, quick, "mlp", 1),
    }
    assert len(References(tmp_path, 1).keys(digests, quick, 0)) == 2


def test_figures_from_elsewhere_are_taken_once(tmp_path: Path) -> None:
    figure = ClassifierFigure("train", "test", "mlp", "held-out", 0, 0.5, 1, 0.5)
    there, here = References(tmp_path / "there", 1), References(tmp_path / "here", 1)
    there.keep_figure("key", figure)
    there.keep_figure("key", replace(figure, accuracy=0.9))
    assert here.take(there.folder / "key.json")
    assert not here.take(there.folder / "key.json")
    assert here.figure("key", "held-out") == figure
    assert here.figure("key", "test") is None
    there.keep_figure("other", replace(figure, learned="synthetic"))
    with pytest.raises(UserError, match="no reference"):
        here.take(there.folder / "other.json")


def test_a_rule_that_asks_training_records_has_its_held_out_share_of_them() -> None:
    rules = ("held-out", "last-epoch", "test", "private-validation", "noised-validation")
    assert [rule_for_real(rule) for rule in rules] == [
        *("held-out", "last-epoch", "test"),
        *("held-out", "held-out"),
    ]
