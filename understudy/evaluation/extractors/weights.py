"""Networks of extractors, filled from the files of the catalog of weights."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import torch
from torch import nn

from understudy.data.weights import find_weights, weights_entry
from understudy.errors import UserError


def find_by_name(name: str) -> Path:
    """The file of these weights of the catalog, with the digest that the catalog states."""
    return find_weights(weights_entry(name)).path


def load_arrays(network: nn.Module, path: Path) -> None:
    """Fill a network from an npz file whose keys are the network's own."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            state = {key: torch.from_numpy(arrays[key].astype(np.float32)) for key in arrays.files}
        network.load_state_dict(state)
    except (OSError, ValueError, RuntimeError, zipfile.BadZipFile) as error:
        raise UserError(f"weights {path} do not fit: {error}") from error
