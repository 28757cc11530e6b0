"""Losses that passed their check, and which of them are alike."""

from __future__ import annotations

from enum import Enum
from numbers import Integral

from understudy.privacy.backends.base import Loss
from understudy.privacy.holdings import closed_over

_REMEMBERED = 64
_OPTIONS = (str, Integral, float, Enum)


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
        held += (h for h in closed_over(function) if callable(h) or isinstance(h, _OPTIONS))
        held += [getattr(function, "__code__", loss), getattr(loss, "__self__", None)]
        return tuple(_identity(h) for h in held), held


def _identity(held: object) -> object:
    if isinstance(held, float):
        return type(held), held == 0  # a term that is switched on, not a weight that moves
    return (type(held), held) if isinstance(held, _OPTIONS) else id(held)
