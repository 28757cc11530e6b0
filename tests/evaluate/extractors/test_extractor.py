"""Getting images ready: channels and sizes, against numbers worked out by hand."""

from __future__ import annotations

import pytest
import torch

from understudy.errors import UserError
from understudy.evaluate.extractors.extractor import load_extractor, resize, to_grey, to_rgb


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
