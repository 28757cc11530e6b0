"""What mechanisms say of themselves: numbers, words, arithmetic, JSON."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

import pytest

from tests.privacy.stretched import StretchedSum, install
from understudy.errors import UserError
from understudy.privacy.plan.events import KNOWN_EVENTS, Event, event_from_json, event_to_json
from understudy.privacy.plan.exact_or_float import choose_noise, noise_of
from understudy.privacy.plan.mechanisms import (
    DPSGD,
    EXACT,
    FLOAT,
    ClippedAggregate,
    EnsembleGradients,
    EnsembleVotes,
    LocalLabels,
    LocalRelease,
    Mechanism,
    NoisyHistogram,
    NoisySum,
    OneOfShardsGradients,
    Reveal,
    mechanism_class,
    mechanism_from_json,
    mechanism_kinds,
    mechanism_to_json,
)

SAID: list[tuple[Mechanism, tuple[str, ...]]] = [
    (NoisySum("a", clip=3.0, sigma=2.5), ("norm at most 3,", "2.5 times")),
    (NoisyHistogram("a", bins=7, sigma=2.5), ("7 bins", "deviation 2.5.")),
    (DPSGD("a", 1200, 0.05, clip=3.0, sigma=2.5), ("1,200 steps", "0.05;", "norm 3,", "2.5 times")),
    (
        ClippedAggregate("a", 1200, 0.05, clip=3.0, sigma=2.0),
        ("1,200 steps", "0.05;", "norm 3,", "deviation 12."),
    ),
    (
        OneOfShardsGradients("a", 9, 1200, clip=3.0, sigma=2.0),
        ("1,200 steps", "9 disjoint shards", "in secret", "norm 3;", "deviation 12."),
    ),
    (NoisySum("a", clip=3.0, sigma=2.5, releases=10), ("leaves 10 times",)),
    (EnsembleVotes("a", 9, 1200, sigma=2.0), ("9 disjoint", "1,200 inputs", "2.828")),
    (
        EnsembleGradients("a", 9, 1200, 3.0, 2.0),
        ("1,200 gradients", "norm 3 a shard", "deviation 12."),
    ),
    (LocalRelease("a", radius=3.0, sigma=2.0), ("norm 3,", "deviation 12 ")),
    (LocalLabels("a", epsilon=0.5), ("epsilon 0.5.",)),
    (Reveal("a", "a test"), ("without any protection: a test.",)),
]


@pytest.mark.parametrize(("mechanism", "said"), SAID, ids=lambda v: getattr(v, "kind", ""))
def test_words_say_what_is_planned(mechanism: Mechanism, said: tuple[str, ...]) -> None:
    missing = [words for words in said if words not in mechanism.words()]
    assert missing == [], mechanism.words()


def test_every_kind_has_words_that_a_reader_can_print() -> None:
    assert {mechanism.kind for mechanism, _ in SAID} >= {"noisy-sum", "dp-sgd", "reveal"}
    for kind in mechanism_kinds():
        found = mechanism_class(kind)
        assert found.title
        assert found.use_word
        words = found.example().words()
        assert words[0].isupper()
        assert words.endswith(".")


@pytest.mark.parametrize("kind", mechanism_kinds())
def test_every_example_is_valid_and_comes_back_from_json(kind: str) -> None:
    example = mechanism_class(kind).example()
    example.check()
    written = mechanism_to_json(example)
    assert list(written)[:2] == ["kind", "name"]
    assert mechanism_from_json(json.loads(json.dumps(written))) == example


def numbers() -> list[tuple[str, str]]:
    found = []
    for kind in mechanism_kinds():
        own = fields(mechanism_class(kind))  # type: ignore[arg-type]
        found += [(kind, field.name) for field in own if field.type in ("int", "float")]
    return found


@pytest.mark.parametrize(("kind", "field"), numbers())
@pytest.mark.parametrize("wrong", [0, -1.0, float("nan"), float("inf"), "1", None])
def test_every_number_of_every_mechanism_is_checked(kind: str, field: str, wrong: Any) -> None:
    broken = replace(mechanism_class(kind).example(), **{field: wrong})  # type: ignore[type-var]
    with pytest.raises(UserError, match=f"^{field} of '"):
        broken.check()


def test_only_whole_number_noise_is_exact() -> None:
    exact = {kind for kind in mechanism_kinds() if mechanism_class(kind).can_be_exact}
    assert exact == {"noisy-sum", "noisy-histogram"}, "no other noise is on a grid"
    for kind in mechanism_kinds():
        turned = mechanism_class(kind).example().with_arithmetic(EXACT)
        assert (turned.arithmetic == EXACT) == (kind in exact)
        assert (noise_of([turned]) == EXACT) == (kind in exact)


def test_a_sum_of_another_package_is_no_exact_one(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    planned = StretchedSum.example()
    assert choose_noise(lambda _: [planned], None, "toy") == FLOAT
    with pytest.raises(UserError, match="uses stretched-sum"):
        choose_noise(lambda _: [planned], EXACT, "toy")


@pytest.mark.parametrize("event", KNOWN_EVENTS, ids=lambda e: e.kind)
def test_events_come_back_from_json(event: type[Event]) -> None:
    values = {"float": 0.5, "int": 3, "str": "why"}
    made = event(**{field.name: values[str(field.type)] for field in fields(event)})
    assert event_from_json(json.loads(json.dumps(event_to_json(made)))) == made


@pytest.mark.parametrize(
    "written",
    [
        {"kind": "gauss", "sigma": 1.0, "count": 1},
        {"kind": ["gaussian"], "sigma": 1.0, "count": 1},
        {"kind": "gaussian", "sigma": 1.0},
        {"kind": "gaussian", "sigma": 1.0, "count": 1, "discount": 2},
        {"kind": "gaussian", "sigma": 1.0, "count": 1.5},
        {"kind": "gaussian", "sigma": float("nan"), "count": 1},
        {"kind": "gaussian", "sigma": True, "count": 1},
        {"kind": "non-private", "reason": 3},
    ],
)
def test_events_that_say_more_or_less_are_refused(written: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="event"):
        event_from_json(written)
