"""The discrete Gaussian: its exact law, its frequencies, and twins that are caught."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
import torch
from scipy import stats

from tests.privacy.noise import slow_discrete_gaussian as slow
from tests.privacy.noise.discrete_checks import are_independent, fits, has_tails, is_symmetric
from understudy.audit.noise_tests import ALPHA, SAMPLES
from understudy.errors import UserError
from understudy.privacy.noise import discrete_gaussian as fast
from understudy.privacy.noise.source import NoiseSource
from understudy.privacy.sums.grid import NOISE_STEPS

SCALES = [1, 2, 7, 1000, NOISE_STEPS]


def draw(scale: int, count: int = SAMPLES) -> np.ndarray:
    return NoiseSource().discrete_gaussian(count, scale).numpy()


# Exactly: every path of draws through the code itself, with its probability


class _UnsaidError(Exception):
    """The script ends before a draw with these probabilities."""

    def __init__(self, shares: list[float]) -> None:
        self.shares = shares


class Script:
    """A source that gives what it was told, one draw at a time."""

    def __init__(self, said: tuple[int, ...]) -> None:
        self._said = list(said)

    def integers(self, count: int, below: int, device: object = "cpu") -> torch.Tensor:
        del device
        return self._next([1 / below] * below) if count else torch.empty(0, dtype=torch.int64)

    def coins(self, numerator: torch.Tensor, denominator: int) -> torch.Tensor:
        """In place of the code's coins, once these are known to be right."""
        if not len(numerator):
            return torch.empty(0, dtype=torch.bool)
        heads = math.exp(-int(numerator[0]) / denominator)
        return self._next([1 - heads, heads]).bool()

    def _next(self, shares: list[float]) -> torch.Tensor:
        if max(shares) == 1.0:
            return torch.tensor([shares.index(1.0)])
        if not self._said:
            raise _UnsaidError(shares)
        return torch.tensor([self._said.pop(0)])


def law(run: Callable[[Script], torch.Tensor], least: float) -> tuple[dict[object, float], float]:
    """The probability of every outcome, from paths no rarer than `least`, and what is left."""
    found: dict[object, float] = defaultdict(float)
    left = 0.0
    open_paths: list[tuple[tuple[int, ...], float]] = [((), 1.0)]
    while open_paths:
        said, share = open_paths.pop()
        try:
            outcome = run(Script(said))
        except _UnsaidError as choice:
            if share < least:
                left += share
                continue
            open_paths += [((*said, i), share * p) for i, p in enumerate(choice.shares)]
        else:
            found[tuple(outcome.tolist())] += share
    assert sum(found.values()) + left == pytest.approx(1.0, abs=1e-12)
    return found, left


@pytest.mark.parametrize("gamma", [(0, 3), (1, 3), (1, 2), (2, 3), (1, 1)])
def test_a_coin_has_exactly_its_probability(gamma: tuple[int, int]) -> None:
    numerator, denominator = gamma
    found, left = law(
        lambda s: fast._coins(s, torch.tensor([numerator]), denominator),  # type: ignore[arg-type]
        least=1e-5,
    )
    assert left < 5e-3
    assert -1e-12 <= math.exp(-numerator / denominator) - found[(True,)] <= left + 1e-12


def _is_the_law(found: dict[object, float], left: float, scale: int) -> bool:
    """Whether weights exp(-y^2 / (2 scale^2)) fit, for one factor common to all y.

    The probability of a value is known up to what is left; over its weight it bounds the
    common factor from both sides.
    """
    lowest, highest = 0.0, 2.0
    for y in range(-3 * scale, 3 * scale + 1):
        weight, share = math.exp(-(y**2) / (2 * scale**2)), found.get((y,), 0.0)
        lowest, highest = max(lowest, share / weight), min(highest, (share + left) / weight)
    return lowest <= highest * (1 + 1e-12)


def _no_square_of_the_excess(
    source: Script, whole: torch.Tensor, rest: torch.Tensor, scale: int
) -> torch.Tensor:
    """A twin that forgets the coins of exp(-1/2)."""
    a = (whole - 1).clamp(min=0)
    b = torch.where(whole == 0, scale - rest, rest)
    heads = source.coins(b * b, 2 * scale * scale)
    return heads & fast._all_heads(source, a, b, scale)  # type: ignore[arg-type]


@pytest.mark.parametrize("scale", [1, 2])
def test_a_try_has_exactly_the_law_of_the_paper(
    scale: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fast, "_coins", Script.coins)

    def one_try(script: Script) -> torch.Tensor:
        return fast._kept_of(script, 1, scale, "cpu")  # type: ignore[arg-type]

    found, left = law(one_try, least=3e-6)
    assert left < 1e-3
    assert _is_the_law(found, left, scale)
    monkeypatch.setattr(fast, "_fits", _no_square_of_the_excess)
    assert not _is_the_law(*law(one_try, least=3e-6), scale)


