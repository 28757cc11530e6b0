from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest

from tests.data.samples import refused
from tests.encoders.samples import PUBLIC
from tests.federated.scene import contribution, encoder
from understudy.data.schema import Attribute, Schema
from understudy.encoders.citation import Citation
from understudy.encoders.provenance import Provenance
from understudy.federated.agreement import Agreement
from understudy.federated.contribution import Contribution, read_statement, statement_of
from understudy.privacy.local.channel import LocalChannel
from understudy.privacy.noise.source import NoiseSource

REVEALED = Provenance("scans of a clinic", "revealed", math.inf)


def cited(provenance=PUBLIC, digest=None, **words):
    """The scene's encoder as a stranger cites it."""
    said = Citation(digest or encoder().digest, provenance).to_json()
    return {**said, "provenance": {**said["provenance"], **words}}


@pytest.fixture(scope="module")
def agreement():
    return Agreement.of(encoder())


@pytest.fixture(scope="module")
def sent():
    return contribution()


def test_what_was_agreed_on_passes(agreement, sent):
    back = agreement.check(sent.statement(), sent.arrays())
    assert np.array_equal(back.records.features, sent.records.features)
    assert back.records.schema.names == ("row",)
    assert back.channel is None
    assert Agreement.from_json(agreement.to_json()) == agreement


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"encoder": cited(digest="f" * 64)}, "another encoder"),
        ({"encoder": cited(trained_on="nobody's data")}, "cannot be read"),
        ({"encoder": cited(REVEALED)}, "what that learnt"),
        ({"encoder": encoder().digest}, "cannot be read"),
        ({"encoder": {"digest": encoder().digest}}, "cannot be read"),
        ({"content": "images"}, "latents were agreed"),
        ({"count": 0}, "0 records"),
        ({"count": 59}, "float32"),
        ({"count": True}, "whole number"),
        ({"format": "understudy-contribution/2"}, "format"),
        ({"mechanism": "none"}, "cannot be read"),
        ({"promise": {"epsilon": 1.0}}, "promises nothing"),
        ({"labels": [{"name": "row", "classes": ["a", "b"]}]}, "other classes"),
        ({"labels": [{"name": "income", "classes": ["a"]}]}, "income"),
        ({"labels": []}, "label:row"),
        ({"labels": 3}, "cannot be read"),
        ({"hidden": "tone"}, "hidden"),
    ],
)
def test_a_statement_that_says_something_else_is_refused(agreement, sent, change, word):
    with refused(word):
        agreement.check({**sent.statement(), **change}, sent.arrays())


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"label:tone": np.zeros(60, np.int64)}, "label:tone"),
        ({"metrics": np.zeros(1)}, "metrics"),
        ({"label:row": np.zeros(59, np.int64)}, "label 'row'"),
        ({"label:row": np.full(60, 2)}, "outside"),
        ({"label:row": np.full(60, -1)}, "outside"),
        ({"label:row": np.zeros(60, np.float32)}, "int64"),
        ({"features": np.zeros((60, 4), np.float32)}, "float32 [60, 3]"),
        ({"features": np.zeros((60, 3))}, "float64"),
        ({"features": np.full((60, 3), np.nan, np.float32)}, "finite"),
        ({"features": np.full((60, 3), 1e20, np.float32)}, "farther"),
    ],
)
def test_arrays_that_are_something_else_are_refused(agreement, sent, change, word):
    with refused(word):
        agreement.check(sent.statement(), {**sent.arrays(), **change})


def test_a_missing_array_is_named(agreement, sent):
    with refused("features"):
        agreement.check(sent.statement(), {"label:row": sent.arrays()["label:row"]})


@pytest.mark.parametrize(
    ("channel", "word"),
    [
        (LocalChannel(1.0, 1.0, 1e-5, {"row": 1.0}), "radius"),
        (LocalChannel(2.0, 1.0, 1e-5), "labels"),
        (LocalChannel(2.0, 1.0, 1e-5, {"row": 1.0}, ("side",)), "labels"),
        (LocalChannel(2.0, 1.5, 1e-5, {"row": 1.0}), "epsilon 2.5"),
        (LocalChannel(2.0, 1.0, 1e-3, {"row": 1.0}), "delta 0.001"),
    ],
)
def test_a_promise_weaker_than_agreed_is_refused(agreement, sent, channel, word):
    strict = replace(agreement, epsilon=2.0, delta=1e-4)
    with refused(word):
        strict.check(replace(sent, channel=channel).statement(), sent.arrays())
    good = replace(sent, channel=LocalChannel(2.0, 1.0, 1e-5, {"row": 1.0}))
    assert strict.check(good.statement(), good.arrays()).mechanism == "gaussian"


