"""What a loss holds besides its arguments: which losses behave alike, and which stay as they are.

A loss is checked once, and what is recorded on a GPU computes with whatever it held then. Both
rest on seeing when it has become another.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dis import get_instructions
from enum import Enum
from functools import lru_cache
from numbers import Integral
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

from understudy.privacy.backends.base import Loss

_REMEMBERED = 64
_OPTIONS = (str, Integral, float, Enum)
_PLAIN = (bool, int, float, str, bytes, type(None), Enum)
_OWNERS = (type(None), ModuleType, type)
"""Of functions that Python does not see into; others are methods of something that may change."""

_LIBRARIES = (
    "builtins",
    "collections",
    "dataclasses",
    "enum",
    "functools",
    "math",
    "torch",
    "typing",
)
_LOADS = ("LOAD_GLOBAL", "LOAD_NAME")
_MADE = ("<string>", dataclasses.__file__)
"""The files of methods that are made for dataclasses and named tuples."""


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

    Seen are a plain function's closure, defaults and globals, and those of the functions and
    methods that it reaches by these, as far as they are numbers, words, and tuples and frozen
    dataclasses of these. torch and Python's own library are taken at their word.
    """
    if not isinstance(loss, FunctionType):
        return None
    found = _Holdings()
    return found.held if found.takes(loss) else None


class _Holdings:
    """Everything that is reached from a function, each once."""

    def __init__(self) -> None:
        self.held: list[object] = []
        self._seen: set[int] = set()

    def takes(self, value: object) -> bool:
        """Whether all that is reached by a value can be seen; it is held if so."""
        if isinstance(value, _PLAIN):
            self.held.append(value)
            return True
        if id(value) in self._seen:
            return True
        self._seen.add(id(value))
        self.held.append(value)
        parts = _reached(value)
        return parts is not None and all(self.takes(part) for part in parts)


def _reached(value: object) -> list[object] | None:
    """What a value leads to; None where that cannot be seen, or may change unseen."""
    if isinstance(value, FunctionType):
        return [] if _is_librarys(value.__module__) else _by_function(value)
    if isinstance(value, BuiltinFunctionType):
        return [] if isinstance(value.__self__, _OWNERS) else None
    if isinstance(value, ModuleType):
        return [] if _is_librarys(value.__name__) else None
    if isinstance(value, type):
        return [] if _is_librarys(value.__module__) else _by_class(value)
    return [*_parts(value), type(value)] if _is_frozen(type(value)) else None


def _by_function(function: FunctionType) -> list[object] | None:
    names, imports = _loaded(function.__code__)
    if imports:
        return None
    globals_ = function.__globals__
    return [*_closed_over(function), *(globals_[name] for name in names if name in globals_)]


def _by_class(kind: type) -> list[object] | None:
    """The methods and values of a class whose members cannot be set."""
    if not _is_frozen(kind) and not issubclass(kind, Enum):
        return None
    own = [vars(base) for base in kind.__mro__ if not _is_librarys(base.__module__)]
    members = [_unwrapped(m) for members in own for name, m in members.items() if _is_own(name, m)]
    return [m for m in members if not hasattr(m, "__get__") or isinstance(m, FunctionType)]


def _is_own(name: str, member: object) -> bool:
    """Written in a class, and not made for it by Python."""
    code = getattr(_unwrapped(member), "__code__", None)
    return code.co_filename not in _MADE if code is not None else not name.startswith("_")


def _unwrapped(member: Any) -> object:
    """The function of a property, a static or a class method; all else as it is."""
    inner = (getattr(member, name, None) for name in ("fget", "__func__", "func"))
    return next((found for found in inner if isinstance(found, FunctionType)), member)


def _is_librarys(module: str) -> bool:
    return module.partition(".")[0] in _LIBRARIES


@lru_cache(maxsize=256)
def _loaded(code: CodeType) -> tuple[tuple[str, ...], bool]:
    """The globals that code reads, that of functions inside of it too, and whether it imports."""
    here = list(get_instructions(code))
    inside = [_loaded(inner) for inner in code.co_consts if isinstance(inner, CodeType)]
    names = [str(each.argval) for each in here if each.opname in _LOADS]
    names += (name for found, _ in inside for name in found)
    imports = any(each.opname == "IMPORT_NAME" for each in here)
    return tuple(dict.fromkeys(names)), imports or any(further for _, further in inside)


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


def _is_frozen(kind: type) -> bool:
    how = getattr(kind, "__dataclass_params__", None)
    return issubclass(kind, tuple) or bool(how and how.frozen)


def _parts(value: Any) -> Iterator[object]:
    if isinstance(value, tuple):
        yield from value
    else:
        yield from (getattr(value, field.name) for field in dataclasses.fields(value))