# By frequency


@pytest.mark.parametrize("scale", SCALES)
def test_draws_have_the_right_scale_and_no_other(scale: int) -> None:
    draws = draw(scale)
    assert fits(draws, scale)
    assert not fits(draws, 0.95 * scale)
    assert not fits(draws, 1.05 * scale)


@pytest.mark.parametrize("factor", [0.95, 1.05])
def test_the_check_sees_a_source_that_is_off_by_a_twentieth(factor: float) -> None:
    assert not fits(draw(round(factor * NOISE_STEPS)), NOISE_STEPS)


def test_the_slow_one_and_the_fast_one_draw_alike() -> None:
    words = iter(np.random.default_rng(5).integers(0, 2**62, 2_000_000).tolist())

    def below(bound: int) -> int:
        return next(words) % bound  # bounds here are small: no bias that matters

    slowly = np.array([slow.discrete_gaussian(below, Fraction(9)) for _ in range(8000)])
    quickly = draw(3, 8000)
    assert fits(slowly, 3)
    assert fits(quickly, 3)
    table = [np.bincount(np.clip(d, -8, 8) + 8, minlength=17) for d in (slowly, quickly)]
    assert stats.chi2_contingency(table).pvalue > ALPHA


def test_tails_are_neither_cut_nor_thick() -> None:
    draws = draw(NOISE_STEPS, 200_000)
    assert has_tails(draws, NOISE_STEPS)
    cut = np.clip(draws, -3 * NOISE_STEPS, 3 * NOISE_STEPS)
    assert not has_tails(cut, NOISE_STEPS)
    assert not has_tails(draw(round(1.1 * NOISE_STEPS), 200_000), NOISE_STEPS)


def test_tails_have_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """No sample can show a cut at six scales, and a release beyond it would tell."""
    thrown: list[int] = []

    def heads_forty_times(_: object, numerator: torch.Tensor, __: int) -> torch.Tensor:
        thrown.append(len(numerator))
        return torch.full_like(numerator, len(thrown) <= 40, dtype=torch.bool)

    monkeypatch.setattr(fast, "_coins", heads_forty_times)
    assert fast._run_length(NoiseSource(), 3, "cpu").tolist() == [40, 40, 40]


def test_signs_are_fair_and_zero_is_not_favoured(monkeypatch: pytest.MonkeyPatch) -> None:
    scale = 2
    draws = draw(scale)
    assert is_symmetric(draws, scale)
    assert not is_symmetric(np.abs(draws), scale)

    def without_the_zero_rule(
        source: NoiseSource, tries: int, scale: int, device: object
    ) -> torch.Tensor:
        del device
        rest = source.integers(tries, scale)
        rest = rest[fast._coins(source, rest, scale)]
        whole = fast._run_length(source, len(rest), "cpu")
        sign = 1 - 2 * source.integers(len(rest), 2)
        return (sign * (whole * scale + rest))[fast._fits(source, whole, rest, scale)]

    monkeypatch.setattr(fast, "_kept_of", without_the_zero_rule)
    assert not is_symmetric(draw(scale), scale)


def test_draws_are_independent() -> None:
    draws = draw(NOISE_STEPS)
    assert are_independent(draws)
    again = np.repeat(draws[: SAMPLES // 2], 2)
    assert not are_independent(again)


# The rest


def test_far_out_values_need_no_large_numbers() -> None:
    """Where |y| is many scales, squares still stay within those of the scale."""
    scale = fast.LARGEST_SCALE
    whole = torch.tensor([0, 1, 5, 10**6])
    rest = torch.tensor([0, scale - 1, scale - 1, scale - 1])
    seen: list[tuple[int, int]] = []

    class Watched(NoiseSource):
        def integers(self, count: int, below: int, device: object = "cpu") -> torch.Tensor:
            del device
            seen.append((count, below))
            return super().integers(count, below)

    kept = fast._fits(Watched(), whole, rest, scale)
    assert not kept[2:].any()  # of probability exp(-12.5) and less; the last has none
    assert max(below for _, below in seen) == 2 * scale**2 < 2**62


def test_a_scale_that_has_no_meaning_is_refused() -> None:
    for scale in (0, -1, fast.LARGEST_SCALE + 1):
        with pytest.raises(UserError, match="scale"):
            NoiseSource().discrete_gaussian(3, scale)


def test_shapes_are_as_asked() -> None:
    source = NoiseSource()
    assert source.discrete_gaussian((2, 3), 5).shape == (2, 3)
    assert source.discrete_gaussian(0, 5).shape == (0,)
    assert source.discrete_gaussian(4, 5).dtype == torch.int64
