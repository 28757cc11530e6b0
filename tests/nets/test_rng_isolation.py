"""No generator tells afterwards how much a callback drew."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from understudy.nets.rng_isolation import isolated_rng


def states() -> tuple[object, ...]:
    python, legacy = random.getstate(), np.random.get_state()
    return python, str(legacy), torch.get_rng_state().tolist()


def draw(times: int) -> list[float]:
    return [
        value
        for _ in range(times)
        for value in (random.random(), np.random.rand(), torch.rand(1).item())
    ]


@pytest.mark.parametrize("times", [0, 1, 1000])
def test_generators_are_put_back(times: int) -> None:
    draw(1)
    before = states()
    with isolated_rng(1):
        draw(times)
    assert states() == before


def test_generators_are_put_back_after_an_error() -> None:
    before = states()

    def fail() -> None:
        with isolated_rng(1):
            draw(1)
            raise RuntimeError("inside")

    with pytest.raises(RuntimeError, match="inside"):
        fail()
    assert states() == before


def test_what_is_drawn_inside_comes_from_the_seed_alone() -> None:
    drawn = []
    for outside, seed in ((1, 5), (2, 5), (1, 6)):
        random.seed(outside)
        np.random.seed(outside)
        torch.manual_seed(outside)
        with isolated_rng(seed):
            drawn.append(draw(3))
    assert drawn[0] == drawn[1]
    assert not set(drawn[0]) & set(drawn[2])
    with isolated_rng(2**63 - 1):
        draw(1)
