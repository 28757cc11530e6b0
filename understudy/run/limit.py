"""Smoke runs: the same path on a few records, stamped so that nobody takes them for more."""

from __future__ import annotations

import hmac
from dataclasses import replace

import numpy as np

from understudy.data.records import Records
from understudy.data.splits import keyed_split
from understudy.evaluation.protocol import Protocol


def limited_train(records: Records, declared: int, most: int, key: bytes) -> Records:
    """About `most` of the `declared` units; all of them where there are not more.

    Guarantee: whether a unit is kept depends on the key and on that unit alone, so one unit
    more changes the kept ones by at most that unit. Their number is therefore random, around
    `most`: cutting it off exactly would let one unit push out another.
    """
    if most >= declared:
        return records
    share = most / declared
    # A key of its own: else the kept units would follow from the part that they are in.
    own = hmac.digest(key, b"understudy/limit", "sha256")
    return keyed_split(records, {"kept": share, "left": 1 - share}, own)["kept"]


def limited_test(records: Records | None, most: int) -> Records | None:
    """`most` test records at random, always the same ones; no privacy hangs on them."""
    if records is None or len(records) <= most:
        return records
    return records.select(np.random.default_rng(0).permutation(len(records))[:most])


def limited_protocol(protocol: Protocol, most: int | None) -> Protocol:
    """The protocol with a stamp that says how little it was shown."""
    if most is None:
        return protocol
    note = f"smoke run: limited to about {most} training records, samples and test records"
    return replace(protocol, stamp=note if protocol.stamp is None else f"{protocol.stamp}; {note}")
