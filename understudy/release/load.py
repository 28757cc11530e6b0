"""Reading a release back as records, with its claim."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from understudy.data.records import Records
from understudy.errors import UserError
from understudy.release import layout
from understudy.release.claim import Claim
from understudy.release.manifest import MANIFEST, listed_files
from understudy.release.parquet_tables import read_records


def load_release(folder: Path | str) -> tuple[Records, Claim]:
    """The synthetic records and what is claimed about them.

    The claim is read strictly but not recomputed: `verify` does that.
    """
    folder = Path(folder)
    try:
        claim = Claim.from_bytes((folder / layout.CLAIM).read_bytes())
    except OSError as error:
        raise UserError(f"no release at {folder}: its claim.json cannot be read.") from error
    if not (folder / MANIFEST).exists():
        raise UserError(f"no release at {folder}: it has no {MANIFEST}.")
    shards = layout.RELEASE.tables(listed_files(folder))
    try:
        return read_records(folder, shards, claim.records), claim
    except (pa.ArrowException, OSError, MemoryError) as error:
        raise UserError(f"the tables of {folder} cannot be read: {error}.") from error
