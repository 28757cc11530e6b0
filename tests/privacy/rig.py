"""A small rig for tests: random records behind a door, with any plan."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from understudy.data.records import Records
from understudy.data.schema import Attribute, Schema
from understudy.privacy.door import Door
from understudy.privacy.journal import Journal
from understudy.privacy.mechanisms import Mechanism
from understudy.privacy.noise import NoiseSource
from understudy.privacy.owner_log import OwnerLog
from understudy.privacy.plan import Budget, Plan
from understudy.privacy.private_records import PrivateRecords
from understudy.privacy.tape import Tape

CLASSES = ("a", "b", "c")


def records(
    count: int, seed: int = 0, units: Sequence[str] | None = None, size: int = 4
) -> Records:
    rng = np.random.default_rng(seed)
    return Records(
        rng.integers(0, 256, (count, 1, size, size), dtype=np.uint8),
        {"label": rng.integers(0, len(CLASSES), count)},
        Schema((Attribute("label", CLASSES),), label="label"),
        None if units is None else np.asarray(units),
    )


def plan(*mechanisms: Mechanism) -> Plan:
    return Plan(
        budget=Budget.empirical(),
        mechanisms=mechanisms,
        epsilon=1e9,
        accountant="none: a test",
        ident=Plan.new_ident(),
    )


def open_door(
    folder: Path, *mechanisms: Mechanism, tape: Tape | None = None, noise: NoiseSource | None = None
) -> Door:
    """A door on a new run, or on the run that `folder` already holds."""
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / "ledger.jsonl").exists():
        journal = Journal.open(folder)
    else:
        journal = Journal.create(folder, plan(*mechanisms), {})
    return Door(
        journal,
        noise or NoiseSource(),
        owner_log=OwnerLog(folder / "owner.jsonl"),
        shard_key=b"k" * 32,
        tape=tape,
    )


def handle(
    folder: Path, data: Records, *mechanisms: Mechanism, count: int | None = None
) -> PrivateRecords:
    door = open_door(folder, *mechanisms)
    return door.handles({"train": data}, {"train": len(data) if count is None else count})["train"]
