"""ChaCha20 (RFC 8439) over many blocks at once: in numpy on a CPU, in torch on an accelerator."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import torch

from understudy.privacy.noise import chacha_numpy

WORDS_PER_BLOCK = 16
KEY_BYTES = 32
NONCE_BYTES = 12
COUNTERS = 2**32

_CONSTANTS = b"expand 32-byte k"


def keystream(
    key: bytes, nonce: bytes, counter: int, blocks: int, device: torch.device | str = "cpu"
) -> torch.Tensor:
    """`blocks` consecutive blocks of the stream, from block `counter` on: int32 [blocks, 16].

    The words are those of the RFC, read as signed 32-bit integers, whatever computed them.
    """
    if len(key) != KEY_BYTES or len(nonce) != NONCE_BYTES:
        raise ValueError("a ChaCha20 key has 32 bytes and a nonce 12.")
    if not 0 <= counter <= counter + blocks <= COUNTERS:
        raise ValueError("the block counter would leave its 32 bits.")
    device = torch.device(device)
    start = _CONSTANTS + key + bytes(4) + nonce
    if device.type == "cpu":
        words = chacha_numpy.keystream(struct.unpack("<16I", start), counter, blocks)
        return torch.from_numpy(words.view(np.int32))
    return _keystream(struct.unpack("<16i", start), counter, blocks, device)


def _keystream(
    start: Sequence[int], counter: int, blocks: int, device: torch.device
) -> torch.Tensor:
    """The stream in torch. The words are arguments of sixteen fills, not a copy from host memory,
    which the host would wait for or which could arrive late."""
    words = torch.empty((16, 1), dtype=torch.int32, device=device)
    for row, word in zip(words, start, strict=True):
        row.fill_(word)
    return _blocks(words, counter, blocks).T.contiguous()


def _blocks(start: torch.Tensor, counter: int, count: int) -> torch.Tensor:
    """The block function on `count` counters at once; word-major, int32 [16, count]."""
    state = start.repeat(1, count)
    counters = torch.arange(counter, counter + count, dtype=torch.int64, device=start.device)
    state[12] = counters.to(torch.int32)  # keeps the low 32 bits
    working = state.clone()
    a, b, c, d = working[0:4], working[4:8], working[8:12], working[12:16]
    high, low = torch.empty_like(a), torch.empty_like(a)
    for _ in range(10):
        _quarter_rounds(a, b, c, d, high, low)
        b, c, d = (_rotated(row, by) for row, by in ((b, 1), (c, 2), (d, 3)))
        _quarter_rounds(a, b, c, d, high, low)
        b, c, d = (_rotated(row, by) for row, by in ((b, 3), (c, 2), (d, 1)))
    return torch.cat((a, b, c, d)).add_(state)


def _rotated(rows: torch.Tensor, by: int) -> torch.Tensor:
    """Rotate rows, so that columns become diagonals and back: row i moves to row i - by."""
    return torch.cat((rows[by:], rows[:by]))


def _quarter_rounds(
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    d: torch.Tensor,
    high: torch.Tensor,
    low: torch.Tensor,
) -> None:
    """The four quarter-rounds of one round, side by side and in place."""
    for x, y, z, bits in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
        x.add_(y)
        z.bitwise_xor_(x)
        torch.bitwise_left_shift(z, bits, out=high)
        torch.bitwise_right_shift(z, 32 - bits, out=low)
        low.bitwise_and_((1 << bits) - 1)  # the shift copies the sign; drop the copies
        torch.bitwise_or(high, low, out=z)
