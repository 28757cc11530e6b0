"""Getting images ready: channels and sizes, against numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from understudy.errors import UserError
from understudy.evaluation.extractors import lenet
from understudy.evaluation.extractors.extractor import (
    Extractor,
    load_extractor,
    resize,
    to_grey,
    to_rgb,
)
from understudy.progress import Silent

CPU = torch.device("cpu")


def test_grey_is_repeated_and_colour_is_kept() -> None:
    grey = torch.arange(4, dtype=torch.uint8).view(1, 1, 2, 2)
    assert torch.equal(to_rgb(grey), grey.repeat(1, 3, 1, 1))
    colour = torch.arange(12, dtype=torch.uint8).view(1, 3, 2, 2)
    assert to_rgb(colour) is colour


def test_colour_becomes_luma() -> None:
    pixel = torch.tensor([100, 200, 50], dtype=torch.uint8).view(1, 3, 1, 1)
    assert to_grey(pixel).item() == pytest.approx(0.299 * 100 + 0.587 * 200 + 0.114 * 50)
    assert torch.equal(to_grey(pixel[:, :1]), pixel[:, :1].float())


def test_resizing_is_bilinear_with_aligned_centres() -> None:
    edge = torch.tensor([[0, 100]], dtype=torch.uint8).view(1, 1, 1, 2).expand(1, 1, 2, 2)
    assert resize(edge, 4)[0, 0, 0].tolist() == pytest.approx([0.0, 25.0, 75.0, 100.0])
    assert torch.equal(resize(edge, 2), edge.float())


def test_shrinking_is_smoothed_unless_told_otherwise() -> None:
    """One bright column in nine: smoothing keeps its share, plain bilinear may lose it."""
    stripe = torch.zeros(1, 1, 9, 9, dtype=torch.uint8)
    stripe[..., 0] = 90
    assert resize(stripe, 3)[0, 0, 1, 0] > 5
    assert resize(stripe, 3, antialias=False)[0, 0, 1, 0] == 0


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(UserError, match=r"no extractor 'squeeznet'; did you mean squeezenet\?"):
        load_extractor("squeeznet")


def test_class_probabilities_from_features_are_those_of_the_whole_network() -> None:
    network = lenet.LeNet5()
    extractor = Extractor("lenet", 84, network, lenet.prepare, head=network.fc[2])
    images = np.random.default_rng(0).integers(0, 256, (5, 1, 28, 28), dtype=np.uint8)
    found = extractor.class_probabilities(extractor.features(images, CPU, Silent()), CPU)
    with torch.inference_mode():
        scores = network.logits(lenet.prepare(torch.from_numpy(images)))
    np.testing.assert_allclose(found, scores.double().softmax(dim=1).numpy(), rtol=1e-5)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-12)


def test_class_probabilities_survive_scores_of_any_size() -> None:
    """The peer's own softmax overflows where scores are large; this one must not."""
    head = torch.nn.Linear(2, 2, bias=False)
    torch.nn.init.eye_(head.weight)
    extractor = Extractor("large", 2, torch.nn.Identity(), to_rgb, head=head)
    found = extractor.class_probabilities(np.array([[1e4, 0], [-1e4, -1e4]], np.float32), CPU)
    np.testing.assert_allclose(found, [[1, 0], [0.5, 0.5]])


def test_an_extractor_without_classes_says_so() -> None:
    extractor = load_extractor("random-conv")
    with pytest.raises(UserError, match="random-conv gives no class probabilities"):
        extractor.class_probabilities(np.zeros((2, 256), np.float32), CPU)
