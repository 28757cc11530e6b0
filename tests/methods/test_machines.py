"""Kinds of machines: each has a rate for every kind of loop, and a wrong name is answered."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from understudy.errors import UserError
from understudy.methods.contract import LoopKind
from understudy.methods.machines import CPU, GPU, machine, machines

ROOT = Path(__file__).parents[2]


def test_the_kinds_that_others_are_judged_by_are_there() -> None:
    assert {CPU, GPU} <= set(machines())


@pytest.mark.parametrize("kind", machines())
def test_each_has_a_rate_for_every_kind_of_loop(kind: str) -> None:
    found = machine(kind)
    assert found.kind == kind
    assert found.name
    assert (ROOT / found.measured.partition(";")[0]).is_file(), (
        "rates say which evidence they come from"
    )
    assert set(found.rates) == set(LoopKind)
    assert 0 < found.probe < 60
    assert 0 <= found.start < 600
    for rate in found.rates.values():
        assert rate.round >= 0
        assert rate.each >= 0
        assert 0 < rate.speed < math.inf


def test_names_are_taken_in_any_case_and_wrong_ones_answered() -> None:
    assert machine(" H200 ") is machine("h200")
    with pytest.raises(UserError, match=r"--device-kind 'h100' has no rates; did you mean h200\?"):
        machine("h100")
    with pytest.raises(UserError, match=r"known: .*cpu"):
        machine("abacus")
