"""What a method may turn after a callback was checked: the plain values that it reaches.

A check on random data holds for a callback as it was then. One that reads an attribute of its
model, of its own object or of a module, or an entry of a dict, may do something else later.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from functools import partial
from numbers import Integral, Real
from types import CodeType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import nn

from understudy.privacy.holdings import closed_over, globals_of, methods_of

_OPTIONS = (str, bytes, Integral, Enum, type(None), np.bool_, torch.dtype, torch.device)
_SETTINGS = (Namespace, SimpleNamespace)
"""Classes of Python's own library whose objects hold what somebody sets."""

_MOST = 20_000
"""Values that are looked at, and so a bound on the time that it takes."""

_TORCHS_OWN = frozenset(vars(nn.Module())) - {
    *("training", "_modules", "_forward_hooks", "_forward_pre_hooks")
}


def knobs_of(*values: object) -> tuple[object, ...] | None:
    """What tells whether callbacks and models still do what they did, the values of tensors apart;
    None where there is too much to look at.

    Seen are closures, defaults, attributes, and the globals that functions read; objects' own
    attributes, containers, and models' layers, modes and hooks. Of weights (floats) it is told
    whether they are zero: one that moves a little is no other callback. Not seen are values
    inside of Python's own library, torch and numpy, and the globals that a model's code reads.
    """
    found: list[object] = []
    seen: set[int] = set()
    waiting = list(reversed(values))
    while waiting:
        value = waiting.pop()
        found.append(_told(value))
        if len(found) > _MOST:
            return None
        if not isinstance(value, _OPTIONS) and id(value) not in seen:
            seen.add(id(value))
            waiting += reversed(list(_parts(value)))
    return tuple(found)


def _told(value: object) -> object:
    """What tells a value apart, besides what it leads to."""
    if isinstance(value, _OPTIONS):
        return type(value), value
    if isinstance(value, Real):
        return type(value), value == 0
    return value if isinstance(value, type | CodeType) else type(value)


def _parts(value: Any) -> Iterable[object]:
    """What a value leads to."""
    if isinstance(value, FunctionType):
        return _of_function(value)
    if isinstance(value, MethodType):
        return [value.__func__, value.__self__]
    if isinstance(value, partial):
        return [value.func, value.args, value.keywords]
    if isinstance(value, Mapping):
        return [*value.keys(), *value.values()]
    if isinstance(value, list | tuple | set | frozenset):
        return list(value)
    if isinstance(value, ModuleType):
        return _of_module(value)
    if isinstance(value, nn.Module):
        return _attributes(value, _TORCHS_OWN)
    return _of_object(value)


def _of_function(function: FunctionType) -> list[object]:
    if _is_librarys(function.__module__):
        return [function.__code__]
    reached = [*closed_over(function), *vars(function).values(), *globals_of(function)]
    return [function.__code__, *reached]


def _of_module(module: ModuleType) -> list[object]:
    """Its options; where one module leads to others there is no end."""
    if _is_librarys(module.__name__):
        return []
    own = ((name, value) for name, value in vars(module).items() if not name.startswith("__"))
    return [part for pair in own if isinstance(pair[1], _OPTIONS) for part in pair]


def _of_object(value: Any) -> Iterable[object]:
    kind = value if isinstance(value, type) else type(value)
    if _is_librarys(kind.__module__) and not isinstance(value, _SETTINGS):
        return []
    methods = methods_of(kind)
    return methods if kind is value else [*methods, *_attributes(value, frozenset())]


def _attributes(value: Any, besides: frozenset[str]) -> Iterator[object]:
    """The names and values of an object's own attributes."""
    slots = (name for base in type(value).__mro__ for name in vars(base).get("__slots__", ()))
    for name in slots:
        if hasattr(value, name):
            yield from (name, getattr(value, name))
    for name, held in getattr(value, "__dict__", {}).items():
        if name not in besides:
            yield from (name, held)


def _is_librarys(module: str | None) -> bool:
    first = (module or "builtins").partition(".")[0]
    return first in sys.stdlib_module_names or first in ("torch", "numpy")
