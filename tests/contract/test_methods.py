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


def test_a_failing_method_gives_exit_code_one(workplace: Workplace) -> None:
    said = workplace.run("check-method", "tests.audit.bad_methods:PlansAndDoesNot")
    assert said.code == 1
    assert "FAIL  fits within its plan: mechanism 'unused' is planned and never used." in said.out
    assert said.err == ""


def test_settings_can_be_changed_for_the_check(workplace: Workplace) -> None:
    said = workplace.run("check-method", "dp-merf", "--set", "stepz=1")
    assert said.code == 1
    assert "did you mean steps?" in said.out
