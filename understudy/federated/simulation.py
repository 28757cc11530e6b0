"""Many devices on one machine, through Flower's simulation: the same apps, real processes."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from flwr.app import Context

from understudy.encoders.encoder import Encoder
from understudy.errors import UserError
from understudy.federated.agreement import Agreement
from understudy.federated.client import Device, client_app
from understudy.federated.merging import Merged
from understudy.federated.server import server_app

_QUIET = {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"}
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
_OBJECT_STORE_BYTES = 256 << 20


def partition_of(context: Context) -> int:
    """Which of the simulated users a device is."""
    return int(context.node_config["partition-id"])


def simulate(
    encoder: Encoder,
    agreement: Agreement,
    device_of: Callable[[Context], Device],
    out: Path,
    *,
    users: int,
    processes: int = 2,
    patience_s: float = 600.0,
) -> Merged:
    """Run `users` devices in `processes` worker processes and write their collection to `out`.

    device_of: runs in the workers; it must be able to travel there, and gives a device its records.
    Nothing is reported to the makers of Flower or Ray. A `UserError` says who declined where
    nobody sent anything.
    """
    if processes < 2:
        raise UserError(f"processes must be at least 2, not {processes}: users are apart.")
    os.environ.update(_QUIET)
    for name in _THREADS:
        os.environ.setdefault(name, "1")
    from flwr.simulation import run_simulation

    found: list[Merged] = []
    run_simulation(
        server_app(encoder, agreement, out, users=users, patience_s=patience_s, told=found.append),
        client_app(device_of),
        users,
        backend_config={
            "init_args": {
                "num_cpus": processes,
                "object_store_memory": _OBJECT_STORE_BYTES,
                "log_to_driver": False,
            },
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
        },
    )
    if not found:
        raise UserError("the simulation ended without a collection; see what Flower printed.")
    return found[0]
