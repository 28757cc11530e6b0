from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

from tests.report.examples import (
    central_claim,
    chained,
    empirical_claim,
    empirical_ledger,
    gan_ledger,
)
from understudy.report.spending import spending
from understudy.report.timeline import timeline


def _blocks(chart: str, status: str) -> list[ElementTree.Element]:
    return [
        e
        for e in ElementTree.fromstring(chart).iter("rect")
        if status in e.get("class", "").split()
    ]


def test_voids_stand_apart_from_what_was_spent() -> None:
    ledger = gan_ledger()
    chart = timeline(spending(central_claim(ledger), ledger), width=760)
    voids, spent = _blocks(chart, "void"), _blocks(chart, "committed")
    assert len(voids) == 2
    assert len(spent) == 4  # the histogram, and three stretches of steps around two voids
    assert float(voids[0].get("height", "")) > float(spent[0].get("height", ""))
    assert "600 of 600 steps" in chart


def test_a_ledger_of_many_alternating_blocks_stays_small() -> None:
    bodies: list[tuple[str, dict[str, Any]]] = []
    for block in range(20_000):
        mechanism = "ab"[block % 2]
        bodies.append(("reserve", {"block": block, "mechanism": mechanism, "uses": 1}))
        bodies.append(("commit", {"block": block, "mechanism": mechanism, "uses": 1}))
    rows = [{"name": n, "kind": "dp-sgd", "planned": 10_000, "spent": 10_000} for n in "ab"]
    chart = timeline(spending({"spending": rows, "ledger": {}}, chained(bodies)), width=760)
    assert len(chart) < 20_000
    assert "10,000 blocks" in chart


def test_a_mechanism_that_only_the_ledger_knows_gets_a_lane() -> None:
    ledger = chained([("reserve", {"block": 0, "mechanism": "stray", "uses": 1})])
    chart = timeline(spending({"spending": [], "ledger": {}}, ledger), width=328)
    assert "stray" in chart
    assert "not in the claim" in chart
    assert _blocks(chart, "open")


def test_a_reveal_is_drawn_as_unlimited() -> None:
    chart = timeline(spending(empirical_claim(), empirical_ledger()), width=328)
    assert _blocks(chart, "unlimited")


def test_the_timeline_tells_its_story_to_a_screen_reader() -> None:
    ledger = gan_ledger()
    root = ElementTree.fromstring(timeline(spending(central_claim(ledger), ledger), width=328))
    assert root.get("role") == "img"
    assert "27 blocks, 2 of them void" in root.get("aria-label", "")
