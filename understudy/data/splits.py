"""Ways to divide records into parts and shards.

`keyed_split`, `part_split` and `shard_of` are for private records: where a record goes
depends on the record and a secret key alone. `stratified_split` looks at all records
together and is for public benchmarks.
"""

from __future__ import annotations

import hmac
import math
from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

from understudy.data.content import contents, without_attributes
from understudy.data.records import Records
from understudy.data.stratify import iterative_stratification
from understudy.errors import UserError

_SHORTEST_KEY = 16


def keyed_split(records: Records, fractions: Mapping[str, float], key: bytes) -> dict[str, Records]:
    """Divide records by a keyed hash (HMAC-SHA256) of their features, or of their unit.

    Formal guarantee: a record's part is a function of the key and of that record (its
    features, or its unit's name where records have units) and of nothing else: not of its
    position, of the other records, of how many there are, or of which columns they fill.
    Adding or removing one unit therefore changes one part by that unit and leaves every
    other record where it was, which is what lets the privacy of a run be accounted part by
    part.

    Sizes are random: a part holds about its fraction of the units. Records with equal
    features land in the same part. The key must stay secret and be reused for every run on
    the dataset.
    """
    return _divided(records, _checked(fractions), key, b"split")


def part_split(records: Records, shares: Mapping[str, float], key: bytes) -> dict[str, Records]:
    """The private parts of a method, as `keyed_split` divides, under a subkey of their own.

    The same guarantee holds; parts are independent of which records were held out for testing.
    """
    if len(shares) == 1:
        return dict.fromkeys(_checked(shares), records)
    return _divided(records, _checked(shares), key, b"part")


def _divided(
    records: Records, fractions: Mapping[str, float], key: bytes, purpose: bytes
) -> dict[str, Records]:
    bounds = np.cumsum(list(fractions.values()))[:-1]
    part_of = np.searchsorted(bounds, _uniform(records, key, purpose), side="right")
    return {name: records.select(part_of == i) for i, name in enumerate(fractions)}


def shard_of(records: Records, shards: int, key: bytes) -> npt.NDArray[np.int64]:
    """The shard, 0 to `shards - 1`, of each record, by a keyed hash as in `keyed_split`.

    The same guarantee holds: all records of a unit are in one shard, and which one depends
    on the key and the unit alone. Shards are independent of parts under the same key.
    """
    if shards < 1:
        raise UserError(f"shards must be at least 1, not {shards}.")
    return np.floor(_uniform(records, key, b"shard") * shards).astype(np.int64)


def stratified_split(
    records: Records, fractions: Mapping[str, float], seed: int
) -> dict[str, Records]:
    """Divide records so that every class of every attribute is spread in proportion.

    For public benchmarks only. A record's part depends on all other records, so a run on
    such parts protects a record only *given the split*, and its claim must say "given the
    split".
    """
    if records.units is not None:
        raise UserError(
            "stratified_split would tear units apart; use keyed_split for records with units."
        )
    shares = _checked(fractions)
    columns = [
        column if column.ndim == 1 else column.argmax(axis=1)
        for column in (records.attributes[name] for name in records.schema.names)
    ]
    part_of = iterative_stratification(len(records), columns, list(shares.values()), seed)
    return {name: records.select(part_of == i) for i, name in enumerate(shares)}


def _uniform(records: Records, key: bytes, purpose: bytes) -> npt.NDArray[np.float64]:
    """One number in [0, 1) per record, from 53 bits of its keyed hash."""
    if len(key) < _SHORTEST_KEY:
        raise UserError(
            f"the split key has {len(key)} bytes; draw at least {_SHORTEST_KEY} secret bytes."
        )
    # One subkey per purpose: else the shards of a part would follow from the part.
    subkey = hmac.digest(key, b"understudy/" + purpose, "sha256")
    digests = b"".join(hmac.digest(subkey, m, "sha256")[:8] for m in _messages(records))
    return (np.frombuffer(digests, ">u8") >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _messages(records: Records) -> Iterator[bytes]:
    if records.units is None:
        # Pixels alone: which columns count as attributes depends on all records together
        # (one empty cell leaves a column out), and would move every other record.
        for content in contents(without_attributes(records)):
            yield b"record:" + content
    else:
        for unit in records.units.tolist():
            yield b"unit:" + str(unit).encode()


def _checked(fractions: Mapping[str, float]) -> Mapping[str, float]:
    if not fractions or any(not 0 < share <= 1 for share in fractions.values()):
        raise UserError(f"fractions must be positive shares of parts, not {dict(fractions)}.")
    if not math.isclose(sum(fractions.values()), 1.0, abs_tol=1e-9):
        raise UserError(f"fractions must add up to 1, not {sum(fractions.values()):g}.")
    return fractions
