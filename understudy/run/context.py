"""What a run lends to a method while it fits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from understudy.errors import UserError
from understudy.privacy.door.door import Door
from understudy.privacy.ledger.state import State
from understudy.privacy.team.doors import STOPPED, FollowingDoor
from understudy.privacy.team.team import Team
from understudy.progress import Progress

_NO_SUCH_DEVICE = "--device must be auto, cpu or cuda, not {!r}."


@dataclass(frozen=True)
class RunContext:
    """Progress, device, seed, scratch space and checkpoints; no way to the owner's log."""

    _door: Door
    progress: Progress
    device: torch.device
    seed: int

    @property
    def folder(self) -> Path:
        return self._door.scratch

    def checkpoint(self, snapshot: Callable[[], State]) -> None:
        self._door.checkpoint(snapshot)

    def restore(self) -> State | None:
        return self._door.restore()


@dataclass(frozen=True)
class LeadingContext(RunContext):
    """What the first of several processes lends: the others begin and stop where it does."""

    team: Team

    def checkpoint(self, snapshot: Callable[[], State]) -> None:
        """As alone. Asked to stop, it tells the others, who wait for the next step by then."""
        try:
            super().checkpoint(snapshot)
        except KeyboardInterrupt:
            self.team.number(STOPPED)
            raise


@dataclass(frozen=True)
class FollowingContext:
    """What every other process lends: it keeps nothing, and goes on from where the first does."""

    _door: FollowingDoor
    progress: Progress
    device: torch.device
    seed: int
    folder: Path

    def checkpoint(self, snapshot: Callable[[], State]) -> None:
        del snapshot

    def restore(self) -> State | None:
        return self._door.restore()


def choose_device(name: str) -> torch.device:
    """`auto` takes a GPU where there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise UserError(_NO_SUCH_DEVICE.format(name)) from error
    if device.type not in ("cpu", "cuda"):
        raise UserError(_NO_SUCH_DEVICE.format(name))
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise UserError(f"--device {name} was asked for, but there is no such GPU here; use cpu.")
    return device
