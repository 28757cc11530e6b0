"""Which version of its data a cell is about.

A dataset that is declared public has a content hash, which may stand in keys and evidence.
Of an owner's data not even a hash may: the workspace keeps a stamp of it, readable by its
owner alone, and gives every content that it has seen a random word. Keys are salted with
that word, so that changed data begins anew, and nothing of the data can be told from them.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from understudy.bench.work.phase_keys import Keys
from understudy.data.catalog import DATA_VARIABLE, Entry, catalog
from understudy.durable import OWNER_ONLY, replace_durably
from understudy.errors import home_expanded
from understudy.privacy.ledger.entries import canonical_json

FILE = "sources.json"


@dataclass(frozen=True)
class Source:
    """A dataset as cells depend on it.

    hash: of its content, if it is declared public. word: of this version of it, if not.
    """

    public: bool
    hash: str | None = None
    word: str | None = None

    def salted(self, keys: Keys) -> Keys:
        """Keys that are this version's own."""
        if self.word is None:
            return keys
        salt = self.word.encode()
        return Keys(*(hashlib.sha256(salt + key.encode()).hexdigest() for key in _in_order(keys)))


class SourceVersions:
    """What a workspace knows of the data that its cells use."""

    def __init__(self, work: Path) -> None:
        self._path = work / FILE
        self._found: dict[str, Source] = {}

    def of(self, dataset: str) -> Source:
        """The present version of what `understudy.data.load` would read; looked at once."""
        if dataset not in self._found:
            entry = catalog().get(dataset)
            if entry is None or not entry.public:
                found = Source(False, word=self._version(dataset)[1])
            else:
                found = Source(True, hash=public_hash(entry) or self._version(dataset)[0])
            self._found[dataset] = found
        return self._found[dataset]

    def _version(self, dataset: str) -> tuple[str | None, str | None]:
        """The content hash of its files, which is the owner's, and the random word for it.

        Nothing for what is not there: the run will say so.
        """
        place = _place(dataset)
        if place is None:
            return None, None
        with self._locked() as known:
            kept = known.setdefault(str(place), {"look": None, "words": {}})
            look = _look(place)
            if look != kept["look"]:
                # Files that were only touched are the same data; to fit again would spend.
                kept["content"] = _content(place)
                kept["look"] = look
            content: str = kept["content"]
            word: str = kept["words"].setdefault(content, secrets.token_hex(8))
        return content, word

    @contextmanager
    def _locked(self) -> Iterator[dict[str, Any]]:
        """What is known, for changing; one process at a time."""
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(self._path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            before = self._path.read_text() if self._path.exists() else "{}"
            known: dict[str, Any] = json.loads(before)
            yield known
            after = json.dumps(known, indent=1, sort_keys=True)
            if after != before:
                replace_durably(self._path, after.encode(), OWNER_ONLY)
        finally:
            os.close(lock)


def public_hash(entry: Entry) -> str | None:
    """The content hash of a public dataset, without looking at its files.

    Published digests are checked whenever raw files are loaded, so they stand for them; what
    is built in is made by code, and the code stands for it. None where neither is known: the
    files then speak for themselves.
    """
    facts = {name: asdict(part) for name, part in entry.parts.items()}
    if all(part["pixels"] and part["labels"] for part in facts.values()):
        return _hash({"name": entry.name, "parts": facts})
    if entry.kind == "built-in":
        return _hash({"name": entry.name, "code": _code_of(entry.name)})
    return None


def _code_of(name: str) -> dict[str, str]:
    """Digests of the files that make a built-in dataset."""
    room = Path(str(files("understudy.data")))
    own = [room / f"{name}.py", room / f"{name}.yaml", *sorted((room / "drawing").glob("*.py"))]
    shared = [room / "splits.py", room / "stratify.py"]
    made_by = [room / f"{name}.py", *shared] if name == "digits" else own
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in made_by if p.is_file()}


def _place(dataset: str) -> Path | None:
    """Where the files lie that loading would read; what comes by a name alone has no place."""
    if dataset in catalog():
        root = os.environ.get(DATA_VARIABLE)
        if not root:
            return None  # whatever lies beside us under that name is another's
        path = Path(root) / dataset
    else:
        path = home_expanded(dataset)
    return path.resolve() if path.exists() else None


def _files(place: Path) -> Iterator[tuple[str, Path]]:
    if place.is_file():
        yield place.name, place
        return
    for path in sorted(place.rglob("*")):
        if path.is_file():
            yield str(path.relative_to(place)), path


def _look(place: Path) -> str:
    """A cheap stamp: names, sizes and times of change."""
    rows = []
    for name, path in _files(place):
        status = path.stat()
        rows.append([name, status.st_size, status.st_mtime_ns])
    return _hash(rows)


def _content(place: Path) -> str:
    rows = []
    for name, path in _files(place):
        with path.open("rb") as file:
            rows.append([name, hashlib.file_digest(file, "sha256").hexdigest()])
    return _hash(rows)


def _hash(value: Mapping[str, Any] | list[Any]) -> str:
    return hashlib.sha256(canonical_json(value)).hexdigest()


def _in_order(keys: Keys) -> tuple[str, str, str]:
    return keys.fit, keys.sample, keys.evaluate
