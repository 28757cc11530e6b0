"""The noise source: the cipher, the distributions, and secrecy; broken twins are caught."""

from __future__ import annotations

import copy
import math
import os
import pickle
import struct
import threading

import numpy as np
import pytest
import torch
from scipy import stats

from understudy.audit.noise_tests import (
    forked_child_differs,
    has_independent_draws,
    is_normal,
    streams_differ,
)
from understudy.audit.sampling_tests import samples_by_poisson
from understudy.errors import PrivacyError, UserError
from understudy.privacy.noise import chacha
from understudy.privacy.noise.source import NoiseSource

# RFC 8439: section 2.3.2, then appendix A.1, test vectors 1 to 5.
RFC_BLOCKS = [
    pytest.param(
        bytes(range(32)),
        bytes.fromhex("000000090000004a00000000"),
        1,
        "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
        "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e",
        id="2.3.2",
    ),
    pytest.param(
        bytes(32),
        bytes(12),
        0,
        "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
        "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586",
        id="A.1 1",
    ),
    pytest.param(
        bytes(32),
        bytes(12),
        1,
        "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed"
        "29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f",
        id="A.1 2",
    ),
    pytest.param(
        bytes(31) + b"\x01",
        bytes(12),
        1,
        "3aeb5224ecf849929b9d828db1ced4dd832025e8018b8160b82284f3c949aa5a"
        "8eca00bbb4a73bdad192b5c42f73f2fd4e273644c8b36125a64addeb006c13a0",
        id="A.1 3",
    ),
    pytest.param(
        b"\x00\xff" + bytes(30),
        bytes(12),
        2,
        "72d54dfbf12ec44b362692df94137f328fea8da73990265ec1bbbea1ae9af0ca"
        "13b25aa26cb4a648cb9b9d1be65b2c0924a66c54d545ec1b7374f4872e99f096",
        id="A.1 4",
    ),
    pytest.param(
        bytes(32),
        bytes(11) + b"\x02",
        0,
        "c2c64d378cd536374ae204b9ef933fcd1a8b2288b3dfa49672ab765b54ee27c7"
        "8a970e0e955c14f3a88e741b97c286f75f8fc299e8148362fa198a39531bed6d",
        id="A.1 5",
    ),
]


@pytest.mark.parametrize(("key", "nonce", "counter", "expected"), RFC_BLOCKS)
def test_rfc_8439_blocks(key: bytes, nonce: bytes, counter: int, expected: str) -> None:
    block = chacha.keystream(key, nonce, counter, 1)
    assert block.numpy().astype("<i4").tobytes().hex() == expected


def scalar_block(key: bytes, nonce: bytes, counter: int) -> list[int]:
    """One block by plain integers, written from the RFC apart from the code under test."""
    mask = 0xFFFFFFFF
    constants = (0x61707865, 0x3320646E, 0x79622D32, 0x6B206574)
    start = [*constants, *struct.unpack("<8I", key), counter, *struct.unpack("<3I", nonce)]
    x = list(start)

    def quarter(a: int, b: int, c: int, d: int) -> None:
        for i, j, k, bits in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            x[i] = (x[i] + x[j]) & mask
            x[k] ^= x[i]
            x[k] = (x[k] << bits | x[k] >> (32 - bits)) & mask

    for _ in range(10):
        for column in range(4):
            quarter(column, 4 + column, 8 + column, 12 + column)
        for column in range(4):
            quarter(column, 4 + (column + 1) % 4, 8 + (column + 2) % 4, 12 + (column + 3) % 4)
    return [(a + b) & mask for a, b in zip(x, start, strict=True)]


def test_many_blocks_equal_single_ones_even_where_the_work_is_cut() -> None:
    key, nonce, first = bytes(range(7, 39)), bytes(range(12)), 2**32 - 9000
    stream = chacha.keystream(key, nonce, first, 9000).numpy().view(np.uint32)
    for block in (0, 1, 4095, 4096, 4097, 8191, 8192, 8193, 8999):
        assert stream[block].tolist() == scalar_block(key, nonce, first + block)