@pytest.mark.parametrize("epsilon", [1e-3, 0.01, 1.0, 1e4])
def test_sound_noise_is_never_refused(agreement, sent, epsilon):
    """At epsilon 0.01 most records lie beyond 100 radii; they were paid for."""
    channel = LocalChannel(2.0, epsilon, 1e-5, {"row": 1.0})
    far = channel.release(sent.records, NoiseSource())
    one = replace(sent, records=far, channel=channel)
    assert len(agreement.check(one.statement(), one.arrays()).records) == 60
    norms = np.linalg.norm(far.features, axis=1)
    if epsilon <= 0.01:
        assert (norms > 200).any()
    garbage = far.features * np.float32(20 * channel.deviation / norms.max() + 20)
    with refused("farther out"):
        agreement.check(one.statement(), {**one.arrays(), "features": garbage})


def test_noise_that_no_number_holds_is_refused_by_its_terms(agreement):
    schema = Schema(())
    for radius, sound in ((2.0, True), (1e29, False)):
        channel = LocalChannel(radius, 0.1, 1e-5)
        said = statement_of(agreement.encoder, "latents", 1, schema, channel)
        with nullcontext() if sound else refused("too large"):
            replace(agreement, radius=radius).check_terms(said, (3,))


def test_a_mechanism_that_was_not_agreed_on_is_refused(agreement, sent):
    with refused("filter", "not agreed"):
        replace(agreement, mechanisms=("gaussian",)).check(sent.statement(), sent.arrays())


@pytest.mark.parametrize(
    "promise",
    [
        {},
        {"epsilon": math.inf},
        {"epsilon": "1"},
        {"delta": 0},
        {"label_epsilons": {"row": -1}},
        {"extra": 1},
    ],
)
def test_a_promise_that_is_none_is_refused(sent, promise):
    whole = replace(sent, channel=LocalChannel(2.0, 1.0, 1e-5)).statement()
    said = {**whole, "promise": {**whole["promise"], **promise} if promise else {}}
    with refused():
        read_statement(said)


def test_words_of_an_agreement_are_checked():
    with refused("latents"):
        Agreement.of(encoder(), "latent")
    with refused("filter"):
        Agreement.of(encoder(), mechanisms=("filters",))


def test_probabilities_are_not_sent(sent):
    soft = {"row": np.full((60, 2), 0.5, np.float32)}
    records = replace(sent.records, attributes=soft)
    with refused("probabilities"):
        Contribution(sent.encoder, sent.content, records).arrays()


@pytest.mark.parametrize(
    ("label", "word"),
    [
        (Attribute("patient_id", ("no", "yes")), "tells records or people apart"),
        (Attribute("row", ("no", "/" + "home/ann/yes")), "path"),
    ],
)
def test_labels_that_no_release_may_hold_are_refused_user_by_user(sent, label, word):
    """Not the whole collection: one user's label must not stop everybody."""
    plain = encoder()
    made = replace(plain, schema=Schema((label,)))
    columns = {label.name: sent.records.attributes["row"]}
    records = replace(sent.records, attributes=columns, schema=made.schema)
    one = replace(sent, encoder=Citation.of(made), records=records)
    with refused(word):
        Agreement.of(made).check(one.statement(), one.arrays())


def test_limits_are_those_of_a_promise():
    made = encoder()
    asked = Agreement.local(made, "latents", 3.0, None)
    assert (asked.mechanisms, asked.epsilon, asked.delta) == (("gaussian",), 3.0, 1e-5)
    assert Agreement.local(made, "latents", None, 1e-7).delta == 1e-7
    for limits in ({"epsilon": 0.0}, {"epsilon": -1.0}, {"epsilon": math.nan}):
        with refused("epsilon must be"):
            replace(asked, **limits)
        with refused("epsilon must be"):
            Agreement.local(made, "latents", limits["epsilon"], None)
    for limits in ({"delta": 0.0}, {"delta": 1.5}, {"delta": math.nan}):
        with refused("delta must lie"):
            replace(asked, **limits)
        with refused("delta must lie"):
            Agreement.local(made, "latents", None, limits["delta"])
