"""The run folder: where everything about one run lies, on the owner's side."""

from __future__ import annotations

import json
import math
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from understudy.data.record_arrays import arrays_of, read_arrays
from understudy.data.records import Records
from understudy.data.schema import Schema
from understudy.durable import replace_durably, sync_folder, sync_tree
from understudy.errors import UserError, reading
from understudy.privacy.plan.plan import Plan


@dataclass(frozen=True)
class RunFolder:
    """Paths of a run, and the few files that hold plain JSON."""

    path: Path

    @property
    def ledger(self) -> Path:
        return self.path / "ledger.jsonl"

    @property
    def owner_log(self) -> Path:
        return self.path / "owner.jsonl"

    @property
    def synthesizer(self) -> Path:
        return self.path / "synthesizer"

    @property
    def samples(self) -> Path:
        return self.path / "samples"

    @property
    def sheet(self) -> Path:
        return self.path / "contact-sheet.png"

    @property
    def metrics(self) -> Path:
        return self.path / "metrics.json"

    def write_plan(self, plan: Plan, run: Mapping[str, Any]) -> None:
        self.write_json("plan.json", {"plan": plan.to_json(), "run": dict(run)})

    def read_plan(self) -> tuple[Plan, dict[str, Any]]:
        data = self.read_json("plan.json")
        with reading(self.path / "plan.json"):
            return Plan.from_json(data["plan"]), dict(data["run"])

    def add_time(self, phase: str, seconds: float) -> None:
        """Add to the owner's record of how long each phase took, over all resumes."""
        times = self.times()
        self.write_json("times.json", {**times, phase: times.get(phase, 0.0) + seconds})

    def times(self) -> dict[str, float]:
        if not (self.path / "times.json").exists():
            return {}
        found = self.read_json("times.json")
        with reading(self.path / "times.json"):
            times = {phase: float(seconds) for phase, seconds in found.items()}
            if not all(0 <= seconds < math.inf for seconds in times.values()):
                raise ValueError("a time is not a number of seconds")
            return times

    @contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """Note how long a phase took; failing to note it must not hide why the phase failed."""
        start = time.monotonic()
        try:
            yield
        except BaseException:
            with suppress(OSError):
                self.add_time(phase, time.monotonic() - start)
            raise
        self.add_time(phase, time.monotonic() - start)

    def write_json(self, name: str, value: Any) -> None:
        content = json.dumps(value, indent=1, sort_keys=True).encode()
        replace_durably(self.path / name, content)

    def read_json(self, name: str) -> dict[str, Any]:
        with reading(self.path / name):
            data = json.loads((self.path / name).read_text(encoding="utf-8"))
        if not isinstance(data, dict):
            raise UserError(f"{self.path / name} must hold one JSON object; restore it.")
        return data

    def write_whole(self, target: Path, write: Callable[[Path], None]) -> None:
        """Fill a folder under another name and rename it once it is complete."""
        new = target.with_name(f".{target.name}.new")
        for leftover in (new, target):
            if leftover.exists():
                shutil.rmtree(leftover)
        new.mkdir()
        write(new)
        sync_tree(new)
        new.rename(target)
        sync_folder(self.path)

    def save_samples(self, records: Records) -> None:
        def write(folder: Path) -> None:
            np.savez(folder / "samples.npz", **arrays_of(records))  # type: ignore[arg-type]
            (folder / "schema.json").write_text(json.dumps(records.schema.to_json()))

        self.write_whole(self.samples, write)

    def load_samples(self) -> Records:
        if not self.samples.exists():
            raise UserError(
                f"{self.path} holds no samples; finish it with --resume, or, if a callback failed "
                "in it, start a new run."
            )
        with reading(self.samples / "schema.json"):
            text = (self.samples / "schema.json").read_text(encoding="utf-8")
            schema = Schema.from_json(json.loads(text))
        path = self.samples / "samples.npz"
        with reading(path):
            return read_arrays(path, schema)


def create_run_folder(path: Path, fill: Callable[[RunFolder], None]) -> RunFolder:
    """A new run folder that only its owner can read, whole or not at all."""
    if path.exists():
        raise UserError(
            f"the run folder {path} exists already; add --resume to go on with it, "
            "or choose another name with --name."
        )
    new = path.with_name(f".{path.name}.new")
    if new.exists():
        shutil.rmtree(new)
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        new.mkdir(mode=0o700)
        fill(RunFolder(new))
        new.rename(path)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    sync_folder(path.parent)
    return RunFolder(path)
