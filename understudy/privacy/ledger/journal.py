"""The journal: a ledger together with the state that each block of work leaves behind.

A block is *reserved* in the ledger before its noise is drawn. When it is *committed*,
the door's outputs, the method's state and the commit entry form one folder that is
renamed once; the ledger line is then copied from it. So at any instant either the whole
block is kept and charged, or nothing of it is kept: a block whose process died is
recorded as *void* and run again with fresh noise. Between blocks a method's state is
kept by itself (`keep`).
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from understudy.durable import sync_folder, write_durably
from understudy.errors import PrivacyError, UserError
from understudy.privacy.ledger.checkpoint import (
    Checkpoint,
    has_checkpoint,
    load_checkpoint,
    remove_checkpoint,
    save_checkpoint,
)
from understudy.privacy.ledger.entries import Entry
from understudy.privacy.ledger.kept_states import KeptStates
from understudy.privacy.ledger.ledger import Ledger
from understudy.privacy.ledger.state import State, load_state, save_state
from understudy.privacy.ledger.story import spent_uses
from understudy.privacy.plan.plan import Plan

_FAILED = "failed"


class Journal:
    """One run's ledger and block folders, held by one process."""

    def __init__(self, folder: Path, ledger: Ledger, lock: int) -> None:
        self._folder = folder
        self._ledger = ledger
        self._lock = lock
        self._states = KeptStates(folder / "checkpoints")

    @classmethod
    def create(cls, folder: Path, plan: Plan, run: Mapping[str, Any]) -> Journal:
        """Begin a run in `folder`; the plan becomes the ledger's first line."""
        with _locked(folder) as lock:
            _make_rooms(folder)
            if any((folder / "checkpoints").iterdir()):
                raise PrivacyError(
                    f"{folder / 'checkpoints'} holds blocks of another run; use a new folder."
                )
            return cls(folder, Ledger.create(folder / "ledger.jsonl", plan, run), lock)

    @classmethod
    def open(cls, folder: Path) -> Journal:
        """Go on with a run, first settling what a dead process left: commit or void.

        Guarantee: a run in which a callback failed on private records is never gone on with.
        """
        with _locked(folder) as lock:
            ledger = Ledger.open(folder / "ledger.jsonl")
            if ledger.failed or (folder / _FAILED).exists():
                raise PrivacyError(
                    f"the run in {folder} is over: a callback failed on private records, so it is "
                    "never resumed or released; mend the method and start a new run."
                )
            journal = cls(folder, ledger, lock)
            _make_rooms(folder)
            journal._recover()
            return journal

    @property
    def ledger(self) -> Ledger:
        return self._ledger

    @property
    def plan(self) -> Plan:
        return self._ledger.plan

    @property
    def scratch(self) -> Path:
        return self._folder / "scratch"

    @property
    def left_to_recovery(self) -> bool:
        """Whether a commit was cut short so late that only opening the journal again, in
        a new process, can settle it."""
        reserve = self._ledger.open_block
        return self._ledger.in_doubt or (reserve is not None and self._kept(reserve).exists())

    def spent(self, mechanism: str) -> int:
        return spent_uses(self._ledger.entries).get(mechanism, 0)

    def reserve(self, mechanism: str, uses: int) -> None:
        self._ledger.reserve(mechanism, uses)

    def commit(self, uses: int, outputs: State | None, checkpoint: Checkpoint | None) -> None:
        """Keep the open block: `outputs` are releases to give back after a restart."""
        entry = self._ledger.commit_entry(uses)
        self._ledger.check(entry)
        pending = self._pending(entry)
        _remove(pending)
        pending.mkdir(parents=True)
        if outputs is not None:
            save_state(pending, "outputs", outputs)
        if checkpoint is not None:
            save_checkpoint(pending, checkpoint)
        write_durably(pending / "commit.json", entry.line())
        sync_folder(pending)
        pending.rename(self._kept(entry))
        sync_folder(pending.parent)
        self._ledger.append(entry)
        if checkpoint is not None:
            self._prune(entry)
            self._states.clear()

    def keep(self, checkpoint: Checkpoint) -> None:
        """Keep a state that was taken between blocks: it costs nothing and the ledger is silent.

        Guarantee: on the disk on return, whole; before that the state it replaces is.
        """
        if self._ledger.open_block is not None:
            raise PrivacyError("a block is still open; its state is committed with it.")
        self._states.keep(checkpoint, self._ledger.entries[-1])
        self._prune(None)

    def void(self) -> None:
        """Give up the open block, of which nothing was shown; what it wrote is deleted."""
        _remove(self.scratch)
        self.scratch.mkdir()
        self._ledger.void()

    def fail(self) -> None:
        """A callback failed. A rename needs no room: it ends the run on a full disk too."""
        self.scratch.rename(self._folder / _FAILED)
        sync_folder(self._folder)
        self._ledger.fail()

    def close(self) -> None:
        """The run is complete: nothing more may be done under this plan."""
        if not self._ledger.closed:
            self._ledger.close()

    def release_lock(self) -> None:
        os.close(self._lock)

    def output(self, mechanism: str, index: int) -> State | None:
        """The committed release number `index` of one mechanism, if there is one."""
        kept = self._outputs(mechanism)
        return load_state(kept[index], "outputs") if index < len(kept) else None

    def outputs_kept(self, mechanism: str) -> int:
        """How many releases of one mechanism are committed."""
        return len(self._outputs(mechanism))

    def checkpoint(self) -> Checkpoint | None:
        """What was kept last: with a block, or between blocks."""
        kept, block = self._states.newest(self._ledger.entries), self._newest_in_a_block()
        if kept is not None and (block is None or kept.after >= block.index):
            return kept.load()
        return None if block is None else load_checkpoint(self._kept(block))

    def _newest_in_a_block(self) -> Entry | None:
        for entry in reversed(self._ledger.entries):
            if entry.kind == "commit" and has_checkpoint(self._kept(entry)):
                return entry
        return None

    def _recover(self) -> None:
        reserve = self._ledger.open_block
        if reserve is not None:
            kept = self._kept(reserve)
            if kept.exists():
                self._ledger.append(_read_commit(kept, self._ledger))
            else:
                self.void()
        checkpoints = self._folder / "checkpoints"
        for leftover in (*checkpoints.glob(".pending-*"), *self._folder.glob(".*.new")):
            _remove(leftover)

    def _outputs(self, mechanism: str) -> list[Path]:
        """Blocks of this mechanism that hold a release; blocks of steps hold none."""
        return [
            self._kept(entry)
            for entry in self._ledger.entries
            if entry.kind == "commit"
            and entry.body["mechanism"] == mechanism
            and (self._kept(entry) / "outputs.json").exists()
        ]

    def _prune(self, newest: Entry | None) -> None:
        """Delete the states in blocks that a newer one replaces; releases stay."""
        for entry in self._ledger.entries:
            if entry.kind == "commit" and entry != newest:
                remove_checkpoint(self._kept(entry))

    def _kept(self, entry: Entry) -> Path:
        return self._folder / "checkpoints" / f"block-{entry.body['block']:06d}"

    def _pending(self, entry: Entry) -> Path:
        return self._folder / "checkpoints" / f".pending-{entry.body['block']:06d}"


def _read_commit(kept: Path, ledger: Ledger) -> Entry:
    foreign = f"{kept.name} does not belong to this ledger; restore the run folder."
    try:
        data = json.loads((kept / "commit.json").read_text())
        entry = ledger.commit_entry(data["body"]["uses"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise PrivacyError(foreign) from error
    if entry.hash != data["hash"]:
        raise PrivacyError(foreign)
    return entry


def _make_rooms(folder: Path) -> None:
    for room in ("checkpoints", "scratch"):
        (folder / room).mkdir(exist_ok=True)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def _locked(folder: Path) -> Iterator[int]:
    """Only one process may work in a run folder; the lock dies with it.

    What happens inside keeps the lock if it succeeds and gives it back if it raises.
    """
    try:
        handle = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise UserError(f"cannot work in the run folder {folder}: {error.strerror}.") from error
    done = False
    try:
        _take(handle, folder)
        yield handle
        done = True
    finally:
        if not done:
            os.close(handle)


def _take(handle: int, folder: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise UserError(
            f"another process is working in {folder}; wait for it or stop it."
        ) from error
