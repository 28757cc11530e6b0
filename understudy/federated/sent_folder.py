"""A contribution as a folder: one list of what is in it, one file of arrays."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load as arrays_from_bytes
from safetensors.numpy import save as arrays_to_bytes

from understudy.data.records import Array
from understudy.errors import UserError, reading
from understudy.federated.agreement import Agreement
from understudy.federated.contribution import Contribution
from understudy.release.files import new_folder, write_file
from understudy.release.strict_json import canonical_bytes, parse_object, readable_bytes

STATEMENT, ARRAYS = "statement.json", "sent.safetensors"
_LARGEST = 4 << 30


def write_contribution(folder: Path, contribution: Contribution) -> str:
    """Write the folder, whole or not at all; gives its digest. It holds two files, no more."""
    statement, arrays = contribution.statement(), contribution.arrays()
    digest = digest_of(statement, arrays)
    with new_folder(folder) as partial:
        write_file(partial / ARRAYS, arrays_to_bytes(arrays))
        listed = [
            {"name": name, "type": str(value.dtype), "shape": list(value.shape)}
            for name, value in sorted(arrays.items())
        ]
        whole = {"statement": statement, "arrays": listed, "digest": digest}
        write_file(partial / STATEMENT, readable_bytes(whole))
    return digest


def read_contribution(folder: Path, agreement: Agreement) -> Contribution:
    """The contribution in a folder that a stranger made; refused in one sentence.

    The digest shows damage and careless edits. Whoever changes arrays and digest together is not
    seen: the sender's hand would need a signature.
    """
    if not folder.exists():
        raise UserError("it does not exist.")
    names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    if names != sorted((STATEMENT, ARRAYS)):
        raise UserError(f"it is no folder with {STATEMENT} and {ARRAYS} alone.")
    whole = parse_object(_bytes(folder / STATEMENT), STATEMENT)
    with reading(folder / ARRAYS):
        arrays = dict(arrays_from_bytes(_bytes(folder / ARRAYS)))
    if set(whole) != {"statement", "arrays", "digest"} or not isinstance(whole["statement"], dict):
        raise UserError(f"{STATEMENT} does not have the agreed form.")
    if digest_of(whole["statement"], arrays) != whole["digest"]:
        raise UserError("it was changed after it was written.")
    return agreement.check(whole["statement"], arrays)


def digest_of(statement: Mapping[str, Any], arrays: Mapping[str, Array]) -> str:
    """sha256 over the statement and every array, with lengths in front of all that varies."""
    total = hashlib.sha256()
    pieces = [canonical_bytes(statement)]
    for name in sorted(arrays):
        value = np.ascontiguousarray(arrays[name])
        pieces += [f"{name} {value.dtype} {list(value.shape)}".encode(), value.tobytes()]
    for piece in pieces:
        total.update(len(piece).to_bytes(8, "big") + piece)
    return total.hexdigest()


def _bytes(path: Path) -> bytes:
    if path.is_symlink() or not path.is_file() or path.stat().st_size > _LARGEST:
        raise UserError(f"{path.name} is no plain file of at most {_LARGEST >> 30} GB.")
    return path.read_bytes()
