"""Figures that only the owner may see: losses, realised batch sizes, clip fractions.

They are computed from private records without noise, so they go to one file on the
owner's machine. Only the door writes it; methods get no path to it.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from understudy.errors import reading

if TYPE_CHECKING:
    import torch


class OwnerLog:
    """Collects rows while a block is open; they reach the file when it is committed."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._pending: list[Mapping[str, float | int | str | torch.Tensor]] = []

    def note(self, row: Mapping[str, float | int | str | torch.Tensor]) -> None:
        """A row for the block in progress. Numbers on a GPU are read when it is committed:
        reading one waits for all that was asked of the GPU before."""
        if self._path is not None:
            self._pending.append(dict(row))

    def keep(self) -> None:
        """Write what the committed block noted, once, whatever comes of it."""
        rows, self._pending = self._pending, []
        if self._path is None or not rows:
            return
        lines = [_line(row) for row in rows]
        handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(handle, "a") as file:
            file.writelines(lines)

    def drop(self) -> None:
        self._pending.clear()


def _line(row: Mapping[str, float | int | str | torch.Tensor]) -> str:
    plain = {k: v if isinstance(v, float | int | str) else v.item() for k, v in row.items()}
    return json.dumps({k: _valid(v) for k, v in plain.items()}, sort_keys=True) + "\n"


def _valid(value: float | int | str) -> float | int | str:
    """JSON has no number that is not finite, as the loss of a step that nobody joined: "nan"."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def read_owner_log(path: Path) -> Iterator[dict[str, float | int | str]]:
    if path.exists():
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            with reading(path):
                row = dict(json.loads(line))
            yield row
