"""What a method may turn after a callback was checked: the plain values that it reaches.

A check on random data holds for a callback as it was then. One that reads an attribute of its
model, of its own object or of a module, or an entry of a dict, may do something else later.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import lru_cache, partial
from numbers import Integral, Real
from types import CodeType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import nn

from understudy.privacy.dpsgd.holdings import closed_over, globals_of, methods_of

_OPTIONS = (str, bytes, Integral, Enum, type(None), np.bool_, torch.dtype, torch.device)
_SETTINGS = (Namespace, SimpleNamespace)
"""Classes of Python's own library whose objects hold what somebody sets."""

_MOST = 20_000
"""Values that are looked at, and so a bound on the time that it takes."""

_TORCHS_OWN = frozenset(vars(nn.Module())) - {
    *("training", "_modules", "_parameters", "_buffers", "_forward_hooks", "_forward_pre_hooks")
}
_OPAQUE = ("understudy.privacy.", "understudy.progress", "understudy.run.")
"""The door and what lies behind it counts steps, and turns no callback."""


def knobs_of(*values: object) -> tuple[object, ...] | None:
    """What tells whether callbacks and models still do what they did, the values of tensors apart;
    None where there is too much to look at, or something cannot be.

    Seen are closures, defaults, attributes, and the globals that functions read, those of other
    modules by name too; objects' own attributes and the options of their classes, containers, and
    models' layers, modes and forward hooks. Of weights (floats) it is told whether they are zero:
    one that moves a little is no other callback. Not seen are values inside of Python's own
    library, torch, numpy and the door, and the globals that a model's code reads.
    """
    try:
        return _walked(values)
    except Exception:  # noqa: BLE001 - whatever an object raises that is looked at: it is not seen
        return None


def _walked(values: Sequence[object]) -> tuple[object, ...] | None:
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
    if isinstance(value, type | CodeType) or _is_librarys_callable(value):
        return value
    return type(value)


def _is_librarys_callable(value: object) -> bool:
    """Such as torch.add: there is nothing inside of it to tell it from torch.cumsum by."""
    followed = isinstance(value, FunctionType | MethodType | partial | nn.Module)
    return callable(value) and not followed and _is_librarys(type(value).__module__)


def _parts(value: Any) -> Iterable[object]:
    """What a value leads to."""
    if isinstance(value, FunctionType):
        return _of_function(value)
    if isinstance(value, MethodType):
        return [value.__func__, value.__self__]
    if isinstance(value, partial):
        return [value.func, value.args, value.keywords]
    if isinstance(value, Mapping):
        return [*value.keys(), *value.values(), *_further(value)]
    if isinstance(value, list | tuple | set | frozenset | deque):
        return [*value, *_further(value)]
    if isinstance(value, ModuleType):
        return _of_module(value)
    if isinstance(value, nn.Module):
        return [*_options_of(type(value)), *_attributes(value, _TORCHS_OWN)]
    return _of_object(value)


def _further(container: object) -> Iterable[object]:
    """What somebody's own kind of container holds besides its entries."""
    kind: Any = type(container)
    return _attributes(container, frozenset()) if _own_bases(kind) else ()


def _of_function(function: FunctionType) -> list[object]:
    if _is_librarys(function.__module__ or ""):
        return [function.__code__]
    read = globals_of(function)
    named = [_named_in(function.__code__, module) for module in read if _is_followed(module)]
    reached = [*closed_over(function), *vars(function).values(), *read]
    return [function.__code__, *reached, *named]


def _is_followed(value: object) -> bool:
    return isinstance(value, ModuleType) and not _is_librarys(value.__name__)


def _named_in(code: CodeType, module: object) -> list[object]:
    """What of a module code speaks of, or code inside of it."""
    own = vars(module)
    inside = [each for each in code.co_consts if isinstance(each, CodeType)]
    further = [part for each in inside for part in _named_in(each, module)]
    return [*(own[name] for name in code.co_names if name in own), *further]


def _of_module(module: ModuleType) -> list[object]:
    """Its options; where one module leads to others there is no end."""
    if _is_librarys(module.__name__):
        return []
    own = ((name, value) for name, value in vars(module).items() if not name.startswith("__"))
    return [part for pair in own if isinstance(pair[1], _OPTIONS) for part in pair]


def _of_object(value: Any) -> Iterable[object]:
    kind = value if isinstance(value, type) else type(value)
    if _is_librarys(kind.__module__) and not isinstance(value, _SETTINGS):
        wrapped = getattr(value, "__wrapped__", None)  # as functools.cache has it
        return [] if wrapped is None or kind is value else [wrapped]
    if kind is not value and kind.__module__.startswith(_OPAQUE):
        return []
    found = [*methods_of(kind), *_options_of(kind)]
    return found if kind is value else [*found, *_attributes(value, frozenset())]


def _options_of(kind: type) -> list[object]:
    """Those that a class holds for all its objects."""
    own = [pair for base in _own_bases(kind) for pair in vars(base).items()]
    return [part for pair in own if isinstance(pair[1], _OPTIONS) for part in pair]


def _attributes(value: Any, besides: frozenset[str]) -> Iterator[object]:
    """The names and values of an object's own attributes."""
    kind: Any = type(value)
    for name in _slots(kind):
        if hasattr(value, name):
            yield from (name, getattr(value, name))
    for name, held in getattr(value, "__dict__", {}).items():
        if name not in besides:
            yield from (name, held)


@lru_cache(maxsize=1024)
def _slots(kind: Any) -> tuple[str, ...]:
    """As attributes are called: those of two underscores carry their class's name."""
    found: list[str] = []
    for base in kind.__mro__:
        named = vars(base).get("__slots__", ())
        for name in (named,) if isinstance(named, str) else named:
            is_hidden = name.startswith("__") and not name.endswith("__")
            found.append(f"_{base.__name__.lstrip('_')}{name}" if is_hidden else name)
    return tuple(found)


@lru_cache(maxsize=1024)
def _own_bases(kind: Any) -> tuple[type, ...]:
    return tuple(base for base in kind.__mro__ if not _is_librarys(base.__module__))


def _is_librarys(module: str) -> bool:
    first = module.partition(".")[0]
    return first in sys.stdlib_module_names or first in ("torch", "numpy")
