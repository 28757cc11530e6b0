"""Looking for private records in synthetic ones: equal ones, and ones that are too near.

How near is too near is read off records that the method never saw: a near copy lies within a
quarter of the distance that 95% of them keep from the private records. Noise, compression or a
shift by a grey level do not take a copy out of that range, while new records of the same law
almost never come into it; where held-out records do, the data themselves have near duplicates,
and only more of them than that count.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from understudy.data.records import Array, Records

_QUANTILE = 0.05
_PART = 0.25
_MOST_HELD_OUT = 2000
_LEAST_HELD_OUT = 20


@dataclass(frozen=True)
class CopyScan:
    """What a scan found.

    exact: records that equal a private one, among all `count`.
    near: records within `limit` of a private one, without the exact ones, among `looked_at`.
    natural: held-out records within it, among `held_out`.
    limit: a Euclidean distance between pixels; 0 where the data allow none to be set.
    """

    count: int
    exact: int
    looked_at: int
    near: int
    held_out: int
    natural: int
    limit: float

    @property
    def too_near(self) -> int:
        """The near copies, unless the data's own near duplicates account for them."""
        from understudy.evaluation.intervals import clopper_pearson

        if not self.near or not self.natural:
            return self.near
        found = clopper_pearson(self.near, self.looked_at)
        usual = clopper_pearson(self.natural, self.held_out)
        return self.near if found.low > usual.high else 0

    def sentences(self) -> list[str]:
        """What must be said of the scan; empty if nothing."""
        told = []
        if self.exact:
            told.append(f"{self.exact} of the {self.count} records are copies of private ones.")
        if self.too_near:
            told.append(
                f"{self.too_near} of {self.looked_at} records are near copies of private ones: "
                "nearer than a quarter of the distance that 95% of held-out records keep."
            )
        return told


def scan_copies(
    synthetic: Records, private: Records, held_out: Records | None = None, most: int | None = None
) -> CopyScan:
    """Compare synthetic records with private ones.

    held_out: records of the same law that were not fitted on; without enough of them the
        private records' distances from each other take their place.
    most: look for near copies of at most so many synthetic records, drawn at random; equal
        ones are looked for in all.
    """
    if synthetic.shape != private.shape or not len(private):
        return CopyScan(len(synthetic), 0, 0, 0, 0, 0, 0.0)
    from understudy.evaluation.attackers.proximity import repeated
    from understudy.evaluation.attackers.search import nearest

    exact = int(repeated(synthetic.features, private.features).sum())
    usual = _usual_distances(private.features, held_out)
    limit = _PART * float(np.quantile(usual, _QUANTILE)) if len(usual) else 0.0
    looked_at = _some(synthetic.features, most or len(synthetic))
    distances = nearest(looked_at, private.features).distances[:, 0]
    return CopyScan(
        count=len(synthetic),
        exact=exact,
        looked_at=len(looked_at),
        near=int(((distances < limit) & (distances > 0)).sum()),
        held_out=len(usual),
        natural=int((usual < limit).sum()),
        limit=limit,
    )


def _usual_distances(private: Array, held_out: Records | None) -> Array:
    """How far records of this law are from the private ones, equal records left out."""
    from understudy.evaluation.attackers.search import nearest

    if held_out is not None and len(held_out) >= _LEAST_HELD_OUT:
        found = nearest(_some(held_out.features, _MOST_HELD_OUT), private).distances[:, 0]
    elif len(private) > 1:
        found = nearest(_some(private, _MOST_HELD_OUT), private, 2).distances[:, 1]
    else:
        found = np.zeros(0)
    return np.asarray(found[found > 0])


def _some(features: Array, most: int) -> Array:
    if len(features) <= most:
        return features
    return features[np.random.default_rng(0).permutation(len(features))[:most]]
