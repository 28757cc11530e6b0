"""What a latent holds besides the hidden labels, as clusters of records that share them.

A filter keeps the labels that it was asked to keep and is free to mix everything else. Which
cluster a record lies in, among those with the same hidden labels, says nothing of these labels,
so a filter can be asked to keep it readable without being asked to give anything away.
"""

from __future__ import annotations

import numpy as np

from understudy.filters.choice import Codes
from understudy.filters.distortion import Numbers

_ROUNDS = 20


def cluster_codes(latents: Numbers, groups: Codes, count: int, seed: int = 0) -> Codes:
    """For each record its cluster among the records of its own group, from 0 to `count` - 1.

    k-means of each group by itself, from random records of it; a group with fewer records than
    clusters has fewer clusters.
    """
    random = np.random.default_rng([seed, count])
    codes = np.zeros(len(latents), np.int64)
    for group in np.unique(groups):
        rows = np.flatnonzero(groups == group)
        codes[rows] = _k_means(latents[rows], count, random)
    return codes


def _k_means(points: Numbers, count: int, random: np.random.Generator) -> Codes:
    centres = points[random.permutation(len(points))[:count]]
    nearest = _nearest(points, centres)
    for _ in range(_ROUNDS):
        sizes = np.bincount(nearest, minlength=len(centres))
        sums = np.zeros_like(centres)
        np.add.at(sums, nearest, points)
        # A cluster that lost its records stays where it is.
        centres = np.where(sizes[:, None] > 0, sums / np.maximum(sizes, 1)[:, None], centres)
        again = _nearest(points, centres)
        if np.array_equal(again, nearest):
            break
        nearest = again
    return nearest


def _nearest(points: Numbers, centres: Numbers) -> Codes:
    distances = (centres**2).sum(axis=1) - 2 * points @ centres.T
    return np.asarray(distances.argmin(axis=1), np.int64)
