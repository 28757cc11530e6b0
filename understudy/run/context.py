"""What a run lends to a method while it fits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from understudy.errors import UserError
from understudy.privacy.door import Door
from understudy.privacy.state import State
from understudy.progress import Progress


@dataclass(frozen=True)
class RunContext:
    """Progress, device, seed, scratch space and checkpoints; no way to the owner's log."""

    door: Door
    progress: Progress
    device: torch.device
    seed: int

    @property
    def folder(self) -> Path:
        return self.door.scratch

    def checkpoint(self, snapshot: Callable[[], State]) -> None:
        self.door.checkpoint(snapshot)

    def restore(self) -> State | None:
        return self.door.restore()


def choose_device(name: str) -> torch.device:
    """`auto` takes a GPU where there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise UserError(f"--device must be auto, cpu or cuda, not {name!r}.") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise UserError("--device cuda was asked for, but there is no GPU here; use cpu.")
    return device
