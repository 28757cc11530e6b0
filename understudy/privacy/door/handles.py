"""One handle for each part of a run's private records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from understudy.data.records import Records
from understudy.errors import UserError
from understudy.privacy.door.private_records import PrivateRecords
from understudy.privacy.door.summation import Summation

if TYPE_CHECKING:
    from understudy.privacy.door.door import Door


def make_handles(
    door: Door,
    parts: Mapping[str, Records],
    counts: Mapping[str, int],
    summations: Mapping[str, Summation],
) -> dict[str, PrivateRecords]:
    """One handle per part; sums are this process's alone unless `summations` says otherwise."""
    for name in parts:
        if counts[name] < 1:
            raise UserError(f"the declared count of part {name!r} must be at least 1.")
    return {
        name: PrivateRecords(door, name, part, counts[name], summations.get(name, Summation()))
        for name, part in parts.items()
    }
