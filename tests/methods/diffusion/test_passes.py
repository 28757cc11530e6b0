"""Passes of the denoiser: the same images however they are computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from tests.methods.diffusion.small import SMALL
from tests.methods.diffusion.test_synthesizer import synthesizer
from understudy.methods.diffusion import synthesizer as module
from understudy.methods.diffusion.denoising import Preconditioning
from understudy.methods.diffusion.passes import Passes, channels_last_twin
from understudy.methods.diffusion.samplers import SamplerSettings
from understudy.nets.seeding import built

CLOSE: dict[str, float] = {"rtol": 1e-4, "atol": 1e-5}


def network() -> nn.Module:
    made = built(SMALL.network((1, 8, 8), 3).build, 0, "a test")
    random = torch.Generator().manual_seed(0)
    torch.nn.init.normal_(made.leave.weight, std=0.3, generator=random)  # type: ignore[union-attr,arg-type]
    return made


def asked(rows: int) -> tuple[torch.Tensor, float, torch.Tensor]:
    random = torch.Generator().manual_seed(rows)
    images = torch.randn(rows, 1, 8, 8, generator=random)
    return images, 0.7, torch.randint(4, (rows,), generator=random)


def passes(rows: int, through: str | None, say: Callable[[str], None] = print) -> Passes:
    return Passes(network(), Preconditioning(), rows, through, say)


@pytest.mark.parametrize("rows", [3, 8, 13])
def test_padded_passes_give_what_unpadded_ones_do(rows: int) -> None:
    """Eight at once: fewer, just as many, and more; dynamo's own backend computes as is."""
    padded, plain = passes(8, "eager"), passes(100, None)
    found = padded(*asked(rows))
    assert padded.is_compiled
    assert found.shape == (rows, 1, 8, 8)
    assert torch.allclose(found, plain(*asked(rows)), **CLOSE)


def test_one_shape_is_compiled_whatever_is_asked() -> None:
    shapes: list[torch.Size] = []

    def compiler(graph: Any, examples: list[Any]) -> Any:
        def run(*arguments: Any) -> Any:
            shapes.extend(a.shape for a in arguments if isinstance(a, torch.Tensor) and a.ndim == 4)
            return graph(*arguments)

        del examples
        return run

    made = passes(8, compiler)  # type: ignore[arg-type]
    for rows in (3, 8, 13):
        made(*asked(rows))
    assert {shape[0] for shape in shapes if shape[1:] == (1, 8, 8)} == {8}


def test_what_cannot_be_compiled_is_computed_as_it_stands_and_said_once() -> None:
    def broken(graph: Any, examples: list[Any]) -> Any:
        del graph, examples
        raise RuntimeError("no compiler here\n" + 1000 * "and more ")

    said: list[str] = []
    made, plain = passes(8, broken, said.append), passes(8, None)  # type: ignore[arg-type]
    for rows in (9, 3):
        assert torch.allclose(made(*asked(rows)), plain(*asked(rows)), **CLOSE)
    assert not made.is_compiled
    assert len(said) == 1
    assert "no compiler here" in said[0]
    assert len(said[0]) < 300
    unknown = passes(8, "no such compiler", said.append)
    assert torch.allclose(unknown(*asked(3)), plain(*asked(3)), **CLOSE)
    assert len(said) == 2


def test_a_compiler_that_computes_something_else_is_not_used() -> None:
    def wrong(graph: Any, examples: list[Any]) -> Any:
        del examples
        return lambda *arguments: tuple(value * 1.2 for value in graph(*arguments))

    said: list[str] = []
    made = passes(8, wrong, said.append)  # type: ignore[arg-type]
    assert torch.allclose(made(*asked(5)), passes(8, None)(*asked(5)), **CLOSE)
    assert "off by 0.2" in said[0]


def test_memory_that_runs_out_is_not_taken_for_a_missing_compiler() -> None:
    def full(graph: Any, examples: list[Any]) -> Any:
        del graph, examples

        def run(*arguments: Any) -> Any:
            raise torch.OutOfMemoryError(f"full of {len(arguments)}")

        return run

    with pytest.raises(torch.OutOfMemoryError):
        passes(8, full)(*asked(3))  # type: ignore[arg-type]


def test_the_twin_computes_what_the_network_does_and_leaves_it_alone() -> None:
    made = network()
    twin = channels_last_twin(made)
    images, level, codes = asked(5)
    levels = torch.full((5,), level)
    assert torch.allclose(twin(images, levels, codes), made(images, levels, codes), **CLOSE)
    assert not any(isinstance(m, nn.GroupNorm) for m in twin.modules())
    assert any(isinstance(m, nn.GroupNorm) for m in made.modules())
    assert all(p.is_contiguous() for p in made.parameters())


@pytest.mark.parametrize("guidance", [0.0, 0.5])
def test_records_are_the_same_with_and_without_a_compiler(
    monkeypatch: pytest.MonkeyPatch, guidance: float
) -> None:
    """Churn, guidance and a last batch that is not full: the random numbers are the same."""
    monkeypatch.setitem(module._IMAGES_AT_ONCE, "cpu", 6)
    monkeypatch.setitem(module._ROWS_AT_ONCE, "cpu", 4)
    drawing = SamplerSettings("edm", 3, guidance=guidance, churn=3.0)
    drawn_from = synthesizer(drawing)
    plain = drawn_from.sample(9, seed=2).features
    monkeypatch.setattr(
        module, "Passes", lambda n, s, rows, _, say: Passes(n, s, rows, "eager", say)
    )
    compiled = drawn_from.sample(9, seed=2).features
    assert abs(plain.astype(int) - compiled.astype(int)).max() <= 1
