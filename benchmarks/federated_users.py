"""Many users with random choices, each training a filter of their own, through Flower.

    python benchmarks/federated_users.py [--users 200] [--processes 2]

Every user holds 400 portraits at 32x32 (built in, no real person); the encoder is taught on their
test part, which no user holds. Every user hides one or two attributes at random, keeps one
or two others, and takes a random constraint; one in 20 sends through the Gaussian mechanism, one in
50 drops out and one in 50 sends garbage. Promised for 200 users: under 10 minutes, under 6 GB for
all processes together (their proportional shares, looked at twice a second).
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from measure import EVIDENCE, REPOSITORY

from understudy.bench.evidence.evidence import Provenance as Origin
from understudy.bench.evidence.evidence import write_measurement
from understudy.data.load import load
from understudy.data.records import Records
from understudy.data.schema import Schema
from understudy.encoders.encoder import Encoder
from understudy.encoders.provenance import Provenance
from understudy.federated.agreement import Agreement
from understudy.federated.client import Device
from understudy.federated.collection_check import verify_any
from understudy.federated.contribution import Contribution
from understudy.federated.simulation import partition_of, simulate
from understudy.federated.user import User
from understudy.filters.choice import Choice
from understudy.filters.distortion import Distortion
from understudy.methods.vae import DenseVAE
from understudy.privacy.ledger.account_book import Book
from understudy.privacy.local.channel import LocalChannel
from understudy.progress import Progress, Silent

SEED, SIDE, EACH = 0, 32, 400
BUDGETS = {"kl": 3.0, "reverse-kl": 1.0, "chi-square": 3.0, "l2": 3.0}
LOCAL_EVERY, SILENT_EVERY, GARBAGE_EVERY = 20, 50, 50


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=200)
    parser.add_argument("--processes", type=int, default=2)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    origin = Origin.read(REPOSITORY)
    data = load("portraits", size=SIDE, channels=1)
    encoder = taught(data.part("test"))
    with tempfile.TemporaryDirectory() as place:
        shares = dealt(data.part("train"), asked.users)
        result, seconds, peak = measured(encoder, shares, asked.processes, Path(place) / "out")
    print(f"{asked.users} users: {seconds:.0f} s, peak {peak:.2f} GB; {result}")
    write_measurement(
        EVIDENCE,
        "federated_users",
        provenance=origin,
        command=f"python benchmarks/federated_users.py --users {asked.users}",
        config={"users": asked.users, "processes": asked.processes, "side": SIDE, "each": EACH},
        seeds=[SEED],
        seconds={"simulation": seconds},
        peak_gigabytes=peak,
        result=result,
    )


def taught(records: Records) -> Encoder:
    method = DenseVAE()
    config = replace(method.Config(), latent=16, epochs=8)
    origin = Provenance("portraits, drawn by Understudy", "public", 0.0)
    return method.learn_openly(config, records, origin, SEED, torch.device("cpu"), Silent())


def dealt(records: Records, users: int) -> list[Records]:
    """A random sample for each user; the same portrait may go to several."""
    found = []
    for number in range(users):
        random = np.random.default_rng((SEED, 1, number))
        found.append(records.select(np.sort(random.choice(len(records), EACH, replace=False))))
    return found


class Vandal(User):
    """A user who sends numbers that are none, under a statement that looks right."""

    def contribute(
        self, encoder: Encoder, agreement: Agreement, progress: Progress | None = None
    ) -> Contribution:
        del progress
        nothing = np.full((len(self.records), encoder.latent), np.nan, np.float32)
        return Contribution(agreement.encoder, agreement.content, Records(nothing, {}, Schema(())))


def wishes(number: int, mine: Records, radius: float, home: Path) -> User:
    random = np.random.default_rng((SEED, number))
    names = list(random.permutation(mine.schema.names))
    if number % LOCAL_EVERY == LOCAL_EVERY - 1:
        channel = LocalChannel(radius, 8.0, 1e-5, {str(names[0]): 2.0})
        return User(mine, None, channel=channel, book=Book.open(f"user {number}", home))
    hidden = int(random.integers(1, 3))
    kept = int(random.integers(1, 3))
    kind = str(random.choice(list(BUDGETS)))
    choice = Choice(tuple(map(str, names[:hidden])), tuple(map(str, names[hidden : hidden + kept])))
    return User(mine, choice, Distortion(kind, BUDGETS[kind]), seed=number)


def measured(
    encoder: Encoder, shares: list[Records], processes: int, out: Path
) -> tuple[dict[str, float], float, float]:
    """Each share lies in a file of its own, as on a device, and only its user's worker reads it."""
    radius, folder = encoder.radius, out.parent / "shares"
    folder.mkdir()
    for number, share in enumerate(shares):
        np.savez(folder / f"{number}.npz", features=share.features, **share.attributes)
    schema = shares[0].schema

    def device_of(context: object) -> Device:
        number = partition_of(context)  # type: ignore[arg-type]
        torch.set_num_threads(1)
        if number % SILENT_EVERY == SILENT_EVERY - 2:
            raise RuntimeError("this device drops out")
        with np.load(folder / f"{number}.npz", allow_pickle=False) as file:
            columns = {name: file[name] for name in schema.names}
            features = file["features"]
        mine = Records(features, columns, schema)
        if number % GARBAGE_EVERY == GARBAGE_EVERY - 3:
            return Device(encoder, Vandal(mine, None))
        return Device(encoder, wishes(number, mine, radius, out.parent / "home"))

    with Watch() as watch:
        start = time.perf_counter()
        merged = simulate(
            encoder,
            Agreement.of(encoder),
            device_of,
            out,
            users=len(shares),
            processes=processes,
            patience_s=1200.0,
        )
        seconds = time.perf_counter() - start
    found = {
        "users_taken": merged.users,
        "users_declined": sum("declined" in one.reason for one in merged.left_out),
        "users_sent_garbage": sum("declined" not in one.reason for one in merged.left_out),
        "records": len(merged),
        "verified": float(verify_any(out).ok),
        "megabytes_sent": round(merged.features.nbytes / 1e6, 2),
    }
    return found, round(seconds, 1), round(watch.most / 2**30, 3)


class Watch:
    """The most memory that this process and all below it hold at once."""

    def __init__(self) -> None:
        self.most = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._stop.wait(0.5):
            self.most = max(self.most, sum(map(_share, _family(os.getpid()))))


def _family(root: int) -> set[int]:
    parents = {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(place.name)] = int(
                (place / "stat").read_text().rpartition(")")[2].split()[1]
            )
        except (OSError, ValueError, IndexError):
            continue
    found = {root}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def _share(process: int) -> int:
    """Proportional set size in bytes: memory that several share is divided among them."""
    try:
        text = Path(f"/proc/{process}/smaps_rollup").read_text()
    except OSError:
        return 0
    line = next((one for one in text.splitlines() if one.startswith("Pss:")), "Pss: 0 kB")
    return int(line.split()[1]) * 1024


if __name__ == "__main__":
    main()
