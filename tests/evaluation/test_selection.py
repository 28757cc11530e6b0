"""Rules that choose an epoch: what each keeps, what each sees, and how rows name it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.evaluation.evaluation_cases import make_case, with_noise
from understudy.data.records import Records
from understudy.evaluation import classifier_training as training_module
from understudy.evaluation.classifier_figures import ClassifierFigure
from understudy.evaluation.classifier_training import FittedClassifier, fit_under_rules
from understudy.evaluation.evaluate import evaluate
from understudy.evaluation.metric import Evaluation, Row
from understudy.evaluation.metric_table import render_table
from understudy.evaluation.protocol import Protocol
from understudy.evaluation.selection import RULES, required_stamps
from understudy.progress import Silent

CPU = torch.device("cpu")


def fit(
    records: Records,
    protocol: Protocol,
    rules: tuple[str, ...],
    outside: dict[str, Records] | None = None,
    **training: object,
) -> dict[str, FittedClassifier]:
    settings = replace(protocol.training, epochs=5, least_steps=0, **training)
    return fit_under_rules(
        *("mlp", records, settings, rules, outside or {}),
        seed=0,
        device=CPU,
        progress=Silent(),
        epsilon=protocol.selection_epsilon,
    )


@pytest.fixture(scope="module")
def few(train: Records) -> Records:
    return train.select(np.arange(200))


def flat(fitted: FittedClassifier) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in fitted.network.parameters()])


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Epochs 2 and 4 tie outside; held-out records prefer epoch 1."""
    outside = iter([0.3, 0.9, 0.5, 0.9, 0.1])
    held = iter([(0.9, -1.0), (0.8, -1.0), (0.7, -1.0), (0.6, -1.0), (0.5, -1.0)])
    monkeypatch.setattr(training_module, "_holdout_score", lambda *_: next(held))
    monkeypatch.setattr(FittedClassifier, "accuracy", lambda *_: next(outside))


@pytest.mark.usefixtures("scripted")
def test_one_training_serves_every_rule(few: Records, quick: Protocol) -> None:
    found = fit(few, quick, ("held-out", "test", "last-epoch"), {"test": few})
    assert {rule: f.epoch for rule, f in found.items()} == {
        "held-out": 1,
        "test": 4,
        "last-epoch": 5,
    }
    assert {rule: f.score for rule, f in found.items()} == {
        "held-out": 0.9,
        "test": 0.9,
        "last-epoch": None,
    }
    assert not torch.equal(flat(found["held-out"]), flat(found["test"]))


@pytest.mark.usefixtures("scripted")
def test_patience_ends_the_training(few: Records, quick: Protocol) -> None:
    found = fit(few, quick, ("held-out", "last-epoch"), patience=2)
    assert found["last-epoch"].epoch == 3


def test_a_rule_sees_only_what_it_is_given(few: Records, quick: Protocol) -> None:
    with pytest.raises(KeyError, match="test"):
        fit(few, quick, ("test",), {"validation": few})


def test_dropout_and_first_weights_come_from_the_seed(train: Records, quick: Protocol) -> None:
    big = train.features[:200].repeat(3, axis=2).repeat(3, axis=3)
    records = replace(train.select(np.arange(200)), features=big)
    state = torch.get_rng_state()
    one, two = (
        fit_under_rules(
            *("cnn-dpdm", records, replace(quick.training, least_steps=2), ("last-epoch",), {}),
            seed=3,
            device=CPU,
            progress=Silent(),
        )["last-epoch"]
        for _ in range(2)
    )
    assert torch.equal(flat(one), flat(two))
    assert torch.equal(torch.get_rng_state(), state)


