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
from understudy.progress import Progress, Silent

NEAR = 0.02
"""Within this part of the usual distance between two records, a record is as good as itself."""

MOST = 0.05
"""The share of near copies that is let through, or a single one among several: any noise is
small now and then."""


@dataclass(frozen=True)
class CopyCheck:
    """What a comparison of `count` filtered records with their raw latents found.

    It is for the device's owner alone.

    near: those that lie within the limit of their raw latent.
    steady: those that would, were the filter's shift taken back: its noise hardly touched them.
    """

    count: int
    near: int
    steady: int

    @property
    def passed(self) -> bool:
        alone = self.near > 0 and self.near == self.count
        return not alone and self.near <= max(1, MOST * self.count)

    @property
    def warning(self) -> str | None:
        """A shift without noise may hide a label; whoever learns it can take it back."""
        if self.steady <= self.count / 2:
            return None
        return (
            f"warning: the filter adds next to no noise to {self.steady} of {self.count} records; "
            "whoever learns how it moves them can move them back."
        )


def check_copies(raw: Records, sent: Array, filter_: Filter) -> CopyCheck:
    """Compare filtered latents with the raw ones that they were made of, row by row.

    The limit is `NEAR` times the root mean squared distance between two records, by the
    variances that the filter was trained with.
    """
    limit = NEAR * math.sqrt(2 * float(np.sum(filter_.variances)))
    moved = np.asarray(sent, np.float64) - np.asarray(raw.features, np.float64)
    noise = moved - filter_.shift_of(raw)
    near, steady = (int((np.linalg.norm(v, axis=1) < limit).sum()) for v in (moved, noise))
    return CopyCheck(len(moved), near, steady)


def refuse_copies(
    raw: Records, sent: Array, filter_: Filter, progress: Progress | None = None
) -> None:
    """Raise one sentence if a filter hardly changes these records; warn if it adds no noise.

    Guarantee: none of differential privacy. It catches a filter whose budget is next to
    nothing or whose noise and shift have vanished, and a mistake that sends raw latents; it
    does not show that anything is hidden.
    """
    found = check_copies(raw, sent, filter_)
    if not found.passed:
        raise PrivacyError(
            f"nothing is sent: {found.near} of {found.count} filtered records are near copies of "
            "your raw latents; train a filter with a larger --budget, or use --mechanism gaussian."
        )
    if found.warning is not None:
        (progress or Silent()).say(found.warning)
