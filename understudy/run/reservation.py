"""One release, one run: who writes to a place is settled before anything is spent."""

from __future__ import annotations

import fcntl
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from understudy.durable import replace_durably
from understudy.errors import UserError
from understudy.privacy.ledger.account_book import places_folder
from understudy.run.titles import RELEASE


def check_not_taken(out: Path, run: Path, home: Path | None) -> None:
    """Refuse a place that another run, begun and not finished, will release to."""
    holder = _holder(_marker(out, home))
    if holder is None or holder == run.resolve():
        return
    if holder.is_dir() and not (holder / RELEASE).exists():
        raise UserError(
            f"the run in {holder} is to be released as {out}; go on with it by --resume, choose "
            "another -o, or delete that run's folder if it is given up."
        )


@contextmanager
def reserved(out: Path, run: Path, home: Path | None) -> Iterator[None]:
    """Take the place of a release for a run whose folder stands when the block ends.

    Of two runs that begin at once the second waits, and is refused before it has spent anything.
    A run that was stopped keeps its place for `--resume`.
    """
    marker = _marker(out, home)
    marker.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (marker.parent / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        check_not_taken(out, run, home)
        words = {"out": str(out.resolve()), "run": str(run.resolve())}
        replace_durably(marker, json.dumps(words).encode())
        yield


def give_up(out: Path, home: Path | None) -> None:
    """The run is finished: the release itself now stands in its place, or nothing will."""
    _marker(out, home).unlink(missing_ok=True)


def _marker(out: Path, home: Path | None) -> Path:
    name = hashlib.sha256(str(out.resolve()).encode()).hexdigest()[:32]
    return places_folder(home) / f"{name}.json"


def _holder(marker: Path) -> Path | None:
    """The run folder that a marker names; None where there is none that can be read."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        return Path(json.loads(marker.read_text(encoding="utf-8"))["run"])
    return None
