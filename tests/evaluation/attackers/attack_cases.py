"""Releases with and without a planted leak, and what an attack's row must then say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tests.evaluation.evaluation_cases import make_case
from understudy.data.records import Records
from understudy.data.schema import Attribute, Schema
from understudy.evaluation.case import Case
from understudy.evaluation.metric import Row
from understudy.evaluation.protocol import Protocol

COIN = Schema(
    (Attribute("digit", tuple("0123456789")), Attribute("coin", ("heads", "tails"))),
    label="coin",
    sensitive=("coin",),
)


def with_coin(records: Records, seed: int = 3) -> Records:
    """An attribute that pixels say nothing about: only copying can tell it."""
    coin = np.random.default_rng(seed).integers(0, 2, len(records))
    return Records(records.features, {**records.attributes, "coin": coin}, COIN)


def three_parts(records: Records) -> tuple[Records, Records, Records]:
    """Training records, held-out ones, and an independent sample of the same law."""
    return (
        records.select(np.arange(500)),
        records.select(np.arange(500, 1100)),
        records.select(np.arange(1100, 1600)),
    )


def leaking(records: Records, protocol: Protocol) -> Case:
    """The release is a copy of the training records."""
    train, test, _ = three_parts(records)
    return make_case(train, train, test, protocol)


def sound(records: Records, protocol: Protocol) -> Case:
    """The release is independent of the training records."""
    train, test, fresh = three_parts(records)
    return make_case(fresh, train, test, protocol)


def numbers(row: Row) -> tuple[float, float, float, float, float]:
    """Value, low, high, reference and chance of a row that worked."""
    assert row.status == "ok", row.reason
    found = (row.value, row.low, row.high, row.reference, row.chance)
    assert None not in found
    return found  # type: ignore[return-value]


def check_leak(row: Row, control: float = 0.12) -> None:
    """The interval is above guessing, without a word of warning; the control is near it."""
    _, low, _, reference, chance = numbers(row)
    assert low > chance, row
    assert row.note is None
    assert abs(reference - chance) < control, row


def check_nothing(row: Row) -> None:
    """The interval covers guessing, and the row says that it shows nothing."""
    _, low, high, _, chance = numbers(row)
    assert low <= chance <= high, row
    assert row.note is not None
    assert row.note.startswith("this attack shows nothing: it does not beat guessing")


def lower_quality(protocol: Protocol) -> Protocol:
    """As few steps as still memorise a few hundred records."""
    return replace(protocol, training=replace(protocol.training, least_steps=150), seeds=1)
