"""torch's compiler, for functions that several engines of one process use."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any


def compiled(function: Callable[..., Any], **how: Any) -> Callable[..., Any]:
    """The function, compiled apart from every other use of it.

    torch counts how often one code object was compiled, for whatever shapes and networks, and
    after the eighth time computes it as it stands, or raises. So each caller has a code
    object of its own: the ninth run of a process is as quick as the first.
    """
    import torch

    assert isinstance(function, FunctionType)
    own = FunctionType(
        function.__code__.replace(),
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    made: Callable[..., Any] = torch.compile(own, dynamic=False, **how)
    return made
