"""DPImageBench's three kinds of network: sizes counted by hand, and shapes."""

from __future__ import annotations

import pytest
import torch

from understudy.errors import UserError
from understudy.nets.classifiers import build_classifier


def parameters(network: torch.nn.Module) -> int:
    return sum(p.numel() for p in network.parameters())


def conv(into: int, out: int, side: int = 3) -> int:
    """A convolution without bias and the normalisation after it (a scale and a shift)."""
    return side * side * into * out + 2 * out


def by_hand_resnet(depth: int, channels: int, classes: int) -> int:
    blocks = (depth - 2) // 6
    total = conv(channels, 16)
    for into, out in ((16, 16), (16, 32), (32, 64)):
        projected = conv(into, out, 1) if into != out else 0
        total += conv(into, out) + conv(out, out) + projected + (blocks - 1) * 2 * conv(out, out)
    return total + 64 * classes + classes


def by_hand_wide(depth: int, width: int, channels: int, classes: int) -> int:
    """Normalisation stands before a convolution, so it has the size of what goes in."""
    blocks = (depth - 4) // 6
    total = 9 * channels * 16
    stages = ((16, 16 * width), (16 * width, 32 * width), (32 * width, 64 * width))
    for into, out in stages:
        total += 2 * into + 9 * into * out + 2 * out + 9 * out * out + into * out
        total += (blocks - 1) * 2 * (2 * out + 9 * out * out)
    return total + 2 * 64 * width + 64 * width * classes + classes


def by_hand_resnext(depth: int, groups: int, widen: int, channels: int, classes: int) -> int:
    blocks = (depth - 2) // 9
    total, into = conv(channels, 64), 64
    for width in (64, 128, 256):
        inner, out = groups * width, width * widen
        grouped = 9 * inner * inner // groups + 2 * inner
        for block in range(blocks):
            projected = conv(into, out, 1) if block == 0 else 0
            total += conv(into, inner, 1) + grouped + conv(inner, out, 1) + projected
            into = out
    return total + into * classes + classes


SIZES = [
    ("resnet-110", (1, 28, 28), by_hand_resnet(110, 1, 10), 1_730_426),
    ("wrn-40-4", (1, 28, 28), by_hand_wide(40, 4, 1, 10), 8_948_922),
    ("resnext-29-8-4", (1, 28, 28), by_hand_resnext(29, 8, 4, 1, 10), 34_425_546),
    ("resnet-164", (3, 32, 32), by_hand_resnet(164, 3, 10), 2_605_658),
    ("wrn-28-10", (3, 32, 32), by_hand_wide(28, 10, 3, 10), 36_479_194),
    ("resnext-28-8-10", (3, 32, 32), by_hand_resnext(28, 8, 10, 3, 10), 40_559_690),
]


@pytest.mark.parametrize(("name", "shape", "counted", "total"), SIZES)
def test_sizes_match_a_count_by_hand(
    name: str, shape: tuple[int, ...], counted: int, total: int
) -> None:
    """The wide ones have the sizes of their paper, 8.9M and 36.5M; the ResNeXt its 34.4M."""
    with torch.device("meta"):
        network = build_classifier(name, shape, 10)
    assert parameters(network) == counted == total


@pytest.mark.parametrize("name", ["resnet-110", "wrn-40-4", "resnext-29-8-4"])
def test_they_take_small_images_and_refuse_rows(name: str) -> None:
    network = build_classifier(name, (3, 8, 8), 4).eval()
    assert network(torch.zeros(2, 3, 8, 8)).shape == (2, 4)
    with pytest.raises(UserError, match=rf"'{name}' needs images .* \[14\]"):
        build_classifier(name, (14,), 2)


def test_the_last_two_stages_halve_the_size() -> None:
    network = build_classifier("resnet-110", (1, 28, 28), 10)
    assert isinstance(network, torch.nn.Sequential)
    maps = network[:-3](torch.zeros(1, 1, 28, 28))
    assert maps.shape == (1, 64, 7, 7)


def test_only_the_wide_network_drops_values() -> None:
    def shares(name: str) -> set[float]:
        network = build_classifier(name, (1, 28, 28), 10)
        return {m.p for m in network.modules() if isinstance(m, torch.nn.Dropout)}

    assert shares("wrn-40-4") == {0.3}
    assert shares("resnet-110") == set()


def test_convolutions_start_at_the_scale_of_their_outputs() -> None:
    network = build_classifier("resnet-110", (1, 28, 28), 10)
    last = [m for m in network.modules() if isinstance(m, torch.nn.Conv2d)][-1]
    assert float(last.weight.detach().std()) == pytest.approx((2 / (9 * 64)) ** 0.5, rel=0.03)
