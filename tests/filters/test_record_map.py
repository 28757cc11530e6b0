"""A filter behind the door is a reveal, and says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.filters.latent_cases import FakeEncoder, mixture
from tests.privacy.rig import handle
from understudy.errors import PrivacyError
from understudy.filters.choice import Choice
from understudy.filters.distortion import Distortion
from understudy.filters.filter import fit_filter
from understudy.filters.game import GameConfig
from understudy.filters.record_map import FilterMap
from understudy.methods.contract import RecordMap
from understudy.privacy.ledger.ledger import read_ledger
from understudy.privacy.ledger.story import spent_events
from understudy.privacy.plan.mechanisms import LocalRelease, Reveal

TINY = GameConfig(steps=2, batch=32, head_steps=1, head_width=4, head_layers=1)


def test_it_leaves_as_a_reveal_and_only_where_that_is_planned(tmp_path: Path) -> None:
    records = mixture(100)
    fitted = fit_filter(records, Choice(("hide",), ("keep",)), Distortion(), FakeEncoder(), TINY)
    FilterMap(fitted).save(tmp_path / "saved")
    again = FilterMap.load(tmp_path / "saved")
    assert isinstance(again, RecordMap)
    out = again.apply(handle(tmp_path / "a", records, Reveal("out", "a filter")))
    assert (len(out), tuple(out.attributes)) == (100, ("keep",))
    (event,) = spent_events(read_ledger(tmp_path / "a" / "ledger.jsonl"))
    assert event.kind == "non-private"
    private = handle(tmp_path / "b", records, LocalRelease("local", radius=1.0, sigma=1.0))
    with pytest.raises(PrivacyError, match="reveals nothing"):
        again.apply(private)
