"""Every mechanism is measured as it says, and a mechanism that says too little is caught."""

from __future__ import annotations

from dataclasses import replace

import pytest

from understudy.audit.probes import Probe, probes_of, problems_of
from understudy.audit.sensitivity import farthest
from understudy.plugins import is_target
from understudy.privacy.plan.mechanisms import (
    NoisySum,
    mechanism_class,
    mechanism_kinds,
)

UNMEASURED = {"reveal", "local-labels"}


def test_a_mechanism_names_its_probe_or_says_why_it_has_none() -> None:
    named = {kind: mechanism_class(kind).probe for kind in mechanism_kinds()}
    assert {kind for kind, probe in named.items() if not is_target(probe)} == UNMEASURED
    assert all(len(named[kind].split()) > 3 for kind in UNMEASURED)


@pytest.mark.parametrize("kind", sorted(set(mechanism_kinds()) - UNMEASURED))
def test_every_example_moves_as_far_as_it_says_and_no_further(kind: str) -> None:
    example = mechanism_class(kind).example()
    assert problems_of(example) == []
    probes = probes_of(example)
    assert probes, "it names a probe that measures nothing"
    for probe in probes:
        assert farthest(probe.moves()).distance >= 0.99 * probe.declared, probe.name


def test_a_probe_sees_too_little_declared() -> None:
    (probe, *_) = probes_of(NoisySum.example())
    found = replace(probe, declared=0.99 * probe.declared).problem()
    assert found is not None
    assert "where 0.495 is declared" in found


def test_a_probe_looks_at_the_mechanism_it_is_given() -> None:
    wide = NoisySum("wide", clip=3.0, sigma=2.0)
    assert {probe.declared for probe in probes_of(wide)} == {3.0}
    assert isinstance(probes_of(wide)[0], Probe)
