"""Losses that passed their check, and whether they are still what was checked."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from torch import nn

from understudy.privacy.dpsgd.backends.base import Loss
from understudy.privacy.dpsgd.knobs import knobs_of

_REMEMBERED = 64


class CheckedLosses:
    """The losses that passed their check with given models, told apart by what turns them
    (`knobs_of`).

    A loss written inside a loop is a new function each time, but not a new loss; one that reaches
    another function or option is, and so is one whose models were turned. Where there is too much
    to look at, nothing passed: such a loss is checked before every step.
    """

    def __init__(self, models: Sequence[nn.Module]) -> None:
        self._models = list(models)
        self._passed: deque[tuple[object, ...]] = deque(maxlen=_REMEMBERED)

    def knows(self, loss: Loss) -> bool:
        return knobs_of(loss, self._models) in self._passed

    def add(self, loss: Loss) -> None:
        """Remember the loss and the models as they are now."""
        found = knobs_of(loss, self._models)
        if found is not None:
            self._passed.appendleft(found)
