"""Randomness from the public seed: initialisation and post-processing, nothing else.

Noise and sampling of private records never come from here (see `privacy.noise`). Every
use has a stream of its own, found again from the seed and a purpose, so that a resumed
run draws what an uninterrupted one would have drawn.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TypeVar

import torch

T = TypeVar("T")


def derived_seed(seed: int, *purpose: str | int) -> int:
    """A 63-bit seed for one purpose; other purposes give unrelated ones.

    >>> derived_seed(0, "weights") == derived_seed(0, "weights")
    True
    >>> derived_seed(0, "weights") == derived_seed(0, "latents", 1)
    False
    """
    words = "\x1f".join(str(word) for word in (seed, *purpose))
    return int.from_bytes(hashlib.sha256(words.encode()).digest()[:8], "big") >> 1


def stream(seed: int, *purpose: str | int, device: torch.device | str = "cpu") -> torch.Generator:
    """A fresh generator for one purpose."""
    return torch.Generator(device).manual_seed(derived_seed(seed, *purpose))


def built(make: Callable[[], T], seed: int, *purpose: str | int) -> T:
    """What `make` builds when its initial weights come from the seed.

    torch initialises layers from the process's generator; it is put back as it was.
    """
    before = torch.default_generator.get_state()
    torch.default_generator.manual_seed(derived_seed(seed, *purpose))
    try:
        return make()
    finally:
        torch.default_generator.set_state(before)
