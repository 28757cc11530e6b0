"""The contact sheet of a release: a picture of what its tables hold, and nothing else."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from understudy.data.contact_sheet import contact_sheet, rows_of, to_png
from understudy.data.records import Array
from understudy.release.claim import RecordsSummary
from understudy.release.layout import SHEET
from understudy.release.parquet_tables import record_batches
from understudy.release.png import decode_png, png_problem


def sheet_png(folder: Path, shards: list[str], summary: RecordsSummary) -> bytes:
    """The sheet of the released tables.

    Guarantee: a function of the released records, which are synthetic; nothing else is at hand.
    """
    return to_png(_drawn(folder, shards, summary))


def sheet_problems(
    data: bytes, folder: Path, shards: list[str], summary: RecordsSummary
) -> list[str]:
    """How a sheet differs from the one that the tables give: in any pixel, or by carrying more."""
    expected = _drawn(folder, shards, summary)
    problem = png_problem(data, expected.shape)
    if problem is not None:
        return [f"{SHEET} {problem}."]
    if not np.array_equal(decode_png(data, expected.shape), expected):
        return [f"{SHEET} shows something else than the tables hold."]
    return []


def _drawn(folder: Path, shards: list[str], summary: RecordsSummary) -> Array:
    batches = record_batches(folder, shards, summary)
    return contact_sheet(rows_of(batches, summary.schema, summary.shape))
