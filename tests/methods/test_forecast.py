"""Forecasts: rough, but they must follow what makes a run longer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.methods.bench import facts_of, stripes
from understudy.methods.contract import Forecasting
from understudy.methods.registry import get_method, method_names


@pytest.mark.parametrize("name", method_names())
def test_more_steps_take_longer_and_a_guess_is_positive(name: str) -> None:
    method = get_method(name)
    assert isinstance(method, Forecasting)
    config, facts = method.Config(), facts_of(stripes(40))
    short = method.forecast(config, facts)
    long = method.forecast(replace(config, steps=2 * config.steps), facts)
    assert 0 < short.seconds < long.seconds
    assert short.gigabytes > 0


@pytest.mark.parametrize("name", method_names())
def test_larger_images_take_longer(name: str) -> None:
    method, facts = get_method(name), facts_of(stripes(40))
    small = method.forecast(method.Config(), replace(facts, shape=(1, 8, 8)))
    large = method.forecast(method.Config(), replace(facts, shape=(3, 32, 32)))
    assert large.seconds > small.seconds