def test_without_a_holdout_every_record_is_trained_on(
    few: Records, quick: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: set[int] = set()
    step = training_module._train_step

    def spy(network, records, batch, *rest):  # type: ignore[no-untyped-def]
        seen.update(batch.tolist())
        step(network, records, batch, *rest)

    monkeypatch.setattr(training_module, "_train_step", spy)
    fit(few, quick, ("last-epoch",), holdout=0)
    assert seen == set(range(len(few)))


def chosen_epochs(
    few: Records, quick: Protocol, epsilon: float, monkeypatch: pytest.MonkeyPatch
) -> int:
    """The epoch that a noised rule picks when epoch 3 is right on every record."""
    outside = iter([0.0, 0.0, 1.0, 0.0, 0.0])
    monkeypatch.setattr(FittedClassifier, "accuracy", lambda *_: next(outside))
    noised = quick.changed(
        {"selection": "noised-validation", "selection_epsilon": epsilon, "validation_images": 9}
    )
    return fit(few, noised, ("noised-validation",), {"validation": few})["noised-validation"].epoch


def test_the_noise_of_a_noised_rule_is_added(
    few: Records, quick: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    """200 right answers outweigh noise of scale 1; they drown in noise of a million."""
    assert chosen_epochs(few, quick, 1.0, monkeypatch) == 3
    assert chosen_epochs(few, quick, 1e-6, monkeypatch) != 3


@pytest.fixture(scope="module")
def peeking(train: Records, test_part: Records, quick: Protocol) -> Evaluation:
    protocol = replace(quick, classifiers=("mlp", "mlp-100")).changed(
        {
            "metrics": ["gen2real", "real2gen"],
            "selection": "test",
            "summaries": ["mean", "best"],
            "training": {"epochs": 6, "least_steps": 0, "learning_rate": 0.02},
        }
    )
    return evaluate(with_noise(train, 90), train, test_part, protocol, device="cpu")


def by_variant(evaluation: Evaluation, metric: str = "gen2real accuracy") -> dict[str, Row]:
    return {row.variant: row for row in evaluation.rows if row.metric == metric}


def value(row: Row) -> float:
    assert row.value is not None
    return row.value


def test_both_figures_stand_side_by_side_and_name_their_rule(peeking: Evaluation) -> None:
    rows = by_variant(peeking)
    assert {variant: row.selection for variant, row in rows.items()} == {
        "mlp, chosen on test": "test",
        "mlp": "held-out",
        "mlp-100, chosen on test": "test",
        "mlp-100": "held-out",
        "mean of mlp, mlp-100, chosen on test": "test",
        "mean of mlp, mlp-100": "held-out",
        "best of mlp, mlp-100, chosen on test": "test",
        "best of mlp, mlp-100": "held-out",
    }
    assert {r.selection for r in by_variant(peeking, "real2gen accuracy").values()} == {"held-out"}


def test_choosing_on_the_test_set_never_loses(peeking: Evaluation) -> None:
    """The same trainings: the best epoch on the test set is at least any other epoch."""
    rows = by_variant(peeking)
    for name in ("mlp", "mlp-100", "mean of mlp, mlp-100", "best of mlp, mlp-100"):
        assert value(rows[f"{name}, chosen on test"]) >= value(rows[name])
    gains = [value(rows[f"{n}, chosen on test"]) - value(rows[n]) for n in ("mlp", "mlp-100")]
    assert max(gains) > 0, "six epochs on noisy digits choose alike: the case shows nothing"


def test_figures_over_classifiers_are_what_they_say(peeking: Evaluation) -> None:
    rows = by_variant(peeking)
    singles = [value(rows[name]) for name in ("mlp", "mlp-100")]
    assert value(rows["mean of mlp, mlp-100"]) == pytest.approx(np.mean(singles))
    on_test = [value(rows[f"{name}, chosen on test"]) for name in ("mlp", "mlp-100")]
    assert value(rows["best of mlp, mlp-100, chosen on test"]) >= max(on_test)


def test_the_best_is_chosen_seed_by_seed_by_the_rule_and_not_by_the_result(
    train: Records, test_part: Records, quick: Protocol
) -> None:
    from understudy.evaluation.utility import Gen2RealSummary

    case = make_case(train, None, test_part, replace(quick, classifiers=("mlp", "mlp-100")))
    accuracies = {"mlp": (0.5, 0.9), "mlp-100": (0.7, 0.6)}
    scores = {("mlp", 0): 0.8, ("mlp-100", 0): 0.1, ("mlp", 1): 0.2, ("mlp-100", 1): 0.3}
    for (name, seed), score in scores.items():
        accuracy = accuracies[name][seed]
        case.figures.keep(
            ClassifierFigure("synthetic", "test", name, "held-out", seed, accuracy, 1, score)
        )

    def found(summary: str) -> tuple[float, ...]:
        row = Gen2RealSummary(summary, ("mlp", "mlp-100"), "held-out")
        return row.accuracies(case, "synthetic", "test")

    assert found("best") == (0.5, 0.6)
    assert found("best-on-test") == (0.7, 0.9)
    assert found("mean") == pytest.approx((0.6, 0.75))


def test_a_best_classifier_chosen_on_test_is_named_so() -> None:
    from understudy.evaluation.utility import Gen2RealSummary

    row = Gen2RealSummary("best-on-test", ("a", "b"), "private-validation")
    assert row.variant == "best of a, b, chosen on test; epochs by private-validation"
    assert row.selection == "test"
    assert Gen2RealSummary("best-on-test", ("a", "b"), "test").variant == (
        "best of a, b, chosen on test"
    )


def test_one_figure_has_one_row(quick: Protocol) -> None:
    from understudy.evaluation.utility import Gen2RealAccuracy

    protocol = quick.changed({"selection": "test", "summaries": ["best", "best-on-test"]})
    assert [metric.variant for metric in Gen2RealAccuracy.instances(protocol)] == [
        "mlp, chosen on test",
        "mlp",
        "best of mlp, chosen on test",
        "best of mlp",
        "best of mlp, chosen on test; epochs by held-out",
        "mlp",
    ]
    balanced = Gen2RealAccuracy.instances(protocol)[-1]
    assert (balanced.title, balanced.selection) == ("gen2real balanced accuracy", "held-out")


def test_the_table_ends_with_the_warning(peeking: Evaluation) -> None:
    assert peeking.benchmark_only
    assert (
        "chosen on the test set: a benchmark's figure, never releasable"
        in (render_table(peeking).splitlines()[-1])
    )


def test_validation_records_come_from_the_training_part(
    train: Records, test_part: Records, quick: Protocol
) -> None:
    protocol = quick.changed({"selection": "private-validation", "validation_images": 50})
    case = make_case(with_noise(train, 60), train, test_part, protocol)
    seen = case._looked_at({"private-validation"})
    assert set(seen) == {"validation"}
    assert len(seen["validation"]) == 50
    known = {image.tobytes() for image in train.features}
    assert all(image.tobytes() in known for image in seen["validation"].features)
    chosen = case.classifier("synthetic", "mlp", 0, "private-validation")
    assert chosen.score == chosen.accuracy(seen["validation"])
    assert chosen is not case.classifier("synthetic", "mlp", 0), "sound unless asked"
    held_out = case.classifier("train", "mlp", 0, "held-out")
    assert case.classifier("train", "mlp", 0, "private-validation") is held_out
    bare = make_case(train, None, test_part, protocol)
    rows = evaluate(train, None, test_part, protocol.changed({"metrics": ["gen2real"]}))
    assert rows.rows[0].reason == "needs the real training records, which were not given"
    assert bare.train is None


def test_references_can_be_left_out(few: Records, test_part: Records, quick: Protocol) -> None:
    protocol = replace(quick, metrics=("gen2real",), real_reference=False)
    for row in evaluate(few, few, test_part, protocol, device="cpu").rows:
        assert (row.status, row.reference) == ("ok", None)


def test_every_rule_that_looks_at_real_records_demands_a_stamp() -> None:
    for name, rule in RULES.items():
        looks = rule.looks_at in ("validation", "test")
        assert rule.benchmark_only == looks
        assert bool(required_stamps(name, ())) == looks
        assert bool(rule.suffix) == looks
    assert required_stamps("held-out", ("best-on-test",)) == required_stamps("test", ())
