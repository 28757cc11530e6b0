"""What a loss holds besides its arguments: which losses behave alike, and which stay as they are.

A loss is checked once, and what is recorded on a GPU computes with whatever it held then. Both
rest on seeing when it has become another.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from numbers import Integral
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

from understudy.privacy.backends.base import Loss

_REMEMBERED = 64
_OPTIONS = (str, Integral, float, Enum)
_PLAIN = (bool, int, float, str, bytes, type(None), Enum)
_CODE = (FunctionType, BuiltinFunctionType, ModuleType, type)
"""What a name in code may stand for. Functions that a loss calls are taken at their word."""


class CheckedLosses:
    """The losses that passed their check, told apart by what makes them behave alike.

    A loss written inside a loop is a new function each time, but not a new loss; one that
    closes over another function, module or option is. Options are words, whole numbers,
    members of enumerations, and whether a weight is zero; other weights are not told apart.
    What they close over is held, so that no new object can take the identity of an old one.
    """

    def __init__(self) -> None:
        self._passed: dict[tuple[object, ...], list[object]] = {}

    def knows(self, loss: Loss) -> bool:
        return self._key(loss)[0] in self._passed

    def add(self, loss: Loss) -> None:
        key, held = self._key(loss)
        self._passed[key] = held
        if len(self._passed) > _REMEMBERED:
            del self._passed[next(iter(self._passed))]

    def _key(self, loss: Loss) -> tuple[tuple[object, ...], list[object]]:
        function = getattr(loss, "__func__", loss)
        held: list[object] = []
        held += (h for h in _closed_over(function) if callable(h) or isinstance(h, _OPTIONS))
        held += [getattr(function, "__code__", loss), getattr(loss, "__self__", None)]
        return tuple(_identity(h) for h in held), held


def held_by(loss: Loss) -> list[object] | None:
    """The values that a loss holds besides its arguments; None where they cannot all be seen.

    Seen are a plain function's closure, defaults and globals, as far as they are numbers, words,
    and tuples and frozen dataclasses of these.
    """
    if not isinstance(loss, FunctionType):
        return None
    held = _closed_over(loss)
    held += [loss.__globals__[n] for n in _names(loss.__code__) if n in loss.__globals__]
    values = [value for value in held if not isinstance(value, _CODE)]
    return held if all(_is_steady(value) for value in values) else None


def _closed_over(function: Any) -> list[object]:
    """The contents of a function's closure, and its defaults; nothing of what is no function."""
    cells = getattr(function, "__closure__", None) or ()
    held = [cell.cell_contents for cell in cells]
    held += getattr(function, "__defaults__", None) or ()
    held += (getattr(function, "__kwdefaults__", None) or {}).values()
    return held


def _identity(held: object) -> object:
    if isinstance(held, float):
        return type(held), held == 0  # a term that is switched on, not a weight that moves
    return (type(held), held) if isinstance(held, _OPTIONS) else id(held)


def _names(code: CodeType) -> Iterator[str]:
    """All names in code, those of functions inside of it too."""
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names(inner)


def _is_steady(value: object) -> bool:
    return isinstance(value, _PLAIN) or (
        _is_frozen(value) and all(_is_steady(part) for part in _parts(value))
    )


def _is_frozen(value: object) -> bool:
    how = getattr(type(value), "__dataclass_params__", None)
    return isinstance(value, tuple) or bool(how and how.frozen)


def _parts(value: object) -> Iterator[object]:
    if isinstance(value, tuple):
        yield from value
    elif is_dataclass(value):
        yield from (getattr(value, field.name) for field in fields(value))
