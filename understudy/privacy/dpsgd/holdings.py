"""What a function holds besides its arguments: whether all of it can be seen, and has changed.

What is recorded on a GPU computes with whatever it held then.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dis import get_instructions
from enum import Enum
from functools import lru_cache
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any, NamedTuple

import torch


class _Named(NamedTuple):
    field: int


_PLAIN = (
    *(bool, int, float, str, bytes, type(None)),
    *(torch.dtype, torch.device, torch.memory_format, torch.layout),
)
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

_MADE_NAMES = ("_fields", "_field_defaults", "_abc_impl")
_FIELDS = (MemberDescriptorType, GetSetDescriptorType, type(_Named.field))
"""What gives the fields of an object, which are looked at themselves."""


def held_by(function: Callable[..., Any]) -> list[object] | None:
    """The values that a function holds besides its arguments; None where they cannot all be seen.

    Seen are a plain function's closure, defaults, attributes and globals, and those of the
    functions and methods that it reaches by these, as far as they are numbers, words, and tuples
    and frozen dataclasses of these. torch and Python's own library are taken at their word.
    """
    if not isinstance(function, FunctionType):
        return None
    found = _Holdings()
    return found.held if found.takes(function) else None


class _Holdings:
    """Everything that is reached from a function, in order."""

    def __init__(self) -> None:
        self.held: list[object] = []
        self._seen: set[int] = set()

    def takes(self, value: object) -> bool:
        """Whether all that is reached by a value can be seen; it is held if so."""
        if isinstance(value, _PLAIN):
            self.held.append((type(value), value))  # True is another option than 1
            return True
        self.held.append(value)
        if id(value) in self._seen:
            return True
        self._seen.add(id(value))
        parts = _reached(value)
        return parts is not None and all(self.takes(part) for part in parts)


def _reached(value: object) -> list[object] | None:
    """What a value leads to; None where that cannot be seen, or may change unseen."""
    if isinstance(value, FunctionType):
        return [] if _is_librarys_function(value) else _by_function(value)
    if isinstance(value, BuiltinFunctionType):
        owned = isinstance(value.__self__, _OWNERS) and _is_librarys(value.__module__)
        return [] if owned else None
    if isinstance(value, MethodType):
        return [value.__func__, value.__self__]
    if isinstance(value, ModuleType):
        return [] if _is_librarys(value.__name__) else None
    if isinstance(value, type):
        return [] if _is_librarys(value.__module__) else _by_class(value)
    if isinstance(value, Enum):
        return [value.value, type(value)]
    return [*_parts(value), type(value)] if _is_frozen(type(value)) else None


def _by_function(function: FunctionType) -> list[object] | None:
    if _loaded(function.__code__)[1]:
        return None
    return [*closed_over(function), *vars(function).values(), *globals_of(function)]


def _by_class(kind: type) -> list[object] | None:
    """The methods and values of a class whose objects stay as they are."""
    if issubclass(kind, Enum):
        return [*(member.value for member in kind), *methods_of(kind)]
    members = [(name, m) for name, m in _members(kind) if not isinstance(m, FunctionType)]
    values = [member for name, member in members if not _is_made(name, member)]
    may_give_anything = any(hasattr(value, "__get__") for value in values)
    return [*methods_of(kind), *values] if _is_frozen(kind) and not may_give_anything else None


def _members(kind: type) -> Iterator[tuple[str, object]]:
    for base in kind.__mro__:
        own = {} if _is_librarys(base.__module__) else vars(base)
        yield from ((name, _unwrapped(member)) for name, member in own.items())


def methods_of(kind: type) -> list[FunctionType]:
    """Those that somebody wrote."""
    found = [member for _, member in _members(kind) if isinstance(member, FunctionType)]
    return [method for method in found if method.__code__.co_filename not in _MADE]


def _is_made(name: str, member: object) -> bool:
    """Whether Python has put it into a class."""
    return name.startswith("__") or name in _MADE_NAMES or isinstance(member, _FIELDS)


def _unwrapped(member: Any) -> object:
    """The function of a property, a static or a class method; all else as it is."""
    inner = (getattr(member, name, None) for name in ("fget", "__func__", "func"))
    return next((found for found in inner if isinstance(found, FunctionType)), member)


def _is_librarys_function(function: FunctionType) -> bool:
    """By where it says that it comes from, and by where it was written: a wrapper may say what
    it wraps."""
    return _is_librarys(function.__module__) and _is_librarys(
        function.__globals__.get("__name__", "")
    )


def _is_librarys(module: str | None) -> bool:
    return (module or "builtins").partition(".")[0] in _LIBRARIES


@lru_cache(maxsize=256)
def _loaded(code: CodeType) -> tuple[tuple[str, ...], bool]:
    """The globals that code reads, that of functions inside of it too, and whether it imports."""
    here = list(get_instructions(code))
    inside = [_loaded(inner) for inner in code.co_consts if isinstance(inner, CodeType)]
    names = [str(each.argval) for each in here if each.opname in _LOADS]
    names += (name for found, _ in inside for name in found)
    imports = any(each.opname == "IMPORT_NAME" for each in here)
    return tuple(dict.fromkeys(names)), imports or any(further for _, further in inside)


def closed_over(function: Any) -> list[object]:
    """The contents of a function's closure, and its defaults; nothing of what is no function."""
    cells = getattr(function, "__closure__", None) or ()
    held = [cell.cell_contents for cell in cells if cell != CellType()]  # empty ones hold nothing
    held += getattr(function, "__defaults__", None) or ()
    held += (getattr(function, "__kwdefaults__", None) or {}).values()
    return held


def globals_of(function: FunctionType) -> list[object]:
    """The globals that a function's code reads, as they are now."""
    names, _ = _loaded(function.__code__)
    return [function.__globals__[name] for name in names if name in function.__globals__]


def _is_frozen(kind: type) -> bool:
    how = getattr(kind, "__dataclass_params__", None)
    return issubclass(kind, tuple) or bool(how and how.frozen)


def _parts(value: Any) -> Iterator[object]:
    """All that it holds; an object of a subclass may hold more than its fields."""
    if isinstance(value, tuple):
        yield from value
    else:
        yield from (getattr(value, field.name) for field in dataclasses.fields(value))
    yield from getattr(value, "__dict__", {}).values()
