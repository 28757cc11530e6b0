"""Running a callback on private rows without letting its randomness out.

How often a callback draws depends on how many rows it got, so the state of a generator
after the call would tell the realised batch size. Inside `isolated_rng`, every generator is
seeded from the door's stream; afterwards each is put back as it was.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


@contextmanager
def isolated_rng(seed: int) -> Iterator[None]:
    """Give the process's generators a door-owned seed, and restore them afterwards."""
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

    Without a device `torch.manual_seed` notes the whole call stack for later, which takes
    longer than a step of a small model.
    """
    if elsewhere:
        torch.manual_seed(seed)
    else:
        torch.default_generator.manual_seed(seed)
