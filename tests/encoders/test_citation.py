from __future__ import annotations

import math
from dataclasses import replace

import pytest

from tests.data.samples import refused
from tests.encoders.samples import PUBLIC, encoder_of
from understudy.encoders.citation import Citation
from understudy.encoders.provenance import Provenance

REVEALED = Provenance("scans of a clinic", "revealed", math.inf)


def test_it_is_what_the_encoder_says_of_itself():
    made = encoder_of().with_provenance(REVEALED)
    cited = Citation.of(made)
    assert (cited.digest, cited.provenance) == (made.digest, REVEALED)
    assert "epsilon is infinite" in cited.statement
    assert cited.problems(made) == []
    assert Citation.from_json(cited.to_json()) == cited


def test_there_is_none_without_provenance():
    with pytest.raises(TypeError, match="provenance"):
        Citation(encoder_of().digest)  # type: ignore[call-arg]
    with refused("64"):
        Citation("abc", PUBLIC)


def test_another_encoder_or_another_story_is_seen():
    made = encoder_of()
    cited = Citation.of(made)
    (problem,) = cited.problems(encoder_of(radius=1.0))
    assert "made with the encoder" in problem
    (problem,) = replace(cited, provenance=REVEALED).problems(made)
    assert "training data" in problem


@pytest.mark.parametrize(
    "change",
    [
        {"digest": None},
        {"digest": "f" * 63},
        {"provenance": None},
        {"provenance": {}},
        {"note": "a word too many"},
        {"provenance": {**PUBLIC.to_json(), "note": "a word too many"}},
        {"provenance": {**REVEALED.to_json(), "epsilon": 0.0}},
        {"provenance": {**REVEALED.to_json(), "statement": PUBLIC.statement}},
    ],
)
def test_words_that_do_not_fit_are_refused(change):
    from understudy.errors import UserError

    whole = Citation.of(encoder_of()).to_json()
    with pytest.raises((UserError, ValueError, TypeError, KeyError)):
        Citation.from_json({**whole, **change})
