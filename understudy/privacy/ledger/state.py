"""State that survives a restart: tensors as safetensors, plain values as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from understudy.durable import write_durably
from understudy.errors import reading

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
