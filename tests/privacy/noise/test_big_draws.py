"""Draws of several million values at once: nothing comes again, in them or between them.

Small draws come from one refill of the stream; these take several, leave something over and go on
from it. A block that is used twice leaves every mean and every scale as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from understudy.audit.noise_tests import (
    ALPHA,
    SAMPLES,
    are_independent,
    fits_normal,
    spread_p_value,
)
from understudy.audit.stream_tests import (
    comes_again,
    never_comes_again,
    runs_of_booleans,
    runs_of_two,
)
from understudy.privacy.noise import chacha
from understudy.privacy.noise.source import NoiseSource

Words = npt.NDArray[Any]
Draw = Callable[[NoiseSource, int], Words]

SIZES = (1_000, 3_000_000, 7, 600_000, 50_000)
"""One after another: the second begins with what the first left, takes two refills more, and leaves
a few words to the third; the fourth and fifth go on in the same way."""

SCALE = 2**24


def uniform(source: NoiseSource, count: int) -> Words:
    return source.uniform(count).numpy()


def radii_of_normal(source: NoiseSource, count: int) -> Words:
    """Two normal values are made of one radius and one angle, the second half of a draw beside the
    first; a stream used twice may give old radii new angles, and no value then comes again."""
    one, other = source.normal((2, count), dtype=torch.float64).numpy()
    return np.round((one**2 + other**2) * 2.0**44)


def discrete_gaussian(source: NoiseSource, count: int) -> Words:
    """A quarter as many, since each takes many words; in pairs, since single ones do come again."""
    return runs_of_two(source.discrete_gaussian(count // 4 + 2, SCALE).numpy())


def fair_coins(source: NoiseSource, count: int) -> Words:
    return runs_of_booleans(source.bernoulli(count + 64, 0.5).numpy())


DRAWS: tuple[Draw, ...] = (uniform, radii_of_normal, discrete_gaussian, fair_coins)


@pytest.mark.parametrize("draw", DRAWS, ids=lambda d: d.__name__)
def test_nothing_comes_again_in_big_draws_and_between_them(draw: Draw) -> None:
    source = NoiseSource()
    drawn = [draw(source, size) for size in SIZES]
    source.rekey()
    drawn.append(draw(source, SIZES[0]))
    assert never_comes_again(np.concatenate(drawn)), "a part of the stream was used twice"


def test_a_big_draw_is_normal_to_a_third_of_a_percent() -> None:
    values = NoiseSource().normal(3_000_000, dtype=torch.float64).numpy()
    assert fits_normal(values, 1.0), "not standard normal"
    assert max(spread_p_value(values / scale) for scale in (0.995, 1.005)) < ALPHA


def test_a_big_discrete_draw_has_its_scale_and_no_other() -> None:
    values = NoiseSource().discrete_gaussian(700_000, SCALE).double().numpy()
    assert fits_normal(values, SCALE), "not the discrete Gaussian of this scale"
    assert not fits_normal(values, 0.99 * SCALE)
    assert are_independent(values[:SAMPLES])


@dataclass(frozen=True)
class Stretch:
    """A part of a stream that was computed: its blocks from `first` to before `end`."""

    stream: tuple[bytes, bytes]
    first: int
    end: int


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[Stretch]:
    """Every stretch that sources compute from now on, in their order.

    Device `meta` stands for an accelerator: its tensors have a form and no values.
    """
    noted: list[Stretch] = []
    compute = chacha.keystream

    def noting(
        key: bytes, nonce: bytes, counter: int, blocks: int, device: torch.device | str
    ) -> torch.Tensor:
        noted.append(Stretch((key, nonce), counter, counter + blocks))
        if torch.device(device).type == "cpu":
            return compute(key, nonce, counter, blocks, device)
        return torch.empty((blocks, chacha.WORDS_PER_BLOCK), dtype=torch.int32, device=device)

    monkeypatch.setattr(chacha, "keystream", noting)
    return noted


def share_a_block(stretches: Sequence[Stretch]) -> bool:
    in_order = sorted(stretches, key=lambda s: (s.stream, s.first))
    return any(
        one.stream == next_one.stream and next_one.first < one.end
        for one, next_one in pairwise(in_order)
    )


def test_devices_share_no_block_of_the_stream(computed: list[Stretch]) -> None:
    """Both go on from one counter, in big draws and small ones, and where it begins anew."""
    source = NoiseSource()
    for size in SIZES:
        for device in ("cpu", "meta", "cpu"):
            source.uniform(size, device)
    source._counter = chacha.COUNTERS - 2**18
    for device in ("meta", "cpu", "meta"):
        source.uniform(3_000_000, device)
    assert len({stretch.stream for stretch in computed}) > 1
    assert not share_a_block(computed), "two devices were given one block"


class Tiles(NoiseSource):
    """A twin that computes half of a big refill and lays it down twice."""

    def _refill(self, words: int, device: torch.device) -> torch.Tensor:
        stream = super()._refill(words, device)
        half = len(stream) // 2
        return stream[:half].repeat(2) if len(stream) > 2**20 else stream


class CountsAnew(NoiseSource):
    """A twin whose counter of blocks begins anew where the biggest refill ends."""

    def _refill(self, words: int, device: torch.device) -> torch.Tensor:
        stream = super()._refill(words, device)
        self._counter %= 2**18
        return stream


class KeepsWhatItGave(NoiseSource):
    """A twin that begins a big draw with what it still has, and has it still afterwards."""

    def _words(self, count: int, device: torch.device) -> torch.Tensor:
        before = self._ready.get("cpu")
        words = super()._words(count, device)
        if before is not None and len(before) < count:
            self._ready["cpu"] = before
        return words


TWINS = (Tiles, CountsAnew, KeepsWhatItGave)


@pytest.mark.parametrize(
    ("twin", "draw"),
    [
        *((twin, draw) for twin in TWINS for draw in (uniform, radii_of_normal, fair_coins)),
        (Tiles, discrete_gaussian),
    ],
)
def test_a_stream_that_is_used_twice_is_seen(twin: type[NoiseSource], draw: Draw) -> None:
    """In everything that takes the same words for the same purpose again."""
    source = twin()
    drawn = np.concatenate([draw(source, size) for size in SIZES])
    assert not never_comes_again(drawn)


def test_one_block_in_millions_is_seen() -> None:
    values = NoiseSource().uniform(2_000_000).numpy()
    values[-16:] = values[700_001:700_017]
    assert comes_again(values) == 16
    coins = NoiseSource().bernoulli(1_000_000, 0.5).numpy()
    coins[-100:] = coins[3_001:3_101]
    assert comes_again(runs_of_booleans(coins)) >= 37  # more where the coins around agree
    whole = NoiseSource().discrete_gaussian(100_000, SCALE).numpy()
    whole[-20:] = whole[501:521]
    assert comes_again(runs_of_two(whole)) == 19


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an accelerator")
def test_nothing_comes_again_on_an_accelerator_or_between_it_and_the_cpu() -> None:
    source = NoiseSource()
    devices = ("cuda", "cpu", "cuda")
    drawn = [source.uniform(size, device).cpu() for size in SIZES for device in devices]
    assert never_comes_again(torch.cat(drawn).numpy()), "a part of the stream was used twice"