def test_an_accelerator_would_compute_the_same_stream() -> None:
    """Torch's operations, as they are used there, on the CPU; up to the last counter."""
    key, nonce, first = bytes(range(7, 39)), bytes(range(12)), 2**32 - 100
    start = struct.unpack("<16i", b"expand 32-byte k" + key + bytes(4) + nonce)
    stream = chacha._keystream(start, first, 100, torch.device("cpu"))
    assert torch.equal(stream, chacha.keystream(key, nonce, first, 100))
    assert stream.is_contiguous()


def test_counters_and_lengths_are_checked() -> None:
    with pytest.raises(ValueError, match="32 bits"):
        chacha.keystream(bytes(32), bytes(12), 2**32 - 1, 2)
    with pytest.raises(ValueError, match="32 bytes"):
        chacha.keystream(bytes(16), bytes(12), 0, 1)


class Scaled:
    """A twin that draws noise of the wrong scale."""

    def __init__(self, factor: float) -> None:
        self._source, self._factor = NoiseSource(), factor

    def normal(self, shape: int) -> torch.Tensor:
        return self._factor * self._source.normal(shape)


class PublicSeed:
    """A twin that draws from torch with a seed that anyone may guess."""

    def __init__(self) -> None:
        self._generator = torch.Generator().manual_seed(0)

    def normal(self, shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=self._generator)


class ConstantKey(NoiseSource):
    """A twin that forgets to ask the operating system."""

    def _key_from_system(self) -> None:
        super()._key_from_system()
        self._key = bytes(32)


class KeepsStreamAfterFork(NoiseSource):
    """A twin that does not notice that it was forked."""

    def _words(self, count: int, device: torch.device) -> torch.Tensor:
        self._pid = os.getpid()
        return super()._words(count, device)


class RepeatsItself(NoiseSource):
    """A twin that forgets how far it has read."""

    def _refill(self, words: int, device: torch.device) -> torch.Tensor:
        self._counter = 0
        return super()._refill(min(words, 1), device)


def test_normal_draws_have_the_right_scale_and_no_other() -> None:
    source = NoiseSource()
    assert is_normal(source, scale=1.0)
    assert not is_normal(source, scale=0.95)
    assert not is_normal(source, scale=1.05)


@pytest.mark.parametrize("factor", [0.5, 0.95, 1.05])
def test_the_scale_check_catches_a_wrong_scale(factor: float) -> None:
    assert not is_normal(Scaled(factor), scale=1.0)


def test_normal_draws_are_independent() -> None:
    assert has_independent_draws(NoiseSource())
    assert not has_independent_draws(RepeatsItself())


def test_two_sources_never_agree() -> None:
    assert streams_differ(NoiseSource)
    assert not streams_differ(PublicSeed)
    assert not streams_differ(ConstantKey)


def test_a_forked_child_draws_its_own_values() -> None:
    assert forked_child_differs(NoiseSource())
    assert not forked_child_differs(KeepsStreamAfterFork())


def test_a_forked_child_can_draw_while_a_parent_thread_held_the_lock() -> None:
    source = NoiseSource()
    with source._lock:
        child_source = source  # what a child would see: a lock that nobody there will release
        child_source._pid = -1
        assert source.normal(3).shape == (3,)


class FixedSizeBatches:
    def bernoulli(self, count: int, rate: float) -> torch.Tensor:
        return torch.randperm(count) < round(rate * count)


