"""Our prices against those of other packages, from a data file."""

from __future__ import annotations

import os

import pytest

from tests.privacy.accounting.golden import CASES, PACKAGES, Golden, golden, rows
from understudy.privacy.accounting.accountants import price
from understudy.privacy.accounting.renyi import rdp_epsilon
from understudy.privacy.accounting.tally import tally_of

GOLDEN = golden()


@pytest.mark.parametrize("other", [g for g in GOLDEN if g.method == "PLD"], ids=lambda g: g.name)
def test_prices_are_those_of_the_other_packages(other: Golden) -> None:
    ours = price(other.events, other.delta).epsilon
    assert abs(ours - other.epsilon) <= max(0.01 * other.epsilon, 0.003), (
        f"not the price of {other.name}"
    )
    assert ours >= other.low, f"below the lower bound of {other.name}"


@pytest.mark.parametrize("other", [g for g in GOLDEN if g.method == "RDP"], ids=lambda g: g.name)
def test_renyi_prices_are_those_of_the_other_packages(other: Golden) -> None:
    ours = rdp_epsilon(tally_of(other.events), other.delta)
    assert ours == pytest.approx(other.epsilon, rel=0.01), f"not the price of {other.name}"
    assert price(other.events, other.delta).epsilon <= ours * (1 + 1e-9)


def test_every_case_has_a_value_from_every_package() -> None:
    have = {(g.events, g.delta, g.package, g.method) for g in GOLDEN}
    assert have == {(events, delta, *which) for events, delta in CASES for which in PACKAGES}


def test_a_wrong_price_is_not_taken_for_theirs() -> None:
    other = GOLDEN[0]
    wrong = Golden(other.events, other.delta, "other", "PLD", 0.0, 1.02 * other.epsilon + 0.003)
    with pytest.raises(AssertionError, match="not the price of"):
        test_prices_are_those_of_the_other_packages(wrong)


@pytest.mark.audit
@pytest.mark.skipif(not os.environ.get("UNDERSTUDY_AUDIT"), reason="the long form: make audit")
def test_the_file_is_what_the_packages_say_today() -> None:
    kept = {(g.events, g.delta, g.package, g.method): g.epsilon for g in GOLDEN}
    for (events, delta), told in zip(
        [case for case in CASES for _ in PACKAGES], rows(), strict=True
    ):
        key = (events, delta, str(told["package"]), str(told["method"]))
        assert float(str(told["epsilon"])) == pytest.approx(kept[key], rel=1e-4)
