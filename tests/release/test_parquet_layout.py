"""Bytes of a Parquet file that no reader looks at."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from understudy.release.parquet_layout import hidden_bytes


@pytest.fixture
def path(tmp_path):
    table = pa.table({"a": list(range(100)), "b": ["x", None] * 50, "c": [[1.0]] * 100})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=30)
    return tmp_path / "t.parquet"


def hidden(path) -> int:
    with pq.ParquetFile(path) as table:
        return hidden_bytes(path, table)


def test_a_plain_file_hides_nothing(path):
    assert hidden(path) == 0


@pytest.mark.parametrize("count", [1, 1000])
def test_bytes_before_the_list_of_columns_are_counted(path, count):
    data = path.read_bytes()
    end = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    path.write_bytes(data[:end] + bytes(count) + data[end:])
    assert pq.read_table(path).num_rows == 100, "readers do not see them"
    assert hidden(path) == count
