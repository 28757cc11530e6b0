"""The gate of a device: what a filter made must not be, or nearly be, the raw latents.

The collector holds no raw record, so only the user's own device can look. It does so for
filters alone: what a local mechanism sends must not depend on the records in any other way than
its guarantee covers, and a gate would be such a way.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from understudy.data.records import Array, Records
from understudy.errors import PrivacyError
from understudy.filters.filter import Filter

NEAR = 0.02
"""A record is nearly its raw self within this part of the distance of two records."""

MOST = 0.05
"""The share of near copies that chance may leave: noise is small now and then."""


@dataclass(frozen=True)
class CopyCheck:
    """How many of `count` filtered records are near copies. For the device's owner alone.

    A near copy lies within `limit` of its raw latent, as it is or once the filter's shift is
    taken back: the shift is the same for all records of a class (or a smooth function of the
    record), so that whoever learns it from a few pairs can take it back for the others.
    """

    count: int
    near: int
    limit: float

    @property
    def passed(self) -> bool:
        return self.near <= MOST * self.count


def check_copies(raw: Records, sent: Array, filter_: Filter) -> CopyCheck:
    """Compare filtered latents with the raw ones that they were made of, row by row."""
    apart = math.sqrt(2 * float(np.sum(filter_.variances)))
    limit = NEAR * apart
    moved = np.asarray(sent, np.float64) - np.asarray(raw.features, np.float64)
    noise = moved - filter_.shift_of(raw)
    nearest = np.minimum(np.linalg.norm(moved, axis=1), np.linalg.norm(noise, axis=1))
    return CopyCheck(len(moved), int((nearest < limit).sum()), limit)


def refuse_copies(raw: Records, sent: Array, filter_: Filter) -> None:
    """Raise one sentence if a filter hardly changes these records.

    Guarantee: none of differential privacy. It catches a filter whose noise has vanished or
    whose budget is next to nothing, and a mistake that sends raw latents; it does not show
    that anything is hidden.
    """
    found = check_copies(raw, sent, filter_)
    if not found.passed:
        raise PrivacyError(
            f"nothing is sent: {found.near} of {found.count} filtered records are near copies of "
            "your raw latents, but for the filter's fixed shift; train a filter with a larger "
            "--budget, or use --mechanism gaussian."
        )
