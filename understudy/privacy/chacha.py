"""ChaCha20 (RFC 8439) in torch integer operations, over many blocks at once, on any device."""

from __future__ import annotations

import struct

import torch

WORDS_PER_BLOCK = 16
KEY_BYTES = 32
NONCE_BYTES = 12
COUNTERS = 2**32

_CONSTANTS = struct.unpack("<4i", b"expand 32-byte k")
_BLOCKS_IN_CACHE = 8192


def keystream(
    key: bytes, nonce: bytes, counter: int, blocks: int, device: torch.device | str = "cpu"
) -> torch.Tensor:
    """`blocks` consecutive blocks of the stream, from block `counter` on: int32 [blocks, 16].

    The words are those of the RFC, read as signed 32-bit integers. On a CPU the work goes
    in pieces that stay in cache; on an accelerator in one.
    """
    if len(key) != KEY_BYTES or len(nonce) != NONCE_BYTES:
        raise ValueError("a ChaCha20 key has 32 bytes and a nonce 12.")
    if not 0 <= counter <= counter + blocks <= COUNTERS:
        raise ValueError("the block counter would leave its 32 bits.")
    device = torch.device(device)
    words = [*_CONSTANTS, *struct.unpack("<8i", key), 0, *struct.unpack("<3i", nonce)]
    start = torch.tensor(words, dtype=torch.int32).reshape(16, 1).to(device, non_blocking=True)
    out = torch.empty((blocks, WORDS_PER_BLOCK), dtype=torch.int32, device=device)
    piece = _BLOCKS_IN_CACHE if device.type == "cpu" else blocks
    for first in range(0, blocks, piece):
        count = min(piece, blocks - first)
        out[first : first + count] = _blocks(start, counter + first, count).T
    return out


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
        b, c, d = (_turn(row, by) for row, by in ((b, 1), (c, 2), (d, 3)))
        _quarter_rounds(a, b, c, d, high, low)
        b, c, d = (_turn(row, by) for row, by in ((b, 3), (c, 2), (d, 1)))
    return torch.cat((a, b, c, d)).add_(state)


def _turn(rows: torch.Tensor, by: int) -> torch.Tensor:
    """Columns become diagonals (and back): row i takes the place of row i - by."""
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
