"""Latents as points on a page: UMAP where it is installed, else the first two components."""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from understudy.data.records import Array
from understudy.errors import UserError

UMAP, PCA = "UMAP", "PCA"

Points = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Projection:
    """Points of a picture, and the name of what made them: the two are not alike."""

    name: str
    points: Points


def project(latents: Array, method: str | None = None, seed: int = 0) -> Projection:
    """Two coordinates for each latent; a picture is no measure of what an attacker can do.

    method: `UMAP` or `PCA`; by default UMAP if the package `umap` is installed.
    """
    flat = np.asarray(latents, np.float64).reshape(len(latents), -1)
    if len(flat) < 3 or flat.shape[1] < 2:
        raise UserError("a picture needs at least 3 latents of at least 2 coordinates.")
    installed = importlib.util.find_spec("umap") is not None
    chosen = method or (UMAP if installed else PCA)
    if chosen == PCA:
        return Projection(PCA, _principal(flat))
    if chosen != UMAP:
        raise UserError(f"no projection {chosen!r}; known: {PCA}, {UMAP}.")
    if not installed:
        raise UserError("UMAP needs the package umap-learn; install it, or take PCA.")
    umap = importlib.import_module("umap")
    return Projection(UMAP, np.asarray(umap.UMAP(random_state=seed).fit_transform(flat)))


def _principal(flat: Points) -> Points:
    centred = flat - flat.mean(axis=0)
    _, _, directions = np.linalg.svd(centred, full_matrices=False)
    first = directions[:2]
    # The sign of a component is arbitrary: the largest entry is made positive.
    signs = np.sign(first[np.arange(2), np.abs(first).argmax(axis=1)])
    return np.asarray(centred @ (first * signs[:, None]).T)
