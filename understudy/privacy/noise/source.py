"""The cryptographic random stream for noise and Poisson sampling (in Opacus `secure_mode`).

The stream is ChaCha20 with a key from the operating system. Whoever knows the stream can subtract
the noise from a release, so the key is never stored, copied, seeded or reported; a new process, a
forked child and a resumed run each have a key of their own.

Normal values are floating point: float64 Box-Muller values of 53-bit uniforms (so within 8.6
standard deviations), by default rounded to float32. Claims that rest on them are those of the ideal
Gaussian; attacks on the spacing of floats are not covered. Discrete Gaussian values are integers,
and exact.
"""

from __future__ import annotations

import hashlib
import math
import os
import threading
from collections.abc import Sequence
from typing import NoReturn

import torch

from understudy.errors import PrivacyError, UserError
from understudy.privacy.noise import chacha
from understudy.privacy.noise.discrete_gaussian import discrete_gaussian

_REFILL_ON_CPU = (2**10, 2**18)
_REFILL_ELSEWHERE = (2**18, 2**21)
"""Fewest and most blocks computed at once. An accelerator takes about 4 ms for any number up to
2^18 (an H200, kernel launches), so it buffers more."""

_UNIFORM_BITS = {torch.float64: 53, torch.float32: 24}
_BERNOULLI_BITS = 53


