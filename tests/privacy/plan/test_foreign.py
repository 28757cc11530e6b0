"""Mechanisms whose package is not installed: priced by what the plan states, never below it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.privacy.rig import plan
from understudy.errors import PrivacyError
from understudy.privacy.ledger.ledger import Ledger
from understudy.privacy.ledger.story import spent_events
from understudy.privacy.plan.events import Event, Gaussian, NonPrivate, event_to_json
from understudy.privacy.plan.exact_or_float import noise_of
from understudy.privacy.plan.mechanisms import Mechanism, mechanism_from_json


def absent(*events: Event, uses: int = 3) -> Mechanism:
    return mechanism_from_json(
        {
            "kind": "of-no-package-here",
            "name": "absent",
            "part": "train",
            "planned_uses": uses,
            "events": [event_to_json(event) for event in events],
            "shipped_by": "package nowhere",
        }
    )


@pytest.mark.parametrize("uses", [1, 2, 3])
def test_the_first_use_costs_what_all_of_them_do(tmp_path: Path, uses: int) -> None:
    """What part of the events one use is, only the package could say."""
    stated = Gaussian(2.0, 3)
    ledger = Ledger.create(tmp_path / "ledger", plan(absent(stated)), {})
    assert spent_events(ledger.entries) == ()
    ledger.reserve("absent", uses)
    assert spent_events(ledger.entries) == (stated,), "begun, and below its price"
    ledger.append(ledger.commit_entry(uses))
    assert spent_events(ledger.entries) == (stated,), "used, and below its price"


def test_one_that_lets_records_out_adds_no_noise_that_a_claim_could_name() -> None:
    told = absent(Gaussian(2.0), NonPrivate("as they are"))
    assert not told.is_private, "records leave, and it is called private"
    assert absent(Gaussian(2.0)).is_private
    assert noise_of([told]) == "float"


@pytest.mark.parametrize(
    "event",
    [
        {"kind": "gaussian", "sigma": 1.0, "count": 0},
        {"kind": "poisson-gaussian", "sigma": 1.0, "rate": 0.0, "count": 3},
        {"kind": "randomised-response", "epsilon": 1.0, "count": 0},
    ],
)
def test_events_that_never_happen_are_no_price(event: dict[str, object]) -> None:
    written = {"kind": "k", "name": "n", "part": "p", "planned_uses": 3, "shipped_by": "package q"}
    with pytest.raises(PrivacyError, match="no events that have a price"):
        mechanism_from_json({**written, "events": [event]})
    mechanism_from_json({**written, "events": [event, event_to_json(Gaussian(1.0))]})
