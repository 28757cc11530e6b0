from __future__ import annotations

from dataclasses import replace

import numpy as np

from tests.data.samples import refused
from tests.federated.scene import SCHEMA, records
from understudy.data.schema import Attribute, Schema
from understudy.federated.advice import cautions
from understudy.filters.choice import Choice

CHOICE = Choice(("tone",), ("row",))


def leaning(count: int, share: float):
    """Records whose kept label equals the hidden one in this share of them, others by chance."""
    plain = records(count)
    same = np.arange(count) < share * count
    row = np.where(same, plain.attributes["tone"], plain.attributes["row"])
    return replace(plain, attributes={**plain.attributes, "row": row})


def test_a_sound_choice_needs_no_word():
    assert cautions(SCHEMA, records(400), CHOICE) == ()
    assert cautions(SCHEMA, records(400), Choice(("tone",))) == ()


def test_what_kept_labels_tell_of_a_hidden_one_is_a_figure():
    (said,) = cautions(SCHEMA, leaning(400, 0.4), CHOICE)
    assert "of 'tone': they alone guess it with accuracy 0.698 (chance 0.552)" in said
    with refused("no filter can hide 'tone'"):
        cautions(SCHEMA, leaning(400, 1.0), CHOICE)


def test_chance_is_no_conflict():
    """Few records, many combinations: what counting finds there is an accident."""
    for seed in range(5):
        some = records(120, seed)
        said = cautions(SCHEMA, some, Choice(("tone",), ("row", "side")))
        assert said == (), said


def test_few_records_are_a_word():
    (said,) = cautions(SCHEMA, records(99), CHOICE)
    assert "99 records are few" in said


def test_a_class_that_the_encoder_does_not_know_is_named():
    declared = Schema((Attribute("row", ("no", "perhaps")),))
    (said,) = cautions(declared, records(400), CHOICE)
    assert "does not declare its class 'yes'" in said
    with refused("no attribute 'rwo'"):
        cautions(declared, records(400), Choice(("tone",), ("rwo",)))
