from __future__ import annotations

import json
import math

import pytest

from tests.data.samples import refused
from understudy.encoders.provenance import Provenance

SOUND = (
    Provenance("digits", "public", 0.0),
    Provenance("scans", "central", 2.0, 1e-5, "PLD", "add-or-remove one unit", ledger="ab"),
    Provenance("scans", "revealed", math.inf, 1e-5),
)


@pytest.mark.parametrize("found", SOUND, ids=lambda p: p.claim)
def test_it_survives_json(found):
    text = json.dumps(found.to_json(), allow_nan=False)
    assert Provenance.from_json(json.loads(text)) == found


def test_each_statement_says_what_matters():
    public, central, revealed = (p.statement for p in SOUND)
    assert "costs nothing" in public
    assert "epsilon 2 " in central
    assert "per record" in central
    assert "infinite" in revealed


@pytest.mark.parametrize(
    ("claim", "epsilon"),
    [("public", 1.0), ("revealed", 3.0), ("central", math.inf), ("central", 0.0),
     ("central", math.nan), ("revealed", math.nan), ("private", 1.0)],
)  # fmt: skip
def test_a_claim_and_an_epsilon_that_disagree_are_refused(claim, epsilon):
    with refused(claim):
        Provenance("scans", claim, epsilon, 1e-5)


def test_a_central_claim_needs_a_delta():
    with refused("delta"):
        Provenance("scans", "central", 1.0, 0.0)
