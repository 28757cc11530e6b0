"""The discrete Gaussian on the integers, sampled with integer comparisons alone.

Rejection sampling from a discrete Laplace distribution, after Canonne, Kamath and Steinke, "The
Discrete Gaussian for Differential Privacy" (2020). No floating-point number is involved, so the
distribution is exactly the stated one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from understudy.errors import UserError

if TYPE_CHECKING:
    from understudy.privacy.noise.source import NoiseSource

LARGEST_SCALE = 2**30
"""Up to it, twice the square of the scale is within the range of `NoiseSource.integers`."""

_TRIES_A_DRAW = 2.3
_MOST_TRIES_AT_ONCE = 2**20
"""About 0.48 of all tries are accepted, at any scale; both constants affect speed only."""


def discrete_gaussian(
    source: NoiseSource, count: int, scale: int, device: torch.device | str = "cpu"
) -> torch.Tensor:
    """Independent integers with P(y) proportional to exp(-y^2 / (2 scale^2)), as int64 [count].

    Guarantee: exactly that distribution, given uniform bits. A try is an integer y with
    P(y) proportional to exp(-|y| / scale), kept with probability
    exp(-(|y| - scale)^2 / (2 scale^2)); the product is exp(-1/2) exp(-y^2 / (2 scale^2)).
    Every probability is decided by comparing uniform integers, and none of them, nor any
    square, leaves 63 bits.
    """
    if not 1 <= scale <= LARGEST_SCALE:
        raise UserError(f"scale must be a whole number from 1 to {LARGEST_SCALE}, not {scale!r}.")
    kept = torch.empty(0, dtype=torch.int64, device=device)
    while len(kept) < count:
        tries = min(int(_TRIES_A_DRAW * (count - len(kept))) + 16, _MOST_TRIES_AT_ONCE)
        kept = torch.cat((kept, _kept_of(source, tries, scale, device)))
    return kept[:count]


def _kept_of(
    source: NoiseSource, tries: int, scale: int, device: torch.device | str
) -> torch.Tensor:
    """The accepted values among this many tries.

    |y| = whole * scale + rest, where `rest` below scale has weight exp(-rest / scale) and
    `whole` weight exp(-whole). The sign is fair, and a negative zero is dropped: without
    that, zero would come twice as often as it should.
    """
    rest = source.integers(tries, scale, device)
    rest = rest[_coins(source, rest, scale)]
    whole = _run_length(source, len(rest), device)
    negative = source.integers(len(rest), 2, device).bool()
    keep = _fits(source, whole, rest, scale)
    keep &= ~(negative & (whole == 0) & (rest == 0))
    size = whole * scale + rest
    return torch.where(negative, -size, size)[keep]


def _fits(source: NoiseSource, whole: torch.Tensor, rest: torch.Tensor, scale: int) -> torch.Tensor:
    """Heads with probability exp(-(|y| - scale)^2 / (2 scale^2)).

    Written as | |y| - scale | = a * scale + b with b at most scale, that is
    exp(-b^2 / (2 scale^2)) * exp(-b / scale)^a * exp(-1/2)^(a^2): no square is ever larger
    than that of the scale, however far out y lies.
    """
    a = (whole - 1).clamp(min=0)
    b = torch.where(whole == 0, scale - rest, rest)
    heads = _coins(source, b * b, 2 * scale * scale)
    heads &= _all_heads(source, a, b, scale)
    return heads & _all_heads(source, a * a, torch.ones_like(b), 2)


def _all_heads(
    source: NoiseSource, times: torch.Tensor, numerator: torch.Tensor, denominator: int
) -> torch.Tensor:
    """Heads with probability exp(-times * numerator / denominator): all of `times` coins."""
    heads = torch.ones_like(times, dtype=torch.bool)
    going = torch.nonzero(times > 0).flatten()
    thrown = 0
    while len(going):
        coin = _coins(source, numerator[going], denominator)
        heads[going[~coin]] = False
        thrown += 1
        going = going[coin]
        going = going[times[going] > thrown]
    return heads


def _run_length(source: NoiseSource, count: int, device: torch.device | str) -> torch.Tensor:
    """How many coins of probability exp(-1) come up heads before the first tails."""
    lengths = torch.zeros(count, dtype=torch.int64, device=device)
    going = torch.arange(count, device=device)
    while len(going):
        going = going[_coins(source, torch.ones_like(going), 1)]
        lengths[going] += 1
    return lengths


def _coins(source: NoiseSource, numerator: torch.Tensor, denominator: int) -> torch.Tensor:
    """Independent coins, heads with probability exp(-g), where g = numerator / denominator <= 1.

    Coins with probability g/1, g/2, g/3 and so on are thrown until one fails; heads means
    that the one that failed had an odd number, of probability
    1 - g + g^2/2! - g^3/3! and so on. A coin of g/k is one of g and one of 1/k.
    """
    heads = torch.zeros_like(numerator, dtype=torch.bool)
    going = torch.arange(len(numerator), device=numerator.device)
    number = 1
    while len(going):
        some, device = len(going), numerator.device
        on = source.integers(some, denominator, device) < numerator[going]
        if number > 1:
            on &= source.integers(some, number, device) == 0
        if number % 2:
            heads[going[~on]] = True
        going = going[on]
        number += 1
    return heads
