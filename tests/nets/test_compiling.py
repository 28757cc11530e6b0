"""What is compiled for one engine does not count for another."""

from __future__ import annotations

from typing import Any

import torch

from understudy.nets.compiling import compiled

MANY = 12
"""More than torch compiles of one function before it gives up."""


def doubled(values: torch.Tensor) -> torch.Tensor:
    return 2 * values


def test_the_last_of_many_is_compiled_as_the_first_was() -> None:
    seen: list[int] = []

    def compiler(graph: Any, examples: list[Any]) -> Any:
        del examples
        seen.append(len(seen))
        return graph

    for size in range(1, MANY + 1):
        mine = compiled(doubled, backend=compiler, fullgraph=True)
        assert torch.equal(mine(torch.ones(size)), torch.full((size,), 2.0))
    assert len(seen) == MANY


def test_without_it_torch_gives_up_on_the_way() -> None:
    """Else the copy would be for nothing."""
    seen: list[int] = []

    def compiler(graph: Any, examples: list[Any]) -> Any:
        del examples
        seen.append(len(seen))
        return graph

    shared = torch.compile(doubled, backend=compiler, dynamic=False)
    for size in range(1, MANY + 1):
        shared(torch.ones(size))
    assert len(seen) < MANY
