"""Where the bytes of a Parquet file are: readers skip whatever no column points to."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

_MAGIC = 4
_TAIL = 8


def hidden_bytes(path: Path, table: pq.ParquetFile) -> int:
    """How many bytes lie outside the columns and the list of them at the end.

    Columns must follow each other from the first byte on, as our writers lay them. What is
    inside a column's pages or inside the list, and skipped by readers, is not seen.
    """
    size, listed = path.stat().st_size, table.metadata
    expected, hidden = _MAGIC, 0
    for group in range(listed.num_row_groups):
        row_group = listed.row_group(group)
        for number in range(row_group.num_columns):
            column = row_group.column(number)
            first = column.dictionary_page_offset or column.data_page_offset
            hidden += abs(first - expected)
            expected = first + column.total_compressed_size
    return hidden + abs(size - _TAIL - _list_length(path) - expected)


def _list_length(path: Path) -> int:
    with path.open("rb") as file:
        file.seek(-_TAIL, 2)
        return int.from_bytes(file.read(4), "little")
