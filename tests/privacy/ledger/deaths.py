"""Dying at any point: the k-th touch of the disk raises what nobody catches.

What is on the disk then is what a killed process leaves there (the operating system
finishes what it was asked to do), so the tests of recovery can visit every point.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import pytest


class Death(BaseException):
    """The process is gone: not an `Exception`, so no handler for errors sees it."""


TOUCHES = (
    (os, "rename"),
    (os, "replace"),
    (os, "mkdir"),
    (os, "unlink"),
    (os, "ftruncate"),
    (shutil, "rmtree"),
)


def raise_death() -> None:
    raise Death


@contextmanager
def dying(at: int, *, after: bool, die: Callable[[], None] = raise_death) -> Iterator[list[int]]:
    """Die before (or right after) touch number `at` of the disk; yields a count of touches."""
    touched = [0]

    def deadly(touch: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*arguments: Any, **named: Any) -> Any:
            mine = touched[0]
            touched[0] += 1
            if mine == at and not after:
                die()
            try:
                return touch(*arguments, **named)
            finally:
                if mine == at:
                    die()

        return wrapped

    with pytest.MonkeyPatch.context() as patch:
        for module, name in TOUCHES:
            patch.setattr(module, name, deadly(getattr(module, name)))
        # A point to die at, but the machine stays up: nothing needs to wait for its disk.
        patch.setattr(os, "fsync", deadly(lambda _: None))
        yield touched


def every_death(
    work: Callable[[], None], prepare: Callable[[], object], stride: int = 1
) -> Iterator[int]:
    """Prepare and run `work` again and again, dying `stride` touches later each time.

    Yields after each death, so that the caller can look at what is left; ends when the
    work survives, once with deaths before the touches and once with deaths after them.
    """
    for after in (False, True):
        for at in count(0, stride):
            prepare()
            try:
                with dying(at, after=after):
                    work()
            except Death:
                yield at
            else:
                assert at > 0, "the work never touched the disk"
                break


@contextmanager
def death_between_rename_and_ledger() -> Iterator[None]:
    """The narrowest gap: the block is kept, the ledger does not say so yet."""

    def die(*_: object, **__: object) -> None:
        raise Death

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("understudy.privacy.ledger.ledger.append_durably", die)
        yield
