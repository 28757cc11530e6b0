"""State that survives a restart: tensors as safetensors, plain values as JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from understudy.errors import PrivacyError, reading

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class State:
    """What is needed to go on after a restart. Never holds a generator's state."""

    tensors: Mapping[str, torch.Tensor] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)


def save_state(folder: Path, name: str, state: State) -> None:
    """Write `name.safetensors` and `name.json` into `folder`, flushed to the disk."""
    from safetensors.torch import save

    tensors = {k: t.detach().cpu().contiguous().clone() for k, t in state.tensors.items()}
    write_durably(folder / f"{name}.safetensors", save(tensors))
    write_durably(folder / f"{name}.json", json.dumps(dict(state.values), sort_keys=True).encode())


def load_state(folder: Path, name: str) -> State:
    from safetensors.torch import load

    with reading(folder / f"{name}.json"):
        values = dict(json.loads((folder / f"{name}.json").read_text(encoding="utf-8")))
    with reading(folder / f"{name}.safetensors"):
        tensors = load((folder / f"{name}.safetensors").read_bytes())
    return State(tensors, values)


def write_durably(path: Path, content: bytes) -> None:
    """Write a file and wait until the disk has it."""
    with naming(path), path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def replace_durably(path: Path, content: bytes) -> None:
    """Write a file whole or not at all: beside its place, then renamed into it."""
    new = path.with_name(f".{path.name}.new")
    try:
        write_durably(new, content)
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
    sync_folder(path.parent)


def append_durably(path: Path, line: bytes, end: int) -> None:
    """Add a line at `end`, where the file must end, and wait for the disk.

    A line that the disk refuses leaves no half behind.
    """
    with naming(path), path.open("ab", buffering=0) as file:
        if file.seek(0, os.SEEK_END) != end:
            raise PrivacyError(f"{path.name} was changed by someone else; resume the run.")
        try:
            written = 0
            while written < len(line):
                written += file.write(line[written:])
            os.fsync(file.fileno())
        except OSError:
            file.truncate(end)
            raise


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """A full disk is reported without a name; say which file did not fit."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


def sync_folder(folder: Path) -> None:
    """Wait until the disk has a folder's entries (a rename, say)."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
