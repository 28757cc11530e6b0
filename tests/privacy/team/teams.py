"""Several processes as `torchrun` starts them, without starting interpreters."""

from __future__ import annotations

import multiprocessing
import os
import socket
from collections.abc import Callable
from typing import Any

import torch


def run_processes(size: int, work: Callable[..., Any], *words: Any) -> list[int | None]:
    """How each process ended. Forked: importing torch anew takes longer than the steps.

    As under `torchrun`, the first that fails takes the others with it; it ends with what it
    returned, if that is a number.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    fork = multiprocessing.get_context("fork")
    everyone = [
        fork.Process(target=_member, args=(rank, size, port, work, words)) for rank in range(size)
    ]
    for process in everyone:
        process.start()
    for process in everyone:
        process.join(timeout=60)
        if process.exitcode != 0:
            for other in everyone:
                other.join(timeout=5)
                other.kill()
    for process in everyone:
        process.join()
    return [process.exitcode for process in everyone]


def _member(
    rank: int, size: int, port: int, work: Callable[..., Any], words: tuple[Any, ...]
) -> None:
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(size), LOCAL_RANK=str(rank))
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    code = work(*words)
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
    if code:
        os._exit(int(code))
