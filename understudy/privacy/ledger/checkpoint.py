"""What a run goes on from: the method's state, and what belongs to it and is the door's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from understudy.durable import OWNER_ONLY
from understudy.privacy.ledger.state import State, load_state, save_state

if TYPE_CHECKING:
    import torch

METHOD, DOOR = "method", "door"
_FILES = tuple(f"{name}.{ending}" for name in (DOOR, METHOD) for ending in ("safetensors", "json"))
"""The file by which a checkpoint is found stands last: until it goes, removal can be repeated."""


@dataclass(frozen=True)
class Checkpoint:
    """The method's state at one moment, and the door's side of the same moment.

    seen: of each mechanism, how many of its kept outputs the method had been given.
    sealed: models that no method can read (an ensemble trained in rounds); for the door alone.
    """

    method: State
    seen: Mapping[str, int] = field(default_factory=dict)
    sealed: Mapping[str, State] = field(default_factory=dict)


def save_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """Write it into `folder`, flushed to the disk; the door's files are for the owner alone."""
    save_state(folder, METHOD, checkpoint.method)
    names = list(checkpoint.sealed)
    tensors = {
        f"{number}/{name}": tensor
        for number, key in enumerate(names)
        for name, tensor in checkpoint.sealed[key].tensors.items()
    }
    sealed = [{"key": key, "values": dict(checkpoint.sealed[key].values)} for key in names]
    save_state(folder, DOOR, State(tensors, {"seen": dict(checkpoint.seen), "sealed": sealed}))
    for file in folder.glob(f"{DOOR}.*"):
        file.chmod(OWNER_ONLY)


def load_checkpoint(folder: Path) -> Checkpoint:
    """Read it back. Version 0.1 kept the method's state alone: nothing then counts as seen."""
    method = load_state(folder, METHOD)
    if not (folder / f"{DOOR}.json").exists():
        return Checkpoint(method)
    own = load_state(folder, DOOR)
    sealed = {
        told["key"]: State(_under(f"{number}/", own), told["values"])
        for number, told in enumerate(own.values["sealed"])
    }
    return Checkpoint(method, dict(own.values["seen"]), sealed)


def has_checkpoint(folder: Path) -> bool:
    return (folder / f"{METHOD}.json").exists()


def remove_checkpoint(folder: Path) -> None:
    """Delete what `save_checkpoint` wrote, if it is there. Only for one that a newer replaces."""
    for name in _FILES if has_checkpoint(folder) else ():
        (folder / name).unlink(missing_ok=True)


def _under(prefix: str, state: State) -> Mapping[str, torch.Tensor]:
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in state.tensors.items()
        if name.startswith(prefix)
    }
