"""Where extractor weights are found: `$UNDERSTUDY_WEIGHTS`, then a download if there is one."""

from __future__ import annotations

import hashlib
import os
import zipfile
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import numpy as np
import torch
from torch import nn

from understudy.durable import replacing
from understudy.errors import UserError

VARIABLE = "UNDERSTUDY_WEIGHTS"
_PIECE = 1 << 20


def find_weights(name: str, url: str | None = None, sha256_prefix: str = "") -> Path:
    """The local file of this name; where it is missing and `url` is given, download it.

    A downloaded file goes to `$UNDERSTUDY_WEIGHTS`, or to the user's cache folder where that
    is not set, and is kept only if its SHA-256 begins with `sha256_prefix`.
    """
    for folder in _folders():
        if (folder / name).is_file():
            return folder / name
    if url is None:
        raise UserError(f"weights {name} were not found; put the file into ${VARIABLE}.")
    target = _folders()[0] / name
    try:
        _download(url, target, sha256_prefix)
    except (URLError, OSError) as error:
        raise UserError(
            f"weights {name} were not found and could not be downloaded ({error}); "
            f"get the file from {url} and put it into ${VARIABLE}."
        ) from error
    return target


def load_arrays(network: nn.Module, path: Path) -> None:
    """Fill a network from an npz file whose keys are the network's own."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            state = {key: torch.from_numpy(arrays[key].astype(np.float32)) for key in arrays.files}
        network.load_state_dict(state)
    except (OSError, ValueError, RuntimeError, zipfile.BadZipFile) as error:
        raise UserError(f"weights {path} do not fit: {error}") from error


def _folders() -> tuple[Path, ...]:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    chosen = os.environ.get(VARIABLE)
    return (*((Path(chosen),) if chosen else ()), cache / "understudy" / "weights")


def _download(url: str, target: Path, sha256_prefix: str) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    with urlopen(url, timeout=60) as source, replacing(target) as file:
        while piece := source.read(_PIECE):
            digest.update(piece)
            file.write(piece)
        if not digest.hexdigest().startswith(sha256_prefix):
            raise UserError(
                f"the file at {url} has SHA-256 {digest.hexdigest()}, "
                f"which does not begin with {sha256_prefix}; it was not kept."
            )
