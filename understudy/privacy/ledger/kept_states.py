"""States that a method leaves between releases, where no block is open that could hold them.

A release's block is committed with its output before the method sees it, so what the method makes
of the output is kept afterwards, in a folder of its own that is renamed once.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from understudy.durable import sync_folder, write_durably
from understudy.errors import PrivacyError
from understudy.privacy.ledger.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from understudy.privacy.ledger.entries import Entry


@dataclass(frozen=True)
class KeptState:
    """A kept state and the place in the ledger after which it was taken."""

    folder: Path
    after: int

    def load(self) -> Checkpoint:
        return load_checkpoint(self.folder)


class KeptStates:
    """The folders of these states, beside those of the blocks; they cost nothing."""

    def __init__(self, room: Path) -> None:
        self._room = room

    def keep(self, checkpoint: Checkpoint, last: Entry) -> None:
        """Keep a state that was taken after the ledger's last entry; on the disk on return.

        Guarantee: whole or not there at all, whenever the process dies; older ones go only
        when it is there.
        """
        older = self._folders()
        number = _number(older[-1]) + 1 if older else 0
        pending = self._room / ".pending-state"
        shutil.rmtree(pending, ignore_errors=True)
        pending.mkdir()
        save_checkpoint(pending, checkpoint)
        place = {"after": last.index, "hash": last.hash}
        write_durably(pending / "place.json", json.dumps(place).encode())
        sync_folder(pending)
        pending.rename(self._room / f"state-{number:06d}")
        sync_folder(self._room)
        _remove_all(older)

    def newest(self, entries: Sequence[Entry]) -> KeptState | None:
        """The state taken last; one of another ledger is refused."""
        folders = self._folders()
        if not folders:
            return None
        try:
            place = json.loads((folders[-1] / "place.json").read_text())
            told = entries[int(place["after"])].hash == place["hash"]
        except (OSError, ValueError, KeyError, TypeError, IndexError):
            told = False
        if not told:
            raise PrivacyError(
                f"{folders[-1].name} does not belong to this ledger; restore the run folder."
            )
        return KeptState(folders[-1], int(place["after"]))

    def clear(self) -> None:
        """A block holds a newer state."""
        _remove_all(self._folders())

    def _folders(self) -> list[Path]:
        return sorted(self._room.glob("state-*"), key=_number)


def _number(folder: Path) -> int:
    return int(folder.name.removeprefix("state-"))


def _remove_all(folders: Sequence[Path]) -> None:
    """Each by a rename first: half a folder would look like a state of another ledger."""
    for folder in folders:
        gone = folder.with_name(".pending-removal")
        shutil.rmtree(gone, ignore_errors=True)
        folder.rename(gone)
        shutil.rmtree(gone)
