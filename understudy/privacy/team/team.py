"""The processes that `torchrun` starts to fit one run, and the messages between them.

The first process broadcasts numbers, text and tensors as plain bytes; nothing is pickled. If a
process ends early, `torchrun` stops the others. The time limit for messages is long, since one
process may sample or compile for long while the others wait.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
import torch
from torch import distributed

from understudy.data.records import Records
from understudy.errors import LostConnectionError, UserError
from understudy.privacy.ledger.state import State
from understudy.privacy.sums.units import UnitIndex

_PATIENCE = timedelta(days=7)
_CPU = torch.device("cpu")


@dataclass(frozen=True)
class Team:
    """The processes that train together, and the rank of this one.

    device: where tensors must be to be sent (the GPU with nccl).
    """

    rank: int = 0
    size: int = 1
    device: torch.device = _CPU

    @staticmethod
    def join(device: torch.device) -> Team:
        """Join the processes that `torchrun` started; without it, a team of one.

        Each process gets a GPU of its own if there are enough; otherwise some share one.
        """
        if "WORLD_SIZE" not in os.environ:
            return Team(device=device)
        backend = "gloo"
        if device.type == "cuda":
            beside = int(os.environ.get("LOCAL_WORLD_SIZE", os.environ["WORLD_SIZE"]))
            here, gpus = int(os.environ.get("LOCAL_RANK", "0")), torch.cuda.device_count()
            torch.cuda.set_device(here % gpus)
            device = torch.device("cuda", here % gpus)
            backend = "nccl" if beside <= gpus else "gloo"  # nccl wants a GPU each
        if not distributed.is_initialized():
            distributed.init_process_group(backend, timeout=_PATIENCE)
        return Team(distributed.get_rank(), distributed.get_world_size(), device)

    def leave(self) -> None:
        """Leave the process group, once all work is done."""
        if self.size > 1 and distributed.is_initialized():
            distributed.destroy_process_group()

    @property
    def leads(self) -> bool:
        return self.rank == 0

    @property
    def alone(self) -> bool:
        return self.size == 1

    def shard(self, records: Records) -> Records:
        """This process's shard: exactly one process has all records of a unit."""
        index = UnitIndex(records)
        rows, _ = index.rows(np.arange(self.rank, len(index), self.size))
        return records.select(rows)

    def summed(self, values: torch.Tensor) -> torch.Tensor:
        """The sum over all processes, returned in each of them."""
        if not self.alone:
            with _connected():
                distributed.all_reduce(values)
        return values

    def from_first(self, values: torch.Tensor) -> torch.Tensor:
        """The first process's values; those of the others are overwritten."""
        if not self.alone:
            with _connected():
                distributed.broadcast(values, src=0)
        return values

    def number(self, number: int = 0) -> int:
        """The first process's number."""
        return int(self.from_first(torch.tensor(number, device=self.device)))

    def text(self, text: str = "") -> str:
        """The first process's text."""
        return self._content(text.encode()).decode()

    def tensors(self, named: dict[str, torch.Tensor] | None = None) -> dict[str, torch.Tensor]:
        """The first process's tensors, on the CPU."""
        from safetensors.torch import load, save

        if self.alone:
            return named or {}
        plain = {k: t.detach().cpu().contiguous() for k, t in (named or {}).items()}
        return load(self._content(save(plain) if self.leads else b""))

    def state(self, state: State | None = None) -> State | None:
        """The first process's state, or None where it has none."""
        if self.alone or not self.number(int(state is not None)):
            return state if self.leads else None
        found = state or State()
        tensors = self.tensors(dict(found.tensors))
        return State(tensors, json.loads(self.text(json.dumps(dict(found.values)))))

    def require_same(self, what: str, content: bytes) -> None:
        """Raise if the first process has other content."""
        mine = hashlib.sha256(content).hexdigest()
        if self.text(mine) != mine:
            raise UserError(
                f"process {self.rank} of {self.size} has other {what} than the first; start all "
                "of them with the same files and options."
            )

    def _content(self, content: bytes) -> bytes:
        if self.alone:
            return content
        length = self.number(len(content))
        if not length:
            return b""
        values = torch.zeros(length, dtype=torch.uint8)
        if self.leads:
            values = torch.frombuffer(bytearray(content), dtype=torch.uint8)
        return self.from_first(values.to(self.device)).cpu().numpy().tobytes()


@contextmanager
def _connected() -> Iterator[None]:
    """Turn a lost connection into `LostConnectionError`: the run can be resumed after one, and
    cannot after a callback's `RuntimeError`."""
    try:
        yield
    except RuntimeError as error:
        raise LostConnectionError(f"a process of the team has ended: {error}") from error
