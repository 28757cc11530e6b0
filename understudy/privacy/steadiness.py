"""Whether a loss is a function of its arguments and of values that can be seen to stay.

A recording computes with whatever the loss held when it was made. So only a loss whose every
part can be looked at is recorded, and it is looked at again before each step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType

from understudy.privacy.backends.base import Loss

_PLAIN = (bool, int, float, str, bytes, type(None), Enum)
_CODE = (FunctionType, BuiltinFunctionType, ModuleType, type)
"""What a name in code may stand for. Functions that a loss calls are taken at their word."""


def held_by(loss: Loss) -> list[object] | None:
    """The values that a loss holds besides its arguments; None where they cannot all be seen.

    Seen are a plain function's closure, defaults and globals, as far as they are numbers, words,
    and tuples and frozen dataclasses of these.
    """
    if not isinstance(loss, FunctionType):
        return None
    held = [*(loss.__defaults__ or ()), *(loss.__kwdefaults__ or {}).values()]
    held += [cell.cell_contents for cell in loss.__closure__ or ()]
    held += [loss.__globals__[n] for n in _names(loss.__code__) if n in loss.__globals__]
    values = [value for value in held if not isinstance(value, _CODE)]
    return held if all(_is_steady(value) for value in values) else None


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
