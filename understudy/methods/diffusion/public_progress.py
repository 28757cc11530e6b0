"""A public training under way, kept so that a stopped run need not begin it again."""

from __future__ import annotations

import time
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from understudy.durable import replace_durably
from understudy.methods.diffusion.denoiser_training import DenoiserTraining
from understudy.privacy.ledger.state import State

_STEP = "public step"
_EVERY_SECONDS = 60.0


class PublicProgress:
    """Steps that were taken, with all that the next one needs, in one file.

    path: named by what the training depends on; None keeps nothing. What it holds is made from
    public images or from releases, so it may lie anywhere that the owner trusts.
    """

    def __init__(self, path: Path | None) -> None:
        self._path, self._kept_at = path, time.monotonic()

    def take_up(self, training: DenoiserTraining) -> int:
        """How many steps were taken before; the training stands where they ended."""
        if self._path is None:
            return 0
        try:
            found = load(self._path.read_bytes())
        except (FileNotFoundError, SafetensorError):
            return 0
        done = int(found.pop(_STEP))
        training.load(State(found))
        return done

    def keep_sometimes(self, training: DenoiserTraining, done: int) -> None:
        if time.monotonic() - self._kept_at > _EVERY_SECONDS:
            self.keep(training, done)

    def keep(self, training: DenoiserTraining, done: int) -> None:
        if self._path is None:
            return
        tensors = training.snapshot().tensors
        held = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        replace_durably(self._path, save({**held, _STEP: torch.tensor(done)}))
        self._kept_at = time.monotonic()

    def finish(self) -> None:
        if self._path is not None:
            self._path.unlink(missing_ok=True)
