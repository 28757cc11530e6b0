"""The list of a release's files and their hashes, in the form that `sha256sum -c` reads."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

MANIFEST = "manifest.sha256"
SIGNATURE = "signature.json"
OUTSIDE = (MANIFEST, SIGNATURE)
"""Files that the manifest does not list: itself, and the signature over it."""

_CHUNK = 1 << 20


def hash_file(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def listed_files(folder: Path) -> list[str]:
    """Every path below a folder that is not a plain folder with something in it.

    Links and empty folders are listed too: neither belongs in a release, and the caller
    shall see them.
    """
    found = []
    for path in folder.rglob("*"):
        if path.is_dir() and not path.is_symlink() and any(path.iterdir()):
            continue
        found.append(path.relative_to(folder).as_posix())
    return sorted(found)


def file_hashes(folder: Path) -> dict[str, str]:
    """Hash by path, of every regular file that a manifest covers."""
    return {
        name: hash_file(folder / name)
        for name in listed_files(folder)
        if name not in OUTSIDE and is_plain(folder / name)
    }


def is_plain(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def manifest_bytes(hashes: Mapping[str, str]) -> bytes:
    """The one form of a manifest: sorted by path, two spaces, a newline after each."""
    return "".join(f"{hashes[name]}  {name}\n" for name in sorted(hashes)).encode("utf-8")


def parse_manifest(data: bytes) -> dict[str, str]:
    """Hash by path; lines that are not of the form are left out and so show as missing."""
    lines = data.decode("utf-8", errors="replace").splitlines()
    pairs = (line.partition("  ") for line in lines)
    return {name: digest for digest, separator, name in pairs if separator and name}


def manifest_problems(hashes: Mapping[str, str], manifest: bytes) -> tuple[list[str], set[str]]:
    """How files differ from what a manifest lists, in words, and which of them do."""
    listed = parse_manifest(manifest)
    damaged = {n for n in hashes if n in listed and listed[n] != hashes[n]}
    unlisted = hashes.keys() - listed.keys()
    problems = [f"{n} was changed: its hash is not the listed one." for n in sorted(damaged)]
    problems += [f"{n} is not in the manifest." for n in sorted(unlisted)]
    problems += [
        f"{n} is in the manifest but missing." for n in sorted(listed.keys() - hashes.keys())
    ]
    if manifest_bytes(listed) != manifest:
        problems.append(f"{MANIFEST} is not in its canonical form.")
    return problems, damaged | unlisted


def digest_of(manifest: bytes) -> str:
    """The digest of a release: of its manifest, and so of every file in it."""
    return hashlib.sha256(manifest).hexdigest()
