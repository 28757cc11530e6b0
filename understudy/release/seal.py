"""The seal of a folder that is handed on: its manifest, and a signature where its maker has a key.

It is the last thing that is written, and the first that is checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from understudy.errors import UserError
from understudy.release.authenticity import Voucher, vouch
from understudy.release.documents import read_plain
from understudy.release.files import write_file
from understudy.release.layout import Layout
from understudy.release.manifest import (
    MANIFEST,
    SIGNATURE,
    digest_of,
    file_hashes,
    is_plain,
    listed_files,
    manifest_bytes,
    manifest_problems,
    parse_manifest,
)
from understudy.release.signing import sign
from understudy.release.transport import left_on_the_way, transport_notes


def seal(folder: Path, signing_key: Path | None) -> str:
    """Write the manifest of a folder, and a signature over it; gives the digest of all files."""
    manifest = manifest_bytes(file_hashes(folder))
    digest = digest_of(manifest)
    write_file(folder / MANIFEST, manifest)
    if signing_key is not None:
        write_file(folder / SIGNATURE, sign(digest, signing_key))
    return digest


@dataclass(frozen=True)
class Seal:
    """What can be said of a folder's files before one of them is understood.

    changed: files that are not as they were sealed; nobody should open them.
    digest: None where there is no manifest, and then nothing vouches for the folder.
    notes: on files that were left in the folder on its way.
    """

    problems: tuple[str, ...]
    hashes: Mapping[str, str]
    changed: frozenset[str]
    digest: str | None
    voucher: Voucher = field(default_factory=lambda: Voucher(False))
    notes: tuple[str, ...] = ()


def check_seal(folder: Path, layout: Layout, digest: str | None, key: Path | None) -> Seal:
    """Hold a folder's files against their layout and manifest, and that against digest and key.

    What file browsers, git or the Hub left there is noted, if no manifest lists it.
    """
    try:
        manifest, signature = read_plain(folder, MANIFEST), read_plain(folder, SIGNATURE)
    except UserError as error:
        hashes = file_hashes(folder)
        problems = [*_misfits(folder, layout, listed_files(folder)), str(error)]
        return Seal(tuple(problems), hashes, frozenset(hashes), None)
    sealed = parse_manifest(manifest or b"")
    names = listed_files(folder)
    litter = {name for name in names if name not in sealed and left_on_the_way(folder, name)}
    problems = _misfits(folder, layout, [name for name in names if name not in litter])
    notes = tuple(transport_notes(sorted(litter)))
    hashes = {n: hashed for n, hashed in file_hashes(folder).items() if n not in litter}
    if manifest is None:
        return Seal(tuple(problems), hashes, frozenset(hashes), None, notes=notes)
    wrong, changed = manifest_problems(hashes, manifest)
    found = digest_of(manifest)
    voucher = vouch(signature, found, digest, key)
    return Seal((*problems, *wrong), hashes, frozenset(changed), found, voucher, notes)


def _misfits(folder: Path, layout: Layout, names: list[str]) -> list[str]:
    problems = [*layout.gaps(names), *layout.strangers(names)]
    return problems + [f"{n} is not a plain file." for n in names if not is_plain(folder / n)]