class PairsOfUnits(NoiseSource):
    def bernoulli(
        self, count: int, rate: float, device: torch.device | str = "cpu"
    ) -> torch.Tensor:
        return super().bernoulli(count // 2, rate, device).repeat_interleave(2)


class ShuffledEpochs:
    """Every unit exactly once in each run of 1/rate rounds."""

    def __init__(self) -> None:
        self._round = 0

    def bernoulli(self, count: int, rate: float) -> torch.Tensor:
        turns = round(1 / rate)
        if self._round % turns == 0:
            self._order = torch.randint(turns, (count,))
        self._round += 1
        return self._order == self._round % turns


class WrongRate(NoiseSource):
    def bernoulli(
        self, count: int, rate: float, device: torch.device | str = "cpu"
    ) -> torch.Tensor:
        return super().bernoulli(count, 1.05 * rate, device)


def test_poisson_sampling_is_poisson() -> None:
    assert samples_by_poisson(NoiseSource(), rate=0.25)


@pytest.mark.parametrize("twin", [FixedSizeBatches, PairsOfUnits, ShuffledEpochs, WrongRate])
def test_the_sampling_check_catches_other_sampling(twin: type) -> None:
    assert not samples_by_poisson(twin(), rate=0.25)


def test_bernoulli_keeps_its_ends() -> None:
    source = NoiseSource()
    assert not source.bernoulli(10_000, 0.0).any()
    assert source.bernoulli(10_000, 1.0).all()
    assert source.bernoulli(0, 0.5).shape == (0,)
    for rate in (-0.1, 1.1, math.nan):
        with pytest.raises(UserError, match="rate"):
            source.bernoulli(3, rate)


def test_uniform_is_uniform_on_53_bits() -> None:
    draws = NoiseSource().uniform(100_000)
    assert draws.dtype == torch.float64
    assert float(draws.min()) >= 0
    assert float(draws.max()) < 1
    assert stats.kstest(draws.numpy(), "uniform").pvalue > 1e-6
    whole = draws * 2.0**53
    assert torch.equal(whole, whole.round())
    assert (whole.to(torch.int64) % 2).double().mean() == pytest.approx(0.5, abs=0.02)


class AllOnes(NoiseSource):
    """The rarest stream there is: every bit of it is set."""

    def _words(self, count: int, device: torch.device) -> torch.Tensor:
        return torch.full((count,), -1, dtype=torch.int32, device=device)


def test_the_tails_of_normal_draws_are_not_cut() -> None:
    """No sample can show it, and a release beyond a cut would tell who was there."""
    assert float(AllOnes().normal(2).max()) == pytest.approx(math.sqrt(2 * 53 * math.log(2)))


def test_float32_uniforms_never_reach_one() -> None:
    assert float(AllOnes().uniform(1, dtype=torch.float32)) < 1
    assert float(AllOnes().uniform(1).float()) == 1  # what rounding afterwards would do
    draws = NoiseSource().uniform((100, 1000), dtype=torch.float32)
    assert draws.shape == (100, 1000)
    assert stats.kstest(draws.flatten().double().numpy(), "uniform").pvalue > 1e-6
    with pytest.raises(UserError, match="float64 or float32"):
        NoiseSource().uniform(1, dtype=torch.bfloat16)


@pytest.mark.parametrize("below", [1, 3, 7, 1000])
def test_integers_are_uniform(below: int) -> None:
    draws = NoiseSource().integers(50_000, below)
    counts = torch.bincount(draws, minlength=below)
    assert len(counts) == below
    assert below == 1 or stats.chisquare(counts.numpy()).pvalue > 1e-6


def test_integers_are_uniform_where_they_do_not_divide_the_bits() -> None:
    """Two bounds fit into 63 bits, and two thirds of a third: these must be drawn again."""
    below = 3 * 2**60
    low = int((NoiseSource().integers(20_000, below) < below // 3 * 2).sum())
    assert stats.binomtest(low, 20_000, 2 / 3).pvalue > 1e-9


@pytest.mark.parametrize("rate", [1e-12, 3.7e-6, 1 / 600, 0.3, 1 - 1e-9])
def test_a_rate_is_kept_to_the_last_of_53_bits(
    rate: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    first_outside = math.ceil(rate * 2**53)
    edge = torch.tensor([first_outside - 1, first_outside])
    monkeypatch.setattr(NoiseSource, "_bits", lambda *_: edge.clone())
    assert NoiseSource().bernoulli(2, rate).tolist() == [True, False]


def test_integers_reach_far_and_refuse_nonsense() -> None:
    source = NoiseSource()
    draws = source.integers(1000, 2**62)
    assert int(draws.min()) >= 0
    assert int(draws.max()) > 2**61
    for below in (0, -1, 2**63):
        with pytest.raises(UserError, match="below"):
            source.integers(1, below)


def test_each_part_of_the_stream_is_given_out_once_and_in_order() -> None:
    whole = NoiseSource.insecure(7)._bits(30_000, 63, "cpu")
    source = NoiseSource.insecure(7)
    parts = [source._bits(count, 63, "cpu") for count in (1, 10, 9989, 0, 20_000)]
    assert torch.equal(torch.cat(parts), whole)
    assert len(torch.unique(whole)) == len(whole)


def test_a_device_has_one_stream_by_whatever_name_it_is_called() -> None:
    whole = NoiseSource.insecure(7)._bits(300, 63, "cpu")
    source = NoiseSource.insecure(7)
    parts = [source._bits(100, 63, name) for name in ("cpu", "cpu:0", "cpu")]
    assert torch.equal(torch.cat(parts), whole)


def test_threads_never_share_values() -> None:
    source, drawn = NoiseSource(), []

    def draw() -> None:
        for _ in range(20):
            drawn.append(source._bits(500, 63, "cpu"))

    threads = [threading.Thread(target=draw) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    values = torch.cat(drawn)
    assert len(torch.unique(values)) == len(values) == 4 * 20 * 500


def test_the_nonce_moves_on_when_the_counter_is_used_up() -> None:
    source = NoiseSource.insecure(1)
    first = source._bits(8, 63, "cpu")
    source._ready.clear()
    source._counter = chacha.COUNTERS - 10
    later = source._bits(100_000, 63, "cpu")
    assert source._nonce == 1
    assert not np.intersect1d(first.numpy(), later.numpy()).size


def test_shapes_and_types() -> None:
    source = NoiseSource()
    assert source.normal((2, 3, 5)).shape == (2, 3, 5)
    assert source.normal(0).shape == (0,)
    assert source.normal(()).shape == ()
    assert source.normal(5).dtype == torch.float32
    assert source.normal(5, dtype=torch.float64).dtype == torch.float64
    assert torch.isfinite(source.normal(100_001)).all()


def test_an_insecure_source_says_so_and_repeats() -> None:
    one, two = NoiseSource.insecure(3), NoiseSource.insecure(3)
    assert one.insecure_seed == 3
    assert "not private" in one.description
    assert torch.equal(one.normal(100), two.normal(100))
    assert not torch.equal(NoiseSource.insecure(4).normal(100), NoiseSource.insecure(3).normal(100))
    assert NoiseSource().insecure_seed is None
    assert "operating system" in NoiseSource().description


def test_a_source_cannot_be_stored_or_copied() -> None:
    source = NoiseSource()
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(PrivacyError, match="used twice"):
            attempt(source)
    assert source._key.hex() not in repr(source)


def test_callback_seeds_are_fresh_and_fit_a_generator() -> None:
    source = NoiseSource()
    seeds = {source.callback_stream_seed() for _ in range(100)}
    assert len(seeds) == 100
    assert all(0 <= seed < 2**63 for seed in seeds)
    torch.Generator().manual_seed(seeds.pop())


def test_global_generators_are_left_alone() -> None:
    before = torch.get_rng_state()
    NoiseSource().normal(1000)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an accelerator")
def test_the_accelerator_gives_the_same_stream() -> None:
    key, nonce = bytes(range(32)), bytes(range(12))
    here = chacha.keystream(key, nonce, 5, 3000)
    there = chacha.keystream(key, nonce, 5, 3000, "cuda")
    assert torch.equal(here, there.cpu())
    draws = NoiseSource().normal(100_000, "cuda").double().cpu().numpy()
    assert stats.kstest(draws, "norm").pvalue > 1e-6


def test_a_new_key_gives_none_of_the_old_words() -> None:
    source = NoiseSource()
    source.uniform(3)
    (left,) = source._ready.values()
    old, key = set(left.view(torch.int64).tolist()), source._key
    source.rekey()
    new = set(source._words(2 * len(old), torch.device("cpu")).view(torch.int64).tolist())
    assert source._key != key
    assert not old & new, "words of the old key"


def test_a_public_seed_is_not_keyed_anew() -> None:
    source, other = NoiseSource.insecure(1), NoiseSource.insecure(1)
    source.rekey()
    assert torch.equal(source.uniform(5), other.uniform(5))
