"""ChaCha20's blocks on a CPU, where numpy has unsigned integers and little cost per call."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint32]

_IN_CACHE = 4096
"""Blocks at a time; twice as many are as fast, a quarter takes twice as long (one core)."""


def keystream(start: Sequence[int], counter: int, blocks: int) -> Words:
    """`blocks` blocks from the sixteen `start` words, whose counter is `counter`: [blocks, 16]."""
    words = np.array(start, dtype=np.uint32).reshape(16, 1)
    out = np.empty((blocks, 16), dtype=np.uint32)
    for first in range(0, blocks, _IN_CACHE):
        some = out[first : first + _IN_CACHE]
        _write_blocks(words, counter + first, some)
    return out


def _write_blocks(start: Words, counter: int, out: Words) -> None:
    state = np.repeat(start, len(out), axis=1)
    # The caller keeps counters below 2^32; as uint32 the end of the last range would wrap.
    state[12] = np.arange(counter, counter + len(out), dtype=np.uint64)
    working = state.copy()
    a, b, c, d = working[0:4], working[4:8], working[8:12], working[12:16]
    high = np.empty_like(a)
    for _ in range(10):
        _quarter_rounds(a, b, c, d, high)
        b, c, d = _rotated(b, 1), _rotated(c, 2), _rotated(d, 3)
        _quarter_rounds(a, b, c, d, high)
        b, c, d = _rotated(b, 3), _rotated(c, 2), _rotated(d, 1)
    for first, rows in zip(range(0, 16, 4), (a, b, c, d), strict=True):
        rows += state[first : first + 4]
        out[:, first : first + 4] = rows.T


def _rotated(rows: Words, by: int) -> Words:
    """Rotate rows, so that columns become diagonals and back: row i moves to row i - by."""
    return np.concatenate((rows[by:], rows[:by]))


def _quarter_rounds(a: Words, b: Words, c: Words, d: Words, high: Words) -> None:
    """The four quarter-rounds of one round, side by side and in place."""
    for x, y, z, bits in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
        np.add(x, y, out=x)
        np.bitwise_xor(z, x, out=z)
        np.left_shift(z, bits, out=high)
        np.right_shift(z, 32 - bits, out=z)
        np.bitwise_or(z, high, out=z)
