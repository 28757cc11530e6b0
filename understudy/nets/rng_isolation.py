"""Isolation of random number generators during a callback on private rows.

How often a callback draws depends on how many rows it got, so the state of a generator after the
call would reveal the realised batch size. `isolated_rng` seeds every generator from the door's
stream and restores its earlier state afterwards.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


@contextmanager
def isolated_rng(seed: int) -> Iterator[None]:
    """Seed Python's, numpy's and torch's generators, and restore their states afterwards."""
    python, legacy, cpu = random.getstate(), np.random.get_state(), torch.get_rng_state()
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    random.seed(seed)
    np.random.seed(seed % 2**32)
    _seed_torch(seed, elsewhere=bool(cuda))
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(legacy)
        torch.set_rng_state(cpu)
        if cuda:
            torch.cuda.set_rng_state_all(cuda)


def _seed_torch(seed: int, elsewhere: bool) -> None:
    """Seed the CPU's generator, and those of other devices where there are any.

    Without another device `torch.manual_seed` records the whole call stack for later, which takes
    longer than a step of a small model.
    """
    if elsewhere:
        torch.manual_seed(seed)
    else:
        torch.default_generator.manual_seed(seed)
