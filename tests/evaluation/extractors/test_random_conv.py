"""The built-in extractor: fixed for good, any size, one feature vector for each image."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from understudy.evaluation.extractors.extractor import load_extractor
from understudy.evaluation.metric_registry import EXTRACTOR_NOTES, EXTRACTORS
from understudy.progress import Silent

CPU = torch.device("cpu")
FIRST_FEATURES = [0.57942, 0.338202, 0.187272, 0.0855952]
SUM_OF_FEATURES = 54.10622


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 28, 28), (3, 31, 45), (1, 128, 128)])
def test_any_size_and_either_channel_count(shape: tuple[int, int, int]) -> None:
    images = np.random.default_rng(0).integers(0, 256, (5, *shape), dtype=np.uint8)
    features = load_extractor("random-conv").features(images, CPU, Silent())
    assert features.shape == (5, 256)
    assert features.dtype == np.float32
    assert np.isfinite(features).all()
    assert features.std(axis=0).max() > 0


def test_the_filters_never_change() -> None:
    """Figures are comparable only while this holds; the numbers were computed once."""
    ramp = np.arange(64, dtype=np.uint8).reshape(1, 1, 8, 8) * 4
    features = load_extractor("random-conv").features(ramp, CPU, Silent())[0]
    assert features[:4] == pytest.approx(FIRST_FEATURES, rel=1e-4)
    assert float(features.sum()) == pytest.approx(SUM_OF_FEATURES, rel=1e-4)


def test_batches_do_not_change_features_and_generators_are_left_alone() -> None:
    images = np.random.default_rng(1).integers(0, 256, (300, 1, 8, 8), dtype=np.uint8)
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    extractor = load_extractor("random-conv")
    together = extractor.features(images, CPU, Silent())
    assert torch.equal(torch.rand(2), expected)
    alone = extractor.features(images[299:], CPU, Silent())
    np.testing.assert_allclose(together[299:], alone, rtol=1e-4, atol=1e-6)


def test_it_says_what_its_figures_may_be_compared_with() -> None:
    assert EXTRACTOR_NOTES["random-conv"] == "random features: comparable only with itself"
    assert set(EXTRACTOR_NOTES) == set(EXTRACTORS)
