from __future__ import annotations

import math

import pytest

from tests.report.examples import central_claim, empirical_claim, gan_ledger
from understudy.errors import UserError
from understudy.report.claim_view import claim_view, flat_settings


def test_a_central_claim_is_formal_and_rounded_up() -> None:
    view = claim_view(central_claim(gan_ledger()))
    assert view.is_formal
    assert view.epsilon_words == "9.988"
    assert (view.delta_words, view.delta_one_in) == ("10⁻⁵", "1 in 100,000")
    assert view.protected == "image"
    assert view.size_words == "8 × 8 pixels, grey"


def test_an_empirical_claim_has_no_finite_epsilon() -> None:
    view = claim_view(empirical_claim())
    assert not view.is_formal
    assert math.isinf(view.epsilon)
    assert view.epsilon_words == "infinite"


def test_a_unit_column_names_what_is_protected() -> None:
    claim = central_claim(gan_ledger())
    claim["unit"] = {"column": "patient", "words": "per patient"}
    assert claim_view(claim).protected == "patient"


@pytest.mark.parametrize("epsilon", [None, "small", True, math.nan, -1.0])
def test_an_epsilon_that_cannot_be_stated_is_refused(epsilon: object) -> None:
    with pytest.raises(UserError, match="claim has epsilon"):
        claim_view({**central_claim(gan_ledger()), "epsilon": epsilon})


@pytest.mark.parametrize(("kind", "epsilon"), [("central", "infinity"), ("empirical", 3.0)])
def test_kind_and_epsilon_must_agree(kind: str, epsilon: object) -> None:
    with pytest.raises(UserError, match="an empirical claim, and no other"):
        claim_view({**central_claim(gan_ledger()), "kind": kind, "epsilon": epsilon})


def test_an_unknown_kind_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UserError, match="'strong'; it must be one of central, local, empirical"):
        claim_view({**central_claim(gan_ledger()), "kind": "strong"})


def test_a_claim_with_the_least_it_may_hold_still_reads() -> None:
    full = central_claim(gan_ledger())
    needed = ("kind", "epsilon", "statement", "unit", "relation", "method", "spending")
    view = claim_view({key: full[key] for key in needed})
    assert view.accountant == "not stated"
    assert view.record == "record"
    assert view.delta_words == "none"


def test_settings_are_flattened_in_order_and_long_ones_cut() -> None:
    rows = flat_settings({"b": 1, "a": {"x": None, "y": {}}, "long": "z" * 5000})
    assert [name for name, _ in rows] == ["b", "a.x", "a.y", "long"]
    assert rows[2][1] == "not set"
    assert len(rows[3][1]) == 400
