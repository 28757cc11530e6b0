"""A fitted network on disk: its weights, and a description of everything else."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import load as tensors_from_bytes
from safetensors.torch import save as tensors_to_bytes
from torch import nn

from understudy.durable import replace_durably
from understudy.errors import UserError

_DESCRIPTION = "synthesizer.json"


def save_network(
    folder: Path, weights: str, network: nn.Module, description: Mapping[str, Any]
) -> None:
    """Write the weights under this name, then the description, each whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    plain = {k: v.detach().cpu().contiguous() for k, v in network.state_dict().items()}
    replace_durably(folder / weights, tensors_to_bytes(plain))
    text = json.dumps(dict(description), indent=1, sort_keys=True)
    replace_durably(folder / _DESCRIPTION, text.encode())


def read_description(folder: Path, known: str) -> dict[str, Any]:
    """The description; one of another format than `known` is refused."""
    path = folder / _DESCRIPTION
    if not path.is_file():
        raise UserError(f"{folder} holds no synthesizer; {_DESCRIPTION} is missing.")
    description: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if description.get("format") != known:
        raise UserError(f"{path} has format {description.get('format')!r}, not {known!r}.")
    return description


def load_weights(folder: Path, weights: str, network: nn.Module) -> None:
    network.load_state_dict(tensors_from_bytes((folder / weights).read_bytes()))
