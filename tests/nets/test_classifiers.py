"""The classifiers: shapes they take, shapes they refuse, and sizes counted by hand."""

from __future__ import annotations

import pytest
import torch

from understudy.errors import UserError
from understudy.nets.classifiers import CLASSIFIERS, build_classifier


def parameters(network: torch.nn.Module) -> int:
    return sum(p.numel() for p in network.parameters())


@pytest.mark.parametrize("side", [8, 28, 33, 64, 128])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", ["mlp", "cnn"])
def test_small_classifiers_take_every_image_size(name: str, channels: int, side: int) -> None:
    network = build_classifier(name, (channels, side, side), 7)
    logits = network(torch.zeros(2, channels, side, side))
    assert logits.shape == (2, 7)


@pytest.mark.parametrize(("channels", "side"), [(1, 8), (3, 32)])
def test_resnet18_takes_small_and_larger_images(channels: int, side: int) -> None:
    network = build_classifier("resnet18", (channels, side, side), 5).eval()
    assert network(torch.zeros(2, channels, side, side)).shape == (2, 5)


def test_the_cnn_takes_images_that_are_not_square() -> None:
    network = build_classifier("cnn", (3, 24, 40), 4)
    assert network(torch.zeros(1, 3, 24, 40)).shape == (1, 4)


def test_resnet18_has_the_published_number_of_parameters() -> None:
    """11,173,962 is the count of the CIFAR ResNet-18 with ten classes and three channels."""
    assert parameters(build_classifier("resnet18", (3, 32, 32), 10)) == 11_173_962


def test_sizes_of_the_small_networks_match_a_count_by_hand() -> None:
    assert parameters(build_classifier("mlp", (1, 28, 28), 10)) == (
        784 * 256 + 256 + 256 * 128 + 128 + 128 * 10 + 10
    )
    assert parameters(build_classifier("cnn", (1, 28, 28), 10)) == (
        16 * 25 + 16 + 32 * 16 * 25 + 32 + 32 * 49 * 128 + 128 + 128 * 10 + 10
    )


def test_the_mlp_takes_table_rows_and_the_cnn_refuses_them() -> None:
    assert build_classifier("mlp", (14,), 2)(torch.zeros(3, 14)).shape == (3, 2)
    with pytest.raises(UserError, match=r"'cnn' needs images .* \[14\]"):
        build_classifier("cnn", (14,), 2)
    with pytest.raises(UserError, match="at least 8x8"):
        build_classifier("resnet18", (1, 4, 4), 2)


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(UserError, match=r"no classifier 'resnet-18'; did you mean resnet18"):
        build_classifier("resnet-18", (1, 8, 8), 2)
    assert tuple(CLASSIFIERS)[:3] == ("mlp", "cnn", "resnet18")
