"""Replayed gradients: those of the inputs that are given now, not of those at the capture."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from understudy.nets.cuda_graph import Gradients, Inputs, capture_on


def loss_of(network: nn.Module) -> Callable[[Inputs], torch.Tensor]:
    return lambda inputs: (network(inputs["rows"]) * inputs["weights"]).square().mean()


def some_inputs(seed: int) -> Inputs:
    random = torch.Generator().manual_seed(seed)
    return {name: torch.randn(5, 3, generator=random) for name in ("rows", "weights")}


def wanted(network: nn.Module, inputs: Inputs) -> list[torch.Tensor]:
    value = loss_of(network)(inputs)
    return list(torch.autograd.grad(value, list(network.parameters())))


class Capturing:
    """What a GPU does, on the CPU: the same tensors are read and written at each replay."""

    def __init__(self, parameters: list[nn.Parameter]) -> None:
        self.parameters, self.replays = parameters, 0

    def __call__(self, work: Callable[[], None]) -> Callable[[], None]:
        work()
        written = [parameter.grad for parameter in self.parameters]

        def replay() -> None:
            self.replays += 1
            work()
            for parameter, gradient in zip(self.parameters, written, strict=True):
                assert gradient is not None
                assert parameter.grad is not None
                gradient.copy_(parameter.grad)
                parameter.grad = None

        return replay


@pytest.fixture
def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 3))


@pytest.mark.parametrize("captured", [True, False])
def test_gradients_are_those_of_the_inputs_and_weights_of_now(
    network: nn.Module, captured: bool
) -> None:
    parameters = list(network.parameters())
    capturing = Capturing(parameters)
    gradients = Gradients(loss_of(network), parameters, capturing if captured else None, print)
    optimizer = torch.optim.SGD(parameters, 0.5)
    for seed in range(4):
        inputs = some_inputs(seed)
        expected = wanted(network, inputs)
        gradients(inputs)
        for parameter, gradient in zip(parameters, expected, strict=True):
            assert parameter.grad is not None
            torch.testing.assert_close(parameter.grad, gradient)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    assert capturing.replays == (5 if captured else 0), "once more, to be compared"


def test_inputs_are_not_written_to(network: nn.Module) -> None:
    parameters = list(network.parameters())
    gradients = Gradients(loss_of(network), parameters, Capturing(parameters), print)
    first, second = some_inputs(0), some_inputs(1)
    before = first["rows"].clone()
    gradients(first)
    gradients(second)
    assert torch.equal(first["rows"], before)


def test_what_cannot_be_captured_is_computed_and_said_once(network: nn.Module) -> None:
    def refusing(work: Callable[[], None]) -> Callable[[], None]:
        work()  # leaves gradients behind, as a capture that breaks off may
        raise RuntimeError("operation not permitted when stream is capturing")

    said: list[str] = []
    parameters = list(network.parameters())
    gradients = Gradients(loss_of(network), parameters, refusing, said.append)
    for seed in range(2):
        inputs = some_inputs(seed)
        expected = wanted(network, inputs)
        gradients(inputs)
        torch.testing.assert_close([parameter.grad for parameter in parameters], expected)
    assert len(said) == 1
    assert "not permitted" in said[0]


def test_a_replay_of_old_inputs_is_not_used(network: nn.Module) -> None:
    def stale(work: Callable[[], None]) -> Callable[[], None]:
        work()
        return lambda: None

    said: list[str] = []
    parameters = list(network.parameters())
    gradients = Gradients(loss_of(network), parameters, stale, said.append)
    for seed in range(2):
        expected = wanted(network, some_inputs(seed))
        gradients(some_inputs(seed))
        torch.testing.assert_close([parameter.grad for parameter in parameters], expected)
    assert len(said) == 1
    assert "off by" in said[0]


def test_memory_that_runs_out_is_not_a_reason_to_go_on(network: nn.Module) -> None:
    def full(_: Callable[[], None]) -> Callable[[], None]:
        raise torch.OutOfMemoryError("out of memory")

    gradients = Gradients(loss_of(network), list(network.parameters()), full, print)
    with pytest.raises(torch.OutOfMemoryError):
        gradients(some_inputs(0))


def test_a_cpu_captures_nothing() -> None:
    assert capture_on(torch.device("cpu")) is None
