"""What a method says of its loops: rough, but it must follow what makes a run longer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.methods.bench import facts_of, stripes
from understudy.methods.config import resolve_config
from understudy.methods.contract import Facts, Forecasting, LoopKind, Method
from understudy.methods.machines import CPU, machine, machines
from understudy.methods.registry import get_method, method_names

FACTS = facts_of(stripes(40))
SAMPLES = 40


def told_by(name: str) -> tuple[Forecasting, Any]:
    """A method that can tell, with its settings as the code has them."""
    method: Method = get_method(name)
    assert isinstance(method, Forecasting)
    return method, method.Config()


def seconds(
    name: str, facts: Facts = FACTS, samples: int = SAMPLES, on: str = CPU, **changes: int
) -> float:
    """By the rates of a machine, with some settings changed."""
    method, config = told_by(name)
    loops = method.loops(replace(config, **changes), facts, samples)
    return machine(on).pace(loops).seconds(loops)


@pytest.mark.parametrize("name", method_names())
def test_every_loop_has_rounds_and_work(name: str) -> None:
    method, config = told_by(name)
    loops = method.loops(config, FACTS, SAMPLES)
    assert loops
    for loop in loops:
        assert loop.rounds > 0
        assert loop.passes > 0
        assert loop.multiplications > 0
    assert len({loop.bar for loop in loops}) == len(loops), "a trial tells loops apart by their bar"


@pytest.mark.parametrize("name", method_names())
def test_a_loop_names_the_setting_that_counts_its_rounds(name: str) -> None:
    method, config = told_by(name)
    for loop in method.loops(config, FACTS, SAMPLES):
        if loop.setting is None:
            assert loop.kind == LoopKind.DRAWING
            continue
        assert getattr(config, loop.setting) == loop.rounds
        more = replace(config, **{loop.setting: 3 * loop.rounds})
        after = {one.bar: one for one in method.loops(more, FACTS, SAMPLES)}
        assert after[loop.bar] == replace(loop, rounds=3 * loop.rounds)


@pytest.mark.parametrize("name", method_names())
@pytest.mark.parametrize("on", machines())
def test_more_rounds_take_longer_by_every_setting_that_counts_them(name: str, on: str) -> None:
    method, config = told_by(name)
    short = seconds(name, on=on)
    assert short > 0
    for loop in method.loops(config, FACTS, SAMPLES):
        if loop.setting is not None:
            assert seconds(name, on=on, **{loop.setting: 2 * loop.rounds}) > short


@pytest.mark.parametrize("name", method_names())
def test_larger_images_and_larger_batches_take_longer(name: str) -> None:
    small, large = (replace(FACTS, shape=shape) for shape in ((1, 8, 8), (3, 32, 32)))
    assert seconds(name, large) > seconds(name, small)
    batch = told_by(name)[1].batch
    assert seconds(name, batch=2 * batch) > seconds(name)


MORE_WORK: Mapping[str, Mapping[str, int]] = {
    "dpdm": {"multiplicity": 16},
    "dp-feta": {"central_batch": 10_000},
    "pdp-diffusion": {"public_batch": 10_000},
    "dp-gan": {"discriminator_width": 256},
    "dp-merf": {"features_per_step": 4000},
}


@pytest.mark.parametrize("name", MORE_WORK)
def test_more_work_in_a_round_takes_longer(name: str) -> None:
    assert seconds(name, **MORE_WORK[name]) > seconds(name)


@pytest.mark.parametrize("name", ["dpdm", "dp-feta", "pdp-diffusion"])
def test_more_images_are_drawn_longer(name: str) -> None:
    assert seconds(name, samples=10_000) > seconds(name, samples=10)


@pytest.mark.parametrize("name", method_names())
def test_memory_is_told(name: str) -> None:
    method, config = told_by(name)
    assert 0 < method.gigabytes(config, FACTS) < 100


def test_the_digits_are_forecast_as_they_were_measured() -> None:
    """250 s on two cores (benchmarks/evidence/dpdm-digits.json), but for a factor of two."""
    method = told_by("dpdm")[0]
    config = resolve_config(get_method("dpdm"), "digits", 10.0).config
    facts = facts_of(stripes(40), count=1438)
    loops = method.loops(config, facts, 1438)
    assert 125 < machine(CPU).pace(loops).seconds(loops) < 500
