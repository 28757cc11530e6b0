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


GIVEN = pytest.mark.parametrize("public", [False, True])
MACHINE = pytest.mark.parametrize("gpu", [False, True])


@GIVEN
@MACHINE
def test_all_data_have_a_ranking_of_methods_that_there_are(public: bool, gpu: bool) -> None:
    known = set(method_names())
    for measures in every_kind_of_data():
        found = ranking(measures, public=public, gpu=gpu)
        assert found.order
        assert found.because
        assert found.tuned_on
        assert len(set(found.order)) == len(found.order)
        assert set(found.order) <= known


@GIVEN
@MACHINE
def test_the_first_takes_what_is_given_and_nothing_else(public: bool, gpu: bool) -> None:
    orders = {ranking(m, public=public, gpu=gpu).order for m in every_kind_of_data()}
    for name in {order[0] for order in orders}:
        info = get_method(name).info
        assert bool(info.public_records) == public
        assert info.claim == "central"
        assert not info.hides
        assert not info.public_weights


def test_what_is_asked_is_declared() -> None:
    for entry in module._entries():
        assert set(entry) <= {"when", "public", "gpu", "order", "because", "tuned_on"}
        assert set(entry.get("when", {})) <= {field.name for field in fields(Measures)}


def test_the_last_entry_that_holds_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [
        {"order": ["a", "b"], "because": "usual", "tuned_on": "x"},
        {"when": {"channels": 3}, "order": ["b", "a"], "because": "colour", "tuned_on": "x"},
        {"when": {"units": [0, 100]}, "order": ["c"], "because": "few", "tuned_on": "y"},
        {"gpu": True, "order": ["e"], "because": "fast", "tuned_on": "z"},
        {"public": True, "order": ["d"], "because": "given", "tuned_on": "x"},
    ]
    monkeypatch.setattr(module, "_entries", lambda: entries)
    grey = Measures(channels=1, side=8, classes=2, units=500, per_class=250, epsilon=1.0)
    colour = Measures(channels=3, side=8, classes=2, units=500, per_class=250, epsilon=1.0)
    few = Measures(channels=3, side=8, classes=2, units=50, per_class=25, epsilon=1.0)
    assert ranking(grey) == Ranking(("a", "b"), "usual", "x")
    assert ranking(colour) == Ranking(("b", "a"), "colour", "x")
    assert ranking(few) == Ranking(("c",), "few", "y")
    assert ranking(few, gpu=True) == Ranking(("e",), "fast", "z")
    assert ranking(few, public=True) == Ranking(("d",), "given", "x")