class NoiseSource:
    """A cryptographically secure stream of random values, on any device.

    Guarantee: without the key, 256 bits of `os.urandom` that no file ever holds, the values are
    computationally indistinguishable from independent ideal ones. Each part of the stream is used
    once: a lock orders threads, and a process whose id has changed (after a fork) takes a new key
    before anything else. The door takes a new key for every block, so that a machine restored from
    a snapshot of its memory does not draw the same noise for two blocks.
    """

    _counter: int
    _nonce: int

    def __init__(self) -> None:
        self.insecure_seed: int | None = None
        self._key_from_system()

    @classmethod
    def insecure(cls, seed: int) -> NoiseSource:
        """A stream that `seed` reproduces, for debugging: the run can never be released.

        Only this process has it; a forked child takes a secret key.
        """
        source = cls()
        source.insecure_seed = seed
        source._key = hashlib.sha256(f"understudy insecure noise {seed}".encode()).digest()
        return source

    @property
    def description(self) -> str:
        """The source of randomness, as a claim states it."""
        if self.insecure_seed is not None:
            return f"ChaCha20 from the public seed {self.insecure_seed}: not private"
        return "ChaCha20 (RFC 8439), keyed by the operating system"

    def normal(
        self,
        shape: int | Sequence[int],
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> torch.Tensor:
        """Independent standard normal values (mean 0, standard deviation 1)."""
        size = _size(shape)
        count = math.prod(size)
        pairs = (count + 1) // 2
        uniform = self.uniform(2 * pairs, device)
        # 1 - u lies in (0, 1], so that the logarithm is finite.
        radius = uniform[:pairs].neg_().log1p_().mul_(-2).sqrt_()
        angle = uniform[pairs:].mul_(2 * math.pi)
        values = torch.cat((radius * angle.cos(), radius * angle.sin()))
        return values[:count].to(dtype).reshape(size)

    def uniform(
        self,
        shape: int | Sequence[int],
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float64,
    ) -> torch.Tensor:
        """Independent values in [0, 1): multiples of 2^-53, or of 2^-24 as float32.

        Ask for float32 here rather than rounding later, which can give 1.
        """
        if dtype not in _UNIFORM_BITS:
            raise UserError(f"uniform values come as float64 or float32, not {dtype}.")
        size = _size(shape)
        bits = _UNIFORM_BITS[dtype]
        whole = self._bits(math.prod(size), bits, device)
        return whole.to(dtype).mul_(2.0**-bits).reshape(size)

    def bernoulli(
        self, count: int, rate: float, device: torch.device | str = "cpu"
    ) -> torch.Tensor:
        """Independent booleans, each true with probability `rate` (rounded up to 2^-53)."""
        if not 0 <= rate <= 1:
            raise UserError(f"rate must lie between 0 and 1, not {rate!r}.")
        below = math.ceil(rate * 2**_BERNOULLI_BITS)
        return self._bits(count, _BERNOULLI_BITS, device).lt(below)

    def integers(self, count: int, below: int, device: torch.device | str = "cpu") -> torch.Tensor:
        """Independent whole numbers, uniform over 0 .. below - 1 without bias, as int64."""
        if not 0 < below <= 2**62:
            raise UserError(f"below must be a whole number from 1 to 2^62, not {below!r}.")
        usable = 2**63 - 2**63 % below
        kept = torch.empty(0, dtype=torch.int64, device=device)
        while len(kept) < count:
            drawn = self._bits(count - len(kept), 63, device)
            kept = torch.cat((kept, drawn[drawn < usable] if usable < 2**63 else drawn))
        return kept % below

    def discrete_gaussian(
        self, shape: int | Sequence[int], scale: int, device: torch.device | str = "cpu"
    ) -> torch.Tensor:
        """Independent whole numbers, P(y) proportional to exp(-y^2 / (2 scale^2)); int64."""
        size = _size(shape)
        return discrete_gaussian(self, math.prod(size), scale, device).reshape(size)

    def callback_stream_seed(self) -> int:
        """A fresh secret 63-bit seed for the generator that callbacks draw from."""
        return int(self._bits(1, 63, "cpu").item())

    def _bits(self, count: int, bits: int, device: torch.device | str) -> torch.Tensor:
        """`count` uniform integers of `bits` bits, as int64."""
        if count < 0:
            raise UserError(f"a count of random values cannot be {count}.")
        whole = self._words(2 * count, torch.device(device)).view(torch.int64)
        return whole.bitwise_right_shift(64 - bits).bitwise_and_(2**bits - 1)

    def _words(self, count: int, device: torch.device) -> torch.Tensor:
        """The next `count` (even) words of the stream, none of which was returned before."""
        if os.getpid() != self._pid:
            self._key_from_system()
        with self._lock:
            nothing = torch.empty(0, dtype=torch.int32, device=device)
            name = str(nothing.device)  # "cuda" and "cuda:0" are one device, and one stream
            ready = self._ready.pop(name, nothing)
            parts = [ready]
            missing = count - len(ready)
            while missing > 0:
                parts.append(self._refill(missing, device))
                missing -= len(parts[-1])
            words = torch.cat(parts) if len(parts) > 1 else ready
            self._ready[name] = words[count:].clone()
            return words[:count]

    def _refill(self, words: int, device: torch.device) -> torch.Tensor:
        wanted = -(-words // chacha.WORDS_PER_BLOCK)
        fewest, most = _REFILL_ON_CPU if device.type == "cpu" else _REFILL_ELSEWHERE
        blocks = min(max(wanted, fewest), most)
        if self._counter + blocks > chacha.COUNTERS:
            self._nonce += 1
            self._counter = 0
        nonce = self._nonce.to_bytes(chacha.NONCE_BYTES, "little")
        stream = chacha.keystream(self._key, nonce, self._counter, blocks, device)
        self._counter += blocks
        return stream.reshape(-1)

    def rekey(self) -> None:
        """Take a new secret key; a stream with a public seed continues unchanged."""
        if self.insecure_seed is None:
            self._key_from_system()

    def _key_from_system(self) -> None:
        """Start a new stream: a new key, an empty buffer and a new lock."""
        self._pid = os.getpid()
        self._key = os.urandom(chacha.KEY_BYTES)
        self._nonce = 0
        self._counter = 0
        self._ready: dict[str, torch.Tensor] = {}
        self._lock = threading.Lock()

    def __reduce__(self) -> NoReturn:
        raise PrivacyError("a noise source cannot be pickled: its stream would be used twice.")

    def __copy__(self) -> NoReturn:
        raise PrivacyError("a noise source cannot be copied: its stream would be used twice.")

    def __deepcopy__(self, memo: object) -> NoReturn:
        self.__copy__()

    def __repr__(self) -> str:
        return f"NoiseSource({self.description})"


def _size(shape: int | Sequence[int]) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)
