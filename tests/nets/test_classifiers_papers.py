"""The papers' small classifiers: sizes counted by hand, and the images they take."""

from __future__ import annotations

import pytest
import torch

from understudy.errors import UserError
from understudy.nets.classifiers import build_classifier

SIZES = {
    "lenet-5": (6 * 25 + 6) + (16 * 6 * 25 + 16) + 401 * 120 + 121 * 84 + 85 * 10,
    "mlp-100": 785 * 100 + 101 * 10,
    "cnn-dp-sinkhorn": 320 + 18_496 + 73_856 + 1153 * 128 + 129 * 10,
    "cnn-dpdm": 320 + 18_496 + 73_856 + 1153 * 128 + 129 * 10,
    "cnn-datalens": 320 + 18_496 + (64 * 11 * 11 + 1) * 64 + 65 * 10,
}


@pytest.mark.parametrize("name", SIZES)
def test_sizes_match_a_count_by_hand(name: str) -> None:
    network = build_classifier(name, (1, 28, 28), 10)
    assert sum(p.numel() for p in network.parameters()) == SIZES[name]


def test_lenet_has_its_well_known_size() -> None:
    assert SIZES["lenet-5"] == 61_706


@pytest.mark.parametrize("side", [28, 32, 64])
@pytest.mark.parametrize("name", SIZES)
def test_other_sizes_and_colours_are_taken(name: str, side: int) -> None:
    network = build_classifier(name, (3, side, side), 7).eval()
    assert network(torch.zeros(2, 3, side, side)).shape == (2, 7)


@pytest.mark.parametrize(("name", "least"), [("lenet-5", 12), ("cnn-dpdm", 18)])
def test_images_that_would_vanish_are_refused(name: str, least: int) -> None:
    network = build_classifier(name, (1, least, least), 2).eval()
    assert network(torch.zeros(1, 1, least, least)).shape == (1, 2)
    with pytest.raises(UserError, match=f"at least {least}x{least} pixels"):
        build_classifier(name, (1, least - 1, least - 1), 2)


def test_dp_sinkhorn_drops_whole_channels_and_dpdm_single_values() -> None:
    torch.manual_seed(0)
    for name, whole in (("cnn-dp-sinkhorn", True), ("cnn-dpdm", False)):
        network = build_classifier(name, (1, 28, 28), 10).train()
        assert isinstance(network, torch.nn.Sequential)
        maps = network[3](torch.ones(1, 32, 13, 13))
        alike = [float(channel.std()) == 0 for channel in maps[0]]
        assert all(alike) == whole
