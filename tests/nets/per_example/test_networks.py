"""Whole networks of the layers we use: each record's gradient is the one it has alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from peft import LoraConfig, inject_adapter_in_model
from torch import nn

from understudy.nets.per_example.compiled import CompiledBackend
from understudy.nets.per_example.expanded import ExpandedBackend
from understudy.nets.per_example.twins import trainable
from understudy.nets.unet import UNet
from understudy.privacy.door.batch import Batch
from understudy.privacy.dpsgd.loss import Models, Values

RECORDS, DRAWS, CLASSES = 3, 2, 3


def adapted_by_peft() -> nn.Module:
    """A frozen U-Net with LoRA beside every convolution and dense layer, attention's too."""
    network = UNet(1, 8, CLASSES, 8, (1, 2), (1, 1), (4,), patch=1)
    layers = [n for n, m in network.named_modules() if type(m) in (nn.Linear, nn.Conv2d)]
    lora = LoraConfig(r=2, lora_alpha=3, target_modules=layers)
    adapted: nn.Module = inject_adapter_in_model(lora, network)
    return adapted


class LowRank(nn.Module):
    """A frozen layer beside a trained one of low rank."""

    def __init__(self, frozen: nn.Linear | nn.Conv2d, rank: int) -> None:
        super().__init__()
        self.frozen = frozen.requires_grad_(False)
        if isinstance(frozen, nn.Linear):
            self.down: nn.Module = nn.Linear(frozen.in_features, rank, bias=False)
            self.up: nn.Module = nn.Linear(rank, frozen.out_features, bias=False)
        else:
            same = {"stride": frozen.stride, "padding": frozen.padding, "bias": False}
            self.down = nn.Conv2d(frozen.in_channels, rank, frozen.kernel_size, **same)  # type: ignore[arg-type]
            self.up = nn.Conv2d(rank, frozen.out_channels, 1, bias=False)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.frozen(inputs) + 0.5 * self.up(self.down(inputs))
        return result


class Adapted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = LowRank(nn.Conv2d(1, 8, 3, stride=2, padding=1), 2)
        self.grow = nn.ConvTranspose2d(8, 4, 4, stride=2, padding=1)
        self.head = LowRank(nn.Linear(4 * 64, 64), 3)
        self.level = nn.Linear(1, 64)

    def forward(
        self, images: torch.Tensor, noise_level: torch.Tensor, labels: torch.Tensor
    ) -> torch.Tensor:
        del labels
        hidden = self.head(torch.tanh(self.grow(torch.tanh(self.body(images)))).flatten(1))
        said: torch.Tensor = hidden + self.level(noise_level.unsqueeze(1))
        return said.reshape(images.shape)


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "u-net": lambda: UNet(1, 8, CLASSES, 8, (1, 2), (1, 1), (4,), patch=1),
    "u-net of patches": lambda: UNet(1, 8, CLASSES, 8, (1, 1), (2, 0), (4, 2), 2, 0.25),
    "low rank": Adapted,
    "lora": adapted_by_peft,
}


def awake(network: nn.Module) -> nn.Module:
    """With no parameter at zero: nothing is cut off from the loss."""
    torch.manual_seed(1)
    for parameter in network.parameters():
        nn.init.normal_(parameter, std=0.3)
    return network


def denoise(models: Models, batch: Batch, values: Values) -> torch.Tensor:
    del values
    level = batch.draws["level"].exp()
    noisy = batch.features + level[:, None, None, None] * batch.draws["noise"]
    said = models[0](noisy, level, batch.labels)
    return (said - batch.features).square().flatten(1).mean(dim=1)


def batch_of(rows: int) -> Batch:
    chance = torch.Generator().manual_seed(0)
    draws = {
        "noise": torch.randn(rows, 1, 8, 8, generator=chance),
        "level": torch.randn(rows, generator=chance),
    }
    labels = {"label": torch.randint(CLASSES + 1, (rows,), generator=chance)}
    return Batch(torch.rand(rows, 1, 8, 8, generator=chance), labels, draws, "label")


def one_by_one(network: nn.Module, batch: Batch) -> torch.Tensor:
    found = []
    for record in range(RECORDS):
        value = denoise([network], batch.rows(record * DRAWS, (record + 1) * DRAWS), {}).mean()
        parts = torch.autograd.grad(value, trainable([network]))
        found.append(torch.cat([part.reshape(-1) for part in parts]))
    return torch.stack(found)


def rows(gradients: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.cat([g.float().flatten(1) for g in gradients], dim=1)


def test_lora_moves_nothing_but_its_own_layers() -> None:
    moved = [n for n, p in adapted_by_peft().named_parameters() if p.requires_grad]
    assert len(moved) == 58
    assert all(".lora_A." in name or ".lora_B." in name for name in moved)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_gives_each_record_the_gradient_it_has_alone(name: str) -> None:
    network, batch = awake(NETWORKS[name]()), batch_of(RECORDS * DRAWS)
    _, gradients = ExpandedBackend([network]).per_example(denoise, batch, {}, DRAWS)
    expected = one_by_one(network, batch)
    error = (rows(gradients) - expected).norm(dim=1) / expected.norm(dim=1)
    assert float(error.max()) <= 1e-5


@pytest.mark.parametrize("name", ["low rank", "lora"])
def test_low_precision_is_close_and_stays_low(name: str) -> None:
    """Kernels and matrices give bfloat16 gradients: what is clipped is what was computed."""
    network, batch = awake(NETWORKS[name]()), batch_of(RECORDS * DRAWS)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        _, gradients = ExpandedBackend([network]).per_example(denoise, batch, {}, DRAWS)
    low = [piece.dtype == torch.bfloat16 for piece in gradients]
    assert low == [p.ndim > 1 for p in trainable([network])]
    expected = one_by_one(network, batch)
    assert float((rows(gradients) - expected).norm()) <= 5e-2 * float(expected.norm())


@pytest.mark.parametrize("name", ["low rank", "lora"])
def test_a_compiled_pass_is_the_pass_that_was_compiled(name: str) -> None:
    """Traced whole, without a compiler behind it: what the GPU's would be given."""
    network, batch = awake(NETWORKS[name]()), batch_of(RECORDS * DRAWS)
    compiled = CompiledBackend([network], through="eager")
    values, gradients = compiled.per_example(denoise, batch, {}, DRAWS)
    again, expected = compiled.reference.per_example(denoise, batch, {}, DRAWS)
    assert torch.allclose(values, again)
    assert torch.allclose(rows(gradients), rows(expected), atol=1e-6)
    with torch.no_grad():
        trainable([network])[-1].mul_(2.0)
    _, moved = compiled.per_example(denoise, batch, {}, DRAWS)
    expected = one_by_one(network, batch)
    assert float((rows(moved) - expected).norm()) <= 1e-5 * float(expected.norm())
    assert float((rows(moved) - rows(gradients)).norm()) > 1e-2 * float(expected.norm())


def test_the_u_net_is_as_large_as_it_says_and_begins_at_zero() -> None:
    network = UNet(3, 16, CLASSES, 8, (1, 2), (1, 1), (8,), patch=1)
    labels = torch.tensor([0, CLASSES])
    said = network(torch.rand(2, 3, 16, 16), torch.rand(2), labels)
    assert said.shape == (2, 3, 16, 16)
    assert not said.any()
    again = network.spec.build()
    assert [p.shape for p in again.parameters()] == [p.shape for p in network.parameters()]
