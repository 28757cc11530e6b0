"""FLD and its kin on real digits: what copies, noise and new images do to it."""

from __future__ import annotations

from dataclasses import replace
from math import log

import numpy as np
import pytest
import torch

from tests.evaluation.evaluation_cases import make_case, with_noise
from understudy.data.records import Records, concatenate
from understudy.errors import UserError
from understudy.evaluation.case import Case
from understudy.evaluation.likelihood import (
    FeatureLikelihood,
    FeatureLikelihoodDivergence,
    FeatureLikelihoodGap,
    FeatureLikelihoodOnTrain,
    Split,
    compare_likelihoods,
)
from understudy.evaluation.metric import Row
from understudy.evaluation.protocol import Protocol

ALL = (FeatureLikelihoodDivergence, FeatureLikelihoodOnTrain, FeatureLikelihoodGap)
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def cases(train: Records, test_part: Records, quick: Protocol) -> dict[str, Case]:
    """Training images that the method has not seen stand for a perfect sampler."""
    seen, unseen = train.select(np.arange(800)), train.select(np.arange(800, 1200))
    drawn = make_case(unseen, seen, test_part, quick).drawn("train", 400)
    copied = concatenate([drawn.select(np.arange(200, 350)), unseen.select(np.arange(50))])
    sets = {
        "new": unseen,
        "noisy": with_noise(unseen, 60.0),
        "most copied": copied,
        "all copied": drawn.select(np.arange(200, 400)),
        "one image": unseen.select(np.zeros(200, dtype=np.int64)),
    }
    return {name: make_case(s, seen, test_part, quick) for name, s in sets.items()}


@pytest.fixture(scope="module")
def rows(cases: dict[str, Case]) -> dict[str, dict[str, Row]]:
    return {
        name: {kind.name: kind("random-conv").row(case) for kind in ALL}
        for name, case in cases.items()
    }


def value(row: Row) -> float:
    assert row.status == "ok", row.reason
    assert row.value is not None
    return row.value


def test_new_images_of_the_same_law_score_about_zero(rows: dict[str, dict[str, Row]]) -> None:
    new = rows["new"]["FLD"]
    assert abs(value(new)) < 5
    assert new.reference == 0.0
    assert new.low is not None
    assert new.high is not None
    assert new.low < value(new) < new.high


@pytest.mark.parametrize("worse", ["noisy", "most copied", "all copied", "one image"])
def test_noise_copies_and_collapse_each_make_it_worse(
    rows: dict[str, dict[str, Row]], worse: str
) -> None:
    low = rows[worse]["FLD"].low
    assert low is not None
    assert low > value(rows["new"]["FLD"])


def test_a_set_of_copies_is_off_the_scale_and_still_a_number(
    rows: dict[str, dict[str, Row]],
) -> None:
    assert value(rows["all copied"]["FLD"]) > 1000
    assert np.isfinite(value(rows["all copied"]["FLD"]))


def test_the_gap_tells_copies_from_new_images(rows: dict[str, dict[str, Row]]) -> None:
    new, copied = rows["new"]["FLD gap"], rows["most copied"]["FLD gap"]
    assert new.reference is not None
    assert abs(value(new) - new.reference) < 10
    assert value(copied) < new.reference - 50
    assert copied.high is not None
    assert copied.high < value(new)


def test_on_train_copies_are_rewarded(rows: dict[str, dict[str, Row]]) -> None:
    """Why the peer's form is not the default."""
    name = "FLD on train"
    assert value(rows["most copied"][name]) < value(rows["new"][name])
    assert value(rows["noisy"][name]) > value(rows["new"][name])


def test_the_three_are_made_of_the_same_two_models(
    cases: dict[str, Case], rows: dict[str, dict[str, Row]]
) -> None:
    found = FeatureLikelihood.comparison(FeatureLikelihoodGap("random-conv"), cases["noisy"])
    judged, real = found.synthetic, found.real
    expected = {
        "FLD": judged.test.mean() - real.test.mean(),
        "FLD on train": judged.train.mean() - real.test.mean(),
        "FLD gap": judged.train.mean() - judged.test.mean(),
    }
    for name, number in expected.items():
        assert value(rows["noisy"][name]) == pytest.approx(number)


