from __future__ import annotations

import math
from typing import Any

from tests.report.examples import (
    central_claim,
    chained,
    empirical_claim,
    empirical_ledger,
    gan_ledger,
)
from understudy.report.spending import plural, spending


def _claim(spent: int) -> dict[str, Any]:
    row = {"name": "m", "kind": "dp-sgd", "planned": 10, "spent": spent, "epsilon_alone": 1.0}
    return {"spending": [row], "ledger": {}}


def _reserve(block: int, uses: int = 5) -> tuple[str, dict[str, Any]]:
    return "reserve", {"block": block, "mechanism": "m", "uses": uses}


def test_a_sound_ledger_agrees_with_its_claim() -> None:
    ledger = gan_ledger()
    spent = spending(central_claim(ledger), ledger)
    assert spent.disagreements == ()
    assert spent.voids == 2
    assert spent.unfinished == 0
    assert spent.budget == 10.0
    assert spent.closed
    assert not spent.stopped_early
    assert [row.uses_words for row in spent.rows] == ["1 of 1 release", "600 of 600 steps"]
    assert [row.voids for row in spent.rows] == [0, 2]


def test_a_reserve_without_an_end_counts_as_spent() -> None:
    ledger = chained([_reserve(0), ("commit", {"block": 0, "uses": 5}), _reserve(1)])
    spent = spending(_claim(10), ledger)
    assert spent.unfinished == 1
    assert spent.disagreements == ()
    assert spending(_claim(5), ledger).disagreements != ()


def test_a_void_costs_nothing_even_when_its_block_number_comes_again() -> None:
    ledger = chained(
        [_reserve(0), ("void", {"block": 0}), _reserve(0), ("commit", {"block": 0, "uses": 5})]
    )
    spent = spending(_claim(5), ledger)
    assert [a.status for a in spent.attempts] == ["void", "committed"]
    assert spent.disagreements == ()


def test_a_commit_of_fewer_uses_than_reserved_is_taken_at_its_word() -> None:
    ledger = chained([_reserve(0, 8), ("commit", {"block": 0, "uses": 3})])
    spent = spending(_claim(3), ledger)
    assert spent.attempts[0].uses == 3
    assert spent.stopped_early


def test_an_edited_claim_is_seen_beside_its_ledger() -> None:
    ledger = gan_ledger()
    claim = central_claim(ledger)
    claim["spending"][1]["spent"] = 300
    claim["ledger"] = {"head": "0" * 64, "length": 3}
    found = " / ".join(spending(claim, ledger).disagreements)
    assert "300" in found
    assert "last line" in found
    assert "3 ledger lines" in found


def test_shares_divide_the_costs_alone_and_are_withheld_without_a_limit() -> None:
    ledger = gan_ledger()
    rows = spending(central_claim(ledger), ledger).rows
    assert math.isclose(sum(row.share or 0 for row in rows), 1.0)
    revealed = spending(empirical_claim(), empirical_ledger())
    assert revealed.rows[0].share is None
    assert revealed.unlimited == {"all records"}


def test_no_ledger_means_no_timeline_and_no_complaint() -> None:
    spent = spending(_claim(5), ())
    assert spent.attempts == ()
    assert spent.disagreements == ()
    assert spent.budget is None


def test_plurals() -> None:
    assert [plural("query", n) for n in (1, 2)] == ["query", "queries"]
    assert plural("step", 0) == "steps"
