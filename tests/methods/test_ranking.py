"""The documented order of methods: for all data, of methods that there are."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import fields

import pytest

from understudy.methods import ranking as module
from understudy.methods.ranking import Ranking, ranking
from understudy.methods.registry import get_method, method_names
from understudy.methods.rules import Measures


def every_kind_of_data() -> Iterator[Measures]:
    sizes = itertools.product((1, 3), (8, 28, 32, 64, 256), (2, 10, 100))
    for (channels, side, classes), units, epsilon in itertools.product(
        sizes, (2, 40, 300, 3000, 60_000, 10**6), (0.1, 1.0, 10.0, 1e9)
    ):
        yield Measures(channels, side, classes, units, units / classes, epsilon)


@pytest.mark.parametrize("public", [False, True])
def test_all_data_have_a_ranking_of_methods_that_there_are(public: bool) -> None:
    known = set(method_names())
    for measures in every_kind_of_data():
        found = ranking(measures, public)
        assert found.order
        assert found.because
        assert len(set(found.order)) == len(found.order)
        assert set(found.order) <= known


@pytest.mark.parametrize("public", [False, True])
def test_the_first_takes_what_is_given_and_nothing_else(public: bool) -> None:
    for name in {ranking(measures, public).order[0] for measures in every_kind_of_data()}:
        info = get_method(name).info
        assert bool(info.public_records) == public
        assert info.claim == "central"
        assert not info.hides
        assert not info.public_weights


def test_what_is_asked_is_declared() -> None:
    for entry in module._entries():
        assert set(entry) <= {"when", "public", "order", "because"}
        assert set(entry.get("when", {})) <= {field.name for field in fields(Measures)}


def test_the_last_entry_that_holds_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [
        {"order": ["a", "b"], "because": "usual"},
        {"when": {"channels": 3}, "order": ["b", "a"], "because": "colour"},
        {"when": {"units": [0, 100]}, "order": ["c"], "because": "few"},
        {"public": True, "order": ["d"], "because": "given"},
    ]
    monkeypatch.setattr(module, "_entries", lambda: entries)
    grey = Measures(channels=1, side=8, classes=2, units=500, per_class=250, epsilon=1.0)
    colour = Measures(channels=3, side=8, classes=2, units=500, per_class=250, epsilon=1.0)
    few = Measures(channels=3, side=8, classes=2, units=50, per_class=25, epsilon=1.0)
    assert ranking(grey) == Ranking(("a", "b"), "usual")
    assert ranking(colour) == Ranking(("b", "a"), "colour")
    assert ranking(few) == Ranking(("c",), "few")
    assert ranking(few, public=True) == Ranking(("d",), "given")