def slow_loss(centres: torch.Tensor, widths: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Log-densities from torch's own normal law, one coordinate at a time."""
    laws = torch.distributions.Normal(centres[None], (widths / 2).exp()[None, :, None])
    return torch.logsumexp(laws.log_prob(x[:, None]).sum(dim=2), dim=1) - log(len(centres))


def slow_fld(split: Split) -> tuple[float, float]:
    """FLD and its gap by another route: gradients by autograd, the published optimiser, Adam."""
    mean, spread = split.test.mean(axis=0), split.test.std(axis=0, ddof=1)
    judged, stand_in, fit, test = (
        torch.from_numpy((side.astype(np.float64) - mean) / spread)
        for side in (split.synthetic, split.stand_in, split.fit, split.test)
    )
    losses = []
    for centres in (judged, stand_in):
        nearest = torch.cdist(centres, fit).amin(dim=1) ** 2
        widths = torch.log((nearest + 1e-3) / fit.shape[1]).requires_grad_()
        base = torch.zeros(1, dtype=torch.float64, requires_grad=True)
        optimiser = torch.optim.Adam([widths, base], lr=0.1)
        for _ in range(150):
            optimiser.zero_grad()
            nearer = torch.distributions.Normal(0.0, (base / 2).exp())
            base_loss = nearer.log_prob(0.9 * (fit - fit.mean(dim=0))).sum(dim=1)
            together = torch.logaddexp(slow_loss(centres, widths, fit), base_loss)
            torch.autograd.backward(-together.mean())
            optimiser.step()
        with torch.no_grad():
            found = [slow_loss(centres, widths, x).mean().item() for x in (test, fit)]
        losses.append([-100 * loss / fit.shape[1] for loss in found])
    return losses[0][0] - losses[1][0], losses[0][1] - losses[0][0]


@pytest.mark.parametrize("spoilt", [0.0, 1.0])
def test_it_is_what_a_slow_computation_gives(spoilt: float) -> None:
    """Equal within 0.5: both climb the same hill, by different steps."""
    source = np.random.default_rng(3)
    mixing = source.normal(size=(8, 20))
    sets = [source.normal(size=(n, 8)) @ mixing for n in (60, 60, 80, 70)]
    sets[0] += spoilt * source.normal(size=sets[0].shape)
    split = Split(*(side.astype(np.float32) for side in sets))
    found = compare_likelihoods(split, CPU)
    divergence, gap = slow_fld(split)
    ours = found.synthetic.test.mean() - found.real.test.mean()
    assert ours == pytest.approx(divergence, abs=0.5)
    assert found.synthetic.gap == pytest.approx(gap, abs=0.2)
    assert (ours > 5.0) == bool(spoilt)


def test_features_that_do_not_vary_are_left_out() -> None:
    source = np.random.default_rng(3)
    sets = [source.normal(size=(n, 5)).astype(np.float32) for n in (40, 40, 60, 50)]
    plain = compare_likelihoods(Split(*sets), CPU)
    wider = [np.concatenate([s, np.ones((len(s), 1), np.float32)], axis=1) for s in sets]
    same = compare_likelihoods(Split(*wider), CPU)
    np.testing.assert_allclose(same.synthetic.test, plain.synthetic.test)
    with pytest.raises(UserError, match="no feature varies"):
        compare_likelihoods(Split(*(np.ones_like(s) for s in sets)), CPU)


def test_the_real_model_has_as_many_centres_and_other_images(
    train: Records, test_part: Records, quick: Protocol
) -> None:
    """A perfect sampler and the model it is judged by then differ by nothing but the draw."""
    metric = FeatureLikelihoodDivergence("random-conv")
    split = metric._split(make_case(train, train, test_part, quick))
    assert [len(s) for s in (split.synthetic, split.stand_in, split.fit, split.test)] == [200] * 4
    small = make_case(train, train.select(np.arange(150)), test_part, quick)
    split = metric._split(small)
    assert [len(s) for s in (split.synthetic, split.stand_in, split.fit)] == [75] * 3
    both = np.concatenate([split.stand_in, split.fit])
    assert len(np.unique(both, axis=0)) == len(both)


def test_the_same_whether_or_not_other_metrics_looked_first(
    train: Records, test_part: Records, quick: Protocol
) -> None:
    """Features of few images are the beginning of those of many."""
    metric = FeatureLikelihoodDivergence("random-conv")
    fresh, used = (make_case(train, train, test_part, quick) for _ in range(2))
    used.features("train", "random-conv", 30)
    assert metric.row(fresh).value == pytest.approx(metric.row(used).value, rel=1e-6)


@pytest.mark.parametrize("kind", ALL)
def test_without_training_records_it_fails_with_that_reason(
    kind: type[FeatureLikelihood], train: Records, test_part: Records, quick: Protocol
) -> None:
    row = kind("random-conv").row(make_case(train, None, test_part, quick))
    assert row.reason == "needs the real training records, which were not given"


def test_too_few_images_fail_with_the_number_needed(
    train: Records, test_part: Records, quick: Protocol
) -> None:
    few = make_case(train, train.select(np.arange(3)), test_part, quick)
    row = FeatureLikelihoodDivergence("random-conv").row(few)
    assert row.reason is not None
    assert "4 training images, not 200 and 3" in row.reason


def test_names_carry_the_extractor(quick: Protocol) -> None:
    both = replace(quick, extractors=("random-conv", "inception-v3"))
    titles = [metric.title for kind in ALL for metric in kind.instances(both)]
    assert titles == [
        f"{name}[{extractor}]"
        for name in ("FLD", "FLD on train", "FLD gap")
        for extractor in ("random-conv", "inception-v3")
    ]
