"""Which commit a measurement is of that was made on a copy of the files, without git.

The measurement keeps a digest of the code that ran. Where git is, evidence is written only if
the files of a commit, or those of the checkout as it stands, have the same digest.
"""

from __future__ import annotations

import hashlib
import io
import subprocess
import tarfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from measure import REPOSITORY

from understudy.bench.evidence.provenance import UNKNOWN, Provenance
from understudy.errors import UserError

FOLDERS = ("understudy", "benchmarks")


def tree_digest(root: Path = REPOSITORY) -> str:
    """Of every Python file of the package and of the benchmarks, as they lie there."""
    paths = (path for folder in FOLDERS for path in (root / folder).rglob("*.py"))
    return _digest({str(path.relative_to(root)): path.read_bytes() for path in paths})


def commit_digest(commit: str, repository: Path = REPOSITORY) -> str:
    """The same of a commit's files, whatever lies in the checkout."""
    content = _git(repository, "archive", "--format=tar", commit, *FOLDERS)
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        files = [member for member in archive if member.name.endswith(".py")]
        return _digest({f.name: _bytes(archive, f) for f in files})


def at_home(
    told: Mapping[str, Any], code: str, commit: str = "HEAD", repository: Path = REPOSITORY
) -> Provenance:
    """The provenance that a measurement told, with the commit whose code it ran.

    told: versions and hardware of the other machine, as `Provenance.to_json` has them.
    """
    there, here = Provenance.from_json(told), Provenance.read(repository)
    if here.commit != UNKNOWN and code == commit_digest(commit, repository):
        name = _git(repository, "rev-parse", commit).decode().strip()
        return replace(there, commit=name, dirty=False)
    if code == tree_digest(repository):
        return replace(there, commit=here.commit, dirty=here.dirty)
    raise UserError(
        f"the measurement ran other code than {commit} holds, and other than lies here; name the "
        "commit whose files were copied with --commit."
    )


def _bytes(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member)
    return b"" if file is None else file.read()


def _digest(files: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256()
    for name in sorted(files):
        digest.update(f"{name}\0{len(files[name])}\0".encode() + files[name])
    return digest.hexdigest()


def _git(repository: Path, *words: str) -> bytes:
    done = subprocess.run(["git", "-C", str(repository), *words], capture_output=True, check=False)
    if done.returncode:
        raise UserError(f"git {' '.join(words)} failed: {done.stderr.decode().strip()}")
    return done.stdout
