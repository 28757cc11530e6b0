"""What every registered method passes through; a new method is here by being registered."""

from __future__ import annotations

import pytest

from tests.workplace import Workplace
from understudy.methods.registry import method_names


@pytest.mark.slow
@pytest.mark.parametrize("name", method_names())
def test_the_public_contract(workplace: Workplace, name: str) -> None:
    """As anybody would ask: `understudy check-method NAME`, with its smallest preset."""
    said = workplace.run("check-method", name, "--json")
    checks = said.json()["checks"]
    assert {c["check"]: c["problem"] for c in checks if not c["passed"]} == {}
    assert len(checks) == 9
    assert said.code == 0


@pytest.mark.slow
@pytest.mark.parametrize("spread", ["false", "true"])
def test_the_public_contract_of_releases_without_private_steps(
    workplace: Workplace, spread: str
) -> None:
    """What rules take of dp-feta: the same replay, on other records and another number of them."""
    settings = ("steps=0", "central_axes_share=0.7", "central_axes_side=4")
    given = (word for one in (*settings, f"central_spread={spread}") for word in ("--set", one))
    checks = workplace.run("check-method", "dp-feta", *given, "--json").json()["checks"]
    assert {c["check"]: c["problem"] for c in checks if not c["passed"]} == {}


def test_a_failing_method_gives_exit_code_one(workplace: Workplace) -> None:
    said = workplace.run("check-method", "tests.audit.bad_methods:PlansAndDoesNot")
    assert said.code == 1
    assert "FAIL  fits within its plan: mechanism 'unused' is planned and never used." in said.out
    assert said.err == ""


def test_settings_can_be_changed_for_the_check(workplace: Workplace) -> None:
    said = workplace.run("check-method", "dp-merf", "--set", "stepz=1")
    assert said.code == 1
    assert "did you mean steps?" in said.out
