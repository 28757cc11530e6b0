"""`torch.compile`, for functions that several engines of one process use."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any


def compiled(function: Callable[..., Any], **how: Any) -> Callable[..., Any]:
    """The function, compiled with a code object of its own.

    torch counts how often it compiled a code object, for any shapes and networks, and after the
    eighth time runs it eagerly, or raises. With a copy of the code object for each caller, the
    ninth run of a process is as fast as the first.
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
