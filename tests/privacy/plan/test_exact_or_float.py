"""Which arithmetic a run's noise has: as asked, by default exact wherever that is true."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from understudy.errors import UserError
from understudy.privacy.plan.exact_or_float import choose_noise, noise_of, spend_with
from understudy.privacy.plan.mechanisms import (
    DPSGD,
    EnsembleVotes,
    LocalRelease,
    Mechanism,
    NoisyHistogram,
    NoisySum,
    Reveal,
)

SUM = NoisySum("sum", 1.0, 1.0)
COUNTS = NoisyHistogram("counts", 3, 1.0)
SGD = DPSGD("sgd", steps=5, rate=0.1, clip=1.0, sigma=1.0)
LOOK = Reveal("look", "to see")


def planning(*mechanisms: Mechanism):  # type: ignore[no-untyped-def]
    return lambda _: mechanisms


@pytest.mark.parametrize(
    ("mechanisms", "noise"),
    [
        ((SUM,), "exact"),
        ((SUM, COUNTS), "exact"),
        ((SUM, LOOK), "exact"),
        ((SGD,), "float"),
        ((SUM, SGD), "float"),
        ((EnsembleVotes("votes", 5, 10, 1.0),), "float"),
        ((LocalRelease("local", 1.0, 1.0),), "float"),
        ((LOOK,), "float"),
        ((), "float"),
    ],
)
def test_exact_is_the_default_where_every_noisy_release_is_one_shot(
    mechanisms: tuple[Mechanism, ...], noise: str
) -> None:
    spend = planning(*mechanisms)
    assert choose_noise(spend, None, "a method") == noise
    assert choose_noise(spend, "float", "a method") == "float"
    assert noise_of(spend_with(spend, noise)(1.0)) == noise
    if noise == "float":
        with pytest.raises(UserError, match="--noise"):
            choose_noise(spend, "exact", "a method")
    else:
        assert choose_noise(spend, "exact", "a method") == "exact"


def test_the_refusal_names_the_method_and_the_reason() -> None:
    with pytest.raises(UserError, match=r"dp-gan uses dp-sgd.*use --noise float"):
        choose_noise(planning(SGD), "exact", "dp-gan")


@pytest.mark.parametrize("others", [(SGD,), (COUNTS,)])
def test_a_claim_may_say_exact_only_if_all_of_the_plan_is(others: Sequence[Mechanism]) -> None:
    exact = spend_with(planning(SUM), "exact")(1.0)
    assert noise_of(exact) == "exact"
    assert noise_of([*exact, *others]) == "float"
