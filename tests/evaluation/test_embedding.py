"""Pictures of latents say what made them."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from understudy.errors import UserError
from understudy.evaluation.embedding import PCA, UMAP, project

POINTS = np.random.default_rng(0).normal(size=(60, 5)) * np.array([5, 3, 1, 0.1, 0.1])


def test_principal_components_hold_the_widest_directions() -> None:
    made = project(POINTS, PCA)
    assert (made.name, made.points.shape) == (PCA, (60, 2))
    spread = made.points.var(axis=0)
    assert spread[0] > spread[1] > 5
    assert np.allclose(project(-POINTS[::-1], PCA).points.var(axis=0), spread)


def test_umap_only_where_it_is_installed() -> None:
    if importlib.util.find_spec("umap") is None:
        assert project(POINTS).name == PCA
        with pytest.raises(UserError, match="umap-learn"):
            project(POINTS, UMAP)
    else:
        assert project(POINTS, PCA).name == PCA


def test_bad_pictures() -> None:
    with pytest.raises(UserError, match="known: PCA, UMAP"):
        project(POINTS, "t-SNE")
    with pytest.raises(UserError, match="at least 3"):
        project(POINTS[:2], PCA)
