from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from understudy.errors import UserError
from understudy.nets import unet
from understudy.nets.unet import Block, UNet, UNetSpec

SPEC = UNetSpec(1, 8, 3, width=8, multipliers=(1, 1), blocks=(1, 1), attention=(4,), patch=1)
GAIN = 0.25


def rows() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(1)
    images = torch.randn(5, 1, 8, 8, generator=random)
    return images, torch.randn(5, generator=random), torch.tensor([0, 1, 2, 3, 0])


def twins() -> tuple[UNet, UNet]:
    """The same function twice, the second with a gain and a last layer that makes up for it."""
    torch.manual_seed(0)
    plain = SPEC.build()
    with torch.no_grad():
        plain.leave.weight.normal_()
    gained = replace(SPEC, output_gain=GAIN).build()
    gained.load_state_dict(plain.state_dict())
    with torch.no_grad():
        gained.leave.weight.div_(GAIN)
    return plain, gained


def gradients(network: UNet) -> dict[str, torch.Tensor]:
    network(*rows()).square().mean().backward()
    return {
        name: value.grad for name, value in network.named_parameters() if value.grad is not None
    }


class TestOutputGain:
    def test_a_last_layer_as_much_larger_gives_the_same_function(self) -> None:
        plain, gained = twins()
        torch.testing.assert_close(gained(*rows()), plain(*rows()))

    def test_the_last_layer_alone_has_smaller_gradients(self) -> None:
        plain, gained = (gradients(network) for network in twins())
        assert set(plain) == set(gained)
        for name, value in plain.items():
            wanted = GAIN * value if name.startswith("leave.") else value
            torch.testing.assert_close(gained[name], wanted)

    def test_it_is_kept_with_the_network_and_one_where_none_was_kept(self) -> None:
        spec = replace(SPEC, output_gain=GAIN)
        kept = spec.to_json()
        assert UNetSpec(**kept) == spec
        del kept["output_gain"]
        assert UNetSpec(**kept).output_gain == 1.0

    @pytest.mark.parametrize("gain", [0.0, -1.0, float("nan"), float("inf")])
    def test_a_gain_that_is_no_size_is_refused(self, gain: float) -> None:
        with pytest.raises(UserError, match="output_gain"):
            replace(SPEC, output_gain=gain)


@pytest.mark.parametrize("width", [4, 100, 130, 200, 224])
def test_any_width_attends(width: int) -> None:
    """Heads divide the channels, whatever they are."""
    network = replace(SPEC, width=width, multipliers=(1,), blocks=(1,), attention=(8,)).build()
    assert network(*rows()).shape == (5, 1, 8, 8)


def test_channels_lie_innermost_from_the_first_block_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU; a convolution of one channel cannot tell how its images lie."""
    innermost = torch.channels_last
    monkeypatch.setattr(unet, "_channels_last", lambda i: i.contiguous(memory_format=innermost))
    network, seen = SPEC.build(), []
    blocks = [layer for layer in network.modules() if isinstance(layer, Block)]
    for block in blocks:
        block.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    network(*rows())
    assert len(seen) == len(blocks)
    assert all(images.is_contiguous(memory_format=innermost) for images in seen)
