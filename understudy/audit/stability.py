"""Whether records stay where they are when one more comes: parts, shards, duplicates.

A part that is decided by looking at all records lets one person move others, and the price
of a run, which is per part, no longer covers what that person did.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import numpy as np

from understudy.data.records import Records, concatenate

Place = Callable[[Records], Sequence[Hashable]]
"""From records to the place (part, shard, kept or dropped) of each, in their order."""


def moved_by(place: Place, records: Records, more: Records) -> list[int]:
    """Which of `records` change their place when `more` (one unit) are among them too.

    `more` is put before, behind and in the middle: order must not matter either.
    """
    alone = list(place(records))
    moved: set[int] = set()
    for at in (0, len(records) // 2, len(records)):
        first, rest = records.select(np.arange(at)), records.select(np.arange(at, len(records)))
        places = list(place(concatenate([first, more, rest])))
        kept = places[:at] + places[at + len(more) :]
        pairs = zip(alone, kept, strict=True)
        moved.update(i for i, (before, after) in enumerate(pairs) if before != after)
    return sorted(moved)
