"""A folder of evidence as it is found: every file, and whether it can be trusted.

A file is trusted when the folder's index lists its very bytes: it was checked before it was
listed, so it needs no second look. Any other is looked into, to say what became of it. Trust
covers what happened to the file after it was written; whoever can write the whole folder can
write another one. Who did not write it asks for the second look: then every claim's epsilon is
recomputed from its own file.
"""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from understudy.bench.evidence.index import SUFFIX, EvidenceIndex, Listed, sha256
from understudy.errors import UserError
from understudy.release.strict_json import parse_object

Trust = Literal["trusted", "edited", "unlisted", "wrong claim", "unreadable", "unknown format"]
_WHY: Mapping[str, str] = {
    "edited": "its seal does not fit its content",
    "unlisted": "the index does not list it in this form, though its seal fits",
}
_MOST_NAMED = 20
"""A lost index makes every file doubtful; nobody reads ten thousand names."""


@dataclass(frozen=True)
class StoredFile:
    """One file of the folder.

    kind: `run` or `measurement`; empty where the file is not evidence of this format.
    why: why it is not trusted; empty if it is.
    """

    name: str
    kind: str
    trust: Trust
    why: str
    content: bytes

    @property
    def trusted(self) -> bool:
        return self.trust == "trusted"

    @property
    def usable(self) -> bool:
        """Whether it has the form of evidence, be it trusted or not."""
        return self.kind != ""

    def parsed(self) -> dict[str, Any]:
        return parse_object(self.content, f"{self.name}{SUFFIX}")


@dataclass(frozen=True)
class Store:
    """All evidence of a folder, in the order of the index; what it does not list comes last.

    missing: names that the index lists and that are not there.
    broken: why the index itself cannot be trusted, or None.
    not_recomputed: names of trusted runs whose epsilon was to be recomputed, and that lack what
        it takes.
    """

    folder: Path
    files: tuple[StoredFile, ...]
    missing: tuple[str, ...]
    broken: str | None
    not_recomputed: tuple[str, ...] = ()

    def of_kind(self, kind: str, *, trusted_only: bool = False) -> tuple[StoredFile, ...]:
        return tuple(f for f in self.files if f.kind == kind and (f.trusted or not trusted_only))

    @property
    def untrusted(self) -> tuple[StoredFile, ...]:
        return tuple(f for f in self.files if not f.trusted)

    def warnings(self) -> list[str]:
        """What a reader must know of this folder, one sentence each."""
        found = [f"{self.broken} No file here is trusted."] if self.broken else []
        doubtful = self.untrusted
        found += [
            f"untrusted: {f.name}{SUFFIX} ({f.trust}: {f.why})" for f in doubtful[:_MOST_NAMED]
        ]
        found += _and_more("untrusted", len(doubtful))
        gone = self.missing[:_MOST_NAMED]
        found += [f"missing: {name}{SUFFIX} is in the index and gone" for name in gone]
        found += _and_more("missing", len(self.missing))
        if self.not_recomputed:
            found.append(
                f"not recomputed: {len(self.not_recomputed)} of the trusted files (format 2) hold "
                "no mechanisms"
            )
        return found


def _and_more(what: str, count: int) -> list[str]:
    return [f"{what}: {count - _MOST_NAMED} more"] if count > _MOST_NAMED else []


def read_store(folder: Path, *, recompute: bool = False) -> Store:
    """Every evidence file of a folder, with its verdict; the folder is not changed.

    recompute: look into every file, also those that the index vouches for. Guarantee: then no
        trusted file claims another epsilon than its mechanisms cost; those that hold none are
        counted in the warnings.
    """
    if not folder.is_dir():
        raise UserError(f"no evidence folder {folder}; give the folder of a suite's evidence.")
    index = EvidenceIndex(folder)
    listed, broken = _listed(index)
    contents = _read_all(folder)
    for name in listed.keys() - contents.keys():
        staged = index.staged_path(name)  # the writer died before the rename, or is about to
        if staged.exists():
            contents[name] = staged.read_bytes()
    order = [name for name in listed if name in contents]
    order += sorted(contents.keys() - listed.keys())
    files = tuple(_stored(name, contents[name], listed.get(name), recompute) for name in order)
    return Store(
        folder=folder,
        files=files,
        missing=tuple(name for name in listed if name not in contents),
        broken=broken,
        not_recomputed=_not_recomputed(files) if recompute else (),
    )


def _not_recomputed(files: Sequence[StoredFile]) -> tuple[str, ...]:
    from understudy.bench.evidence.recompute import lacks_mechanisms

    return tuple(file.name for file in files if file.trusted and lacks_mechanisms(file.parsed()))


def _listed(index: EvidenceIndex) -> tuple[dict[str, Listed], str | None]:
    try:
        return index.listed(), None
    except UserError as error:
        return {}, str(error)


def _read_all(folder: Path) -> dict[str, bytes]:
    return {
        entry.name.removesuffix(SUFFIX): _bytes(entry.path)
        for entry in os.scandir(folder)
        if entry.name.endswith(SUFFIX) and not entry.name.startswith(".") and entry.is_file()
    }


def _bytes(path: str) -> bytes:
    """What a file holds; nothing where it cannot be read, which then shows as unreadable."""
    try:
        with io.FileIO(path) as file:
            return file.readall()
    except OSError:
        return b""


def _stored(name: str, content: bytes, listed: Listed | None, recompute: bool) -> StoredFile:
    vouched = listed is not None and sha256(content) == listed.sha256
    if listed is not None and vouched and not recompute:
        return StoredFile(name, listed.kind, "trusted", "", content)
    return _looked_into(name, content, vouched)


def _looked_into(name: str, content: bytes, vouched: bool) -> StoredFile:
    """What a file is; `vouched`: whether the index lists these very bytes."""
    from understudy.bench.evidence.evidence import FORMAT, READABLE, check_content
    from understudy.bench.evidence.recompute import claim_problem
    from understudy.bench.evidence.seal import seal_holds

    where = f"{name}{SUFFIX}"
    try:
        data = parse_object(content, where)
        if data.get("format") not in READABLE:
            why = f"format {data.get('format')!r}, where {FORMAT!r} is known"
            return StoredFile(name, "", "unknown format", why, content)
        check_content(data, where)
    except UserError as error:
        return StoredFile(name, "", "unreadable", str(error).rstrip("."), content)
    problem = claim_problem(data)
    if problem is not None:
        return StoredFile(name, data["kind"], "wrong claim", problem.rstrip("."), content)
    trust: Trust = "edited" if not seal_holds(data) else "trusted" if vouched else "unlisted"
    return StoredFile(name, data["kind"], trust, _WHY.get(trust, ""), content)
