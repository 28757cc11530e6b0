"""Ctrl-C at a good moment: while noise is out and not yet recorded, it waits."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import torch

from understudy.errors import LostConnectionError, PrivacyError

OUT_OF_MEMORY = (MemoryError, torch.OutOfMemoryError)

NO_FAILURE_OF_A_CALLBACK = (
    *(KeyboardInterrupt, SystemExit, GeneratorExit, LostConnectionError),
    *OUT_OF_MEMORY,
)
"""What may end work on private records besides a callback that fails. Memory runs out at shapes
that depend on declared figures alone, except where work is done `all_at_once`; a connection is lost
when another process of a team ends."""


@contextmanager
def all_at_once(what: str, instead: str) -> Iterator[None]:
    """The context of work on all records of a sample or a shard at once, inside `Door.breaking`.

    Memory then runs out for large ones alone, so that it is a failure like another: a run that went
    on would draw anew until a sample is small enough, which is no Poisson sample; and whether a
    shard is small enough depends on its records.
    """
    try:
        yield
    except OUT_OF_MEMORY as error:
        raise PrivacyError(
            f"{what} takes more memory than there is ({error}); {instead}, or give the run more "
            "memory."
        ) from error


class DeferredInterrupt:
    """Holds back the first SIGINT until `raise_if_pending`; a second one comes through.

    Not while the disk is being written (`uninterrupted`): there even a second one waits
    the few milliseconds that it takes. Works in the main thread; elsewhere signals never
    arrive, and it does nothing.
    """

    def __init__(self) -> None:
        self.pending = False
        self._before: Any = None
        self._active = False
        self._writing = False

    def begin(self) -> None:
        if self._active or threading.current_thread() is not threading.main_thread():
            return
        self._before = signal.signal(signal.SIGINT, self._hold)
        self._active = True

    def end(self) -> None:
        if self._active:
            signal.signal(signal.SIGINT, self._before)
            self._active = False

    @contextmanager
    def uninterrupted(self) -> Iterator[None]:
        self._writing = True
        try:
            yield
        finally:
            self._writing = False

    def raise_if_pending(self) -> None:
        if self.pending:
            self.pending = False
            raise KeyboardInterrupt

    def _hold(self, number: int, frame: FrameType | None) -> None:
        if self.pending and not self._writing and callable(self._before):
            self._before(number, frame)
        self.pending = True
